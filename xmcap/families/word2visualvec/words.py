"""Words of captions with frozen vectors, a file for each language, as `xmcap data words` writes them.

FOLDER/CODE.safetensors   the words, most frequent first, and their vectors; a file of `data/features.py`
"""

import dataclasses
import functools
import hashlib
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from absl import logging

from xmcap import languages as languages_lib
from xmcap.data import features
from xmcap.data.features import Features
from xmcap.errors import UsageError
from xmcap.files import addresses, files
from xmcap.files import tensors as tensor_files
from xmcap.files.bucket_paths import epath
from xmcap.scoring import tokenizers
from xmcap.scoring.tokenizers import normalization
from xmcap.terminal import shown

FOLDER = "words"
"""Folder, in that of a trained model, with the words and their vectors."""

SPLITTER = "splitter"
"""What splits captions into words, in the metadata of a file."""

_SUFFIX = ".safetensors"
_HINT = "`xmcap data words` makes it"


@dataclasses.dataclass(frozen=True, eq=False)
class WordVectors:
  """The words of some languages and their vectors, numbered from 0 over all languages, one after the other.

  Attributes:
    by_language: language code -> its words.
    vectors: float32 [V, D].
    contents: language code -> the bytes of its file.
  """

  by_language: Mapping[str, tuple[str, ...]]
  vectors: np.ndarray
  contents: Mapping[str, bytes] = dataclasses.field(repr=False)

  def __len__(self) -> int:
    return len(self.vectors)

  @functools.cached_property
  def sha256(self) -> str:
    """A hash of words and vectors."""
    made = hashlib.sha256(repr(dict(self.by_language)).encode())
    made.update(np.ascontiguousarray(self.vectors).data)
    return made.hexdigest()

  def encode(self, language: str, texts: Sequence[str], tokenized: Sequence[str] = ()) -> list[np.ndarray]:
    """Returns int32 [n] for each caption: the numbers of its known words in their order, perhaps none.

    See `split` for the arguments. UsageError if there are no words of this language.
    """
    if language not in self._numbers:
      raise UsageError(f"no words in '{language}', only in {', '.join(self.by_language)}: {_HINT}")
    numbers = self._numbers[language]
    return [
      np.array([numbers[word] for word in words if word in numbers], np.int32)
      for words in split(language, texts, tokenized)
    ]

  def look_up(self, numbers: np.ndarray) -> np.ndarray:
    """Returns float32 [..., D]: the vectors of words given as 1 + their number; 0 for padding, which is 0."""
    return self.vectors[numbers - 1] * (numbers > 0)[..., None]

  @functools.cached_property
  def _numbers(self) -> dict[str, dict[str, int]]:
    numbers, start = {}, 0
    for language, words in self.by_language.items():
      numbers[language] = {word: start + number for number, word in enumerate(words)}
      start += len(words)
    return numbers


def split(language: str, texts: Sequence[str], tokenized: Sequence[str] = ()) -> list[list[str]]:
  """Splits captions into words: as the release did where it did, else by the default tokeniser.

  Words are in lower case and without punctuation either way, as those of `xmcap score --tokenizer=given`.

  Args:
    language: the code of the captions.
    texts: the captions.
    tokenized: the words of each caption, joined by spaces; "" for a caption that the release does not split.
  """
  joined = [text.strip() for text in tokenized] or [""] * len(texts)
  tokens = [text.split() for text in normalization.Normalizer(language)(joined)]
  plain = [place for place, text in enumerate(joined) if not text]
  if plain:
    split_plain = tokenizers.get("default", language).tokenize([texts[place] for place in plain])
    for place, words in zip(plain, split_plain, strict=True):
      tokens[place] = words
  return tokens


def write(folder: pathlib.Path, language: str, words: Features, about: Mapping[str, str]) -> None:
  """Writes the words of a language and their vectors; raises as `features.write`."""
  splitter = {SPLITTER: tokenizers.get("default", language).version}
  features.write(folder / f"{language}{_SUFFIX}", words, metadata={**about, **splitter})


def read(folder: str | os.PathLike, languages: Sequence[str]) -> WordVectors:
  """Reads the words of some languages from a folder, here or in a bucket.

  Raises:
    UsageError: a file is missing, damaged or a pickle, the vectors of two languages differ in width, or no language is
      given.
  """
  if isinstance(languages, str) or not languages:
    raise UsageError(f"languages of words are {languages!r}: give their codes, as in ('zh',)")
  vectors: dict[str, Features] = {}
  contents = {}
  for name in languages:
    language = languages_lib.get(name).code
    path = addresses.join(folder, f"{language}{_SUFFIX}")
    if not addresses.is_file(path):
      raise UsageError(f"{path}: no such file: {_HINT}")
    with addresses.local_copy(path) as copy:
      contents[language] = pathlib.Path(copy).read_bytes()
      stored = features.read(copy)
      _check_splitter(copy, path, language)
      vectors[language] = Features(stored.keys, np.array(stored.vectors))
  widths = {language: of_language.vectors.shape[1] for language, of_language in vectors.items()}
  if len(set(widths.values())) > 1:
    listed = ", ".join(f"{width} in '{language}'" for language, width in widths.items())
    raise UsageError(f"{folder}: word vectors of different widths ({listed}): make them with one --width")
  words = {language: of_language.keys for language, of_language in vectors.items()}
  return WordVectors(
    words, np.concatenate([of_language.vectors for of_language in vectors.values()]), contents
  )


def copy_to(folder: epath.Path, words: WordVectors) -> None:
  """Writes the files of `read` into another folder, here or in a bucket; those that are there stay as they are."""
  for language, data in words.contents.items():
    path = folder / f"{language}{_SUFFIX}"
    if not path.exists() or path.read_bytes() != data:
      files.write_anywhere(path, data)


def _check_splitter(copy: str, path: str, language: str) -> None:
  """Warns if this machine may split captions in another way than the one that made the words."""
  here, there = tokenizers.get("default", language).version, tensor_files.read_metadata(copy).get(SPLITTER)
  if there is not None and there != here:
    logging.warning(
      "%s: its captions were split by %s, here by %s: words may be missed", path, shown(there), here
    )
