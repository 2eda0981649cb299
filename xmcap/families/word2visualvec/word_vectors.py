"""Word vectors for `words.py`: trained on the captions of a corpus by gensim, or read from a file.

Mikolov et al., "Distributed Representations of Words and Phrases and their Compositionality" (2013): skip-gram with
negative sampling. Dong et al., "Predicting Visual Features from Text" (2018), take vectors of 500 numbers and the words
with five occurrences or more.
"""

import collections
import dataclasses
import os
import pathlib
import re
from collections.abc import Sequence

import numpy as np

from xmcap import extras
from xmcap.data import features, records
from xmcap.data.features import Features
from xmcap.errors import UsageError
from xmcap.families.word2visualvec import words
from xmcap.files import tensors as tensor_files
from xmcap.reading.inputs import Input
from xmcap.terminal import shown
from xmcap.wording import count

LEAST, WIDTH, EPOCHS = 5, 500, 10
"""Occurrences of a word, numbers of a vector, passes over the captions: the defaults."""

_SAFETENSORS = ".safetensors"
_HEADER = re.compile(rb"[0-9]+ ([0-9]{1,9})\s*")  # number of words, and width


@dataclasses.dataclass(frozen=True)
class FrequentWords:
  """The frequent words of a language.

  Attributes:
    counts: word -> occurrences, most frequent first, equal ones by their characters.
    captions: all words of each caption.
  """

  counts: dict[str, int]
  captions: list[list[str]]

  @property
  def coverage(self) -> float:
    """The share of all words of the captions that are in the vocabulary."""
    return sum(self.counts.values()) / max(1, sum(map(len, self.captions)))

  @property
  def unknown(self) -> int:
    """Captions without a word of the vocabulary."""
    return sum(not any(word in self.counts for word in of_caption) for of_caption in self.captions)


def count_words(
  directory: str, split: str, languages: Sequence[str], sources: Sequence[str] = (), least: int = LEAST
) -> dict[str, FrequentWords]:
  """Counts the words of the captions of a split: language code -> its vocabulary.

  Args:
    directory, split: as in `records.RecordSource`.
    languages: codes.
    sources: sources of captions, of `records.SOURCES`; (): all.
    least: occurrences that a word needs.

  Raises:
    UsageError: there is no such split, or no caption or frequent word in a language.
  """
  texts: dict[str, list[tuple[str, str]]] = {language: [] for language in languages}
  for record in records.RecordSource(directory, split):
    for caption in record.captions:
      if caption.language in texts and (not sources or caption.source in sources):
        texts[caption.language].append((caption.text, caption.text_tokenized))
  vocabularies = {}
  for language, pairs in texts.items():
    where = f"{directory}, split '{split}'"
    if not pairs:
      of = f" from {', '.join(sources)}" if sources else ""
      raise UsageError(
        f"{where}: no caption in '{language}'{of}: choose other --languages, --sources or --split"
      )
    captions = words.split(language, *zip(*pairs, strict=True))
    counts = collections.Counter(word for of_caption in captions for word in of_caption)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    kept = {word: number for word, number in ordered if number >= least}
    if not kept:
      rare = f"no word occurs {least} times in {count(len(pairs), 'caption')}"
      raise UsageError(f"{where}: the vocabulary of '{language}' is empty: {rare}: choose a smaller --least")
    vocabularies[language] = FrequentWords(kept, captions)
  return vocabularies


def train(vocabulary: FrequentWords, width: int = WIDTH, epochs: int = EPOCHS, seed: int = 0) -> Features:
  """Trains the vectors of a vocabulary on its captions; the same seed gives the same vectors.

  UsageError if gensim is not installed.
  """
  try:
    from gensim.models import Word2Vec  # pyright: ignore[reportMissingImports]  # an extra
  except ImportError as error:
    raise UsageError(
      "gensim, which trains word vectors, is not installed: give --vectors=FILE instead, or "
      + extras.install("words")
    ) from error
  model = Word2Vec(
    vector_size=width,
    sg=1,
    min_count=1,
    workers=1,  # with more threads the order of updates, and so the vectors, would change from run to run
    seed=seed,
    epochs=epochs,
  )
  model.build_vocab_from_freq(vocabulary.counts)
  model.train(vocabulary.captions, total_examples=len(vocabulary.captions), epochs=epochs)
  vectors = np.stack([model.wv[word] for word in vocabulary.counts])
  return Features(tuple(vocabulary.counts), vectors.astype(np.float32))


def take(path: str | os.PathLike, vocabulary: FrequentWords) -> tuple[Features, int]:
  """Takes the vectors of a vocabulary from a file; returns them, and how many words have none there and get zeros.

  Args:
    path: word2vec's text (lines of a word and its numbers, perhaps after a line "words width"), or the same compressed,
      or a safetensors file of `words.write`.
    vocabulary: the words.

  Raises:
    UsageError: the file is missing, damaged, a pickle or in word2vec's binary form, its vectors differ in width or are
      not finite, or it has none of the words.
  """
  path = pathlib.Path(path)
  if not path.is_file():
    raise UsageError(f"{path}: no such file: give word vectors as word2vec's text or {_SAFETENSORS}")
  if path.suffix == ".bin":
    hint = "save the vectors as text (gensim: save_word2vec_format(binary=False))"
    raise UsageError(f"{path}: a .bin file is word2vec's binary form or a pickle: {hint}")
  tensor_files.refuse_pickle(path)
  if path.suffix == _SAFETENSORS:
    stored = features.read(path)
    place = {word: row for row, word in enumerate(stored.keys)}
    vector_of = {word: stored.vectors[place[word]] for word in vocabulary.counts if word in place}
    width = stored.vectors.shape[1]
  else:
    vector_of, width = _read_text(path, vocabulary)
  if not vector_of:
    words_of = count(len(vocabulary.counts), "word")
    raise UsageError(f"{path}: has a vector of none of {words_of}: give vectors of this language")
  zeros = np.zeros(width, np.float32)
  vectors = np.stack([vector_of.get(word, zeros) for word in vocabulary.counts]).astype(np.float32)
  return Features(tuple(vocabulary.counts), vectors), len(vocabulary.counts) - len(vector_of)


def _read_text(path: pathlib.Path, vocabulary: FrequentWords) -> tuple[dict[str, np.ndarray], int]:
  """Returns word -> vector, only for the words of the vocabulary, and the width."""
  vector_of: dict[str, np.ndarray] = {}
  width = 0
  with Input(path) as source:
    for number, line in source.raw_lines():
      if number == 1 and (header := _HEADER.fullmatch(line)):
        width = int(header[1])
        continue
      where = f"{path}, line {number}"
      word, *numbers = line.split()
      width = width or len(numbers)
      if len(numbers) != width or not width:
        reason = f"{count(len(numbers), 'number')}, but {width} in the lines before"
        raise UsageError(f"{where}: {reason}: give a word and its numbers, separated by single spaces")
      try:
        text = word.decode()
        if text not in vocabulary.counts or text in vector_of:
          continue
        vector = np.array(numbers, dtype="S").astype(np.float32)
      except (UnicodeDecodeError, ValueError):
        raise UsageError(f"{where}: not a word and numbers in UTF-8: mend or remove it") from None
      if not np.isfinite(vector).all():
        raise UsageError(f"{where}: the vector of '{shown(text)}' holds NaN or infinity: mend or remove it")
      vector_of[text] = vector
  return vector_of, width
