"""SentencePiece vocabularies: mT5's, or one trained on the text of a corpus.

Ids follow mT5 (Xue et al. 2021, section 3.2): 0 is padding, 1 is EOS, 2 is unknown; byte pieces encode characters that
have no piece. Models trained here also have a LangId piece for each language, `<en>` to `<zh>`, which is the prompt of
Thapliyal et al. (2022), section 3.2. mT5's own model has no such pieces, so its prompt is the language code as text.

A vocabulary of words has a piece `<words>` too, and encodes the words of captions; rare words are unknown, several in
succession as one.
"""

import collections
import functools
import hashlib
import io
import itertools
import os
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence

import gin
import numpy as np
import sentencepiece

from xmcap import languages as languages_lib
from xmcap import wording
from xmcap.data import records
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.files import addresses, files, paths
from xmcap.models.targets import Stabilizing, TargetFormat
from xmcap.terminal import shown

PAD_ID = 0
EOS_ID = 1
VOCABULARY = "vocabulary.model"
"""The file of a vocabulary in the folder of a run."""
UNK_ID = 2
ROW_MULTIPLE = 128
WORDS_PIECE = "<words>"
"""The piece that tells a vocabulary of words."""
MT5_SIZE = 250_100
"""Number of pieces of mT5's model, whose prompt is the language code as text."""
LARGEST = 2**28
"""Limit for a model file in bytes; mT5's has 4.3 million."""

MOST_CAPTIONS = 2_000_000
"""Default number of captions for training a vocabulary; more take hours and change little."""

_LEAST = re.compile(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)")
_SAMPLE = 64  # images for estimating the captions per image
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_TRAINER_THREADS = 2  # fixed, because the trainer sums per thread: gives the same model on every machine


def language_piece(language: str) -> str:
  """Returns the LangId piece of a language: `<th>` for `th`."""
  return f"<{language}>"


@gin.configurable
def train_vocabulary(
  text_file: str,
  out_model: str,
  size: int = 4_000,
  span_words: bool = False,
  languages: Sequence[str] = (),
) -> "Vocabulary":
  """Trains a unigram SentencePiece model with byte fallback and the 36 LangId pieces; deterministic.

  Args:
    text_file: UTF-8 text, one sentence per line.
    out_model: the file to write.
    size: number of pieces, including special ones; a small text may give fewer.
    span_words: whether a piece may span several words, such as a whole name; gives short targets, unlike mT5.
    languages: further languages with LangId pieces.
  """
  return _train(_read_lines(text_file), text_file, out_model, size, span_words, languages)


def _train(
  sentences: Sequence[str], origin: str, out_model: str, size: int, span_words: bool, languages: Iterable[str],
  words: bool = False,
) -> "Vocabulary":  # fmt: skip
  """Trains a vocabulary as `train_vocabulary`; `origin` names the source of the sentences in messages.

  With `words`, each word between spaces is a piece, and there are no others.
  """
  if not sentences:
    raise UsageError(f"{origin}: no text to train a vocabulary on: give a file with sentences")
  model = io.BytesIO()
  try:
    sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=iter(sentences),
      model_writer=model,
      model_type="word" if words else "unigram",
      vocab_size=size,
      hard_vocab_limit=False,
      byte_fallback=not words,
      character_coverage=0.9999,  # rarer characters become bytes
      # Lossless, whereas mT5's `nmt_nfkc` decomposes Thai's SARA AM and drops Persian's zero-width non-joiners.
      normalization_rule_name="identity",
      split_by_whitespace=not span_words,
      split_by_unicode_script=not span_words,
      max_sentencepiece_length=48 if span_words else 16,
      pad_id=PAD_ID,
      eos_id=EOS_ID,
      unk_id=UNK_ID,
      bos_id=-1,
      user_defined_symbols=[
        *map(language_piece, languages_lib.ordered({*languages_lib.LANGUAGES, *languages})),
        *([WORDS_PIECE] if words else ()),
      ],
      num_threads=_TRAINER_THREADS,
      minloglevel=2,
    )
  except (RuntimeError, OSError, ValueError) as error:
    if least := _LEAST.search(str(error)):
      raise UsageError(
        f"{origin}: cannot train a vocabulary of {size} pieces: its characters, bytes and languages alone take "
        f"{least[1]}: give at least {least[1]}"
      ) from None
    raise UsageError(
      f"{origin}: cannot train a vocabulary of {size} pieces: {one_line(error)}; change `size`"
    ) from None
  path = pathlib.Path(out_model)
  files.make_folder(path.parent)
  files.write_bytes(path, model.getvalue())
  return Vocabulary(out_model)


def train_on_records(
  directory: str,
  out_model: str,
  size: int,
  *,
  split: str = "train",
  most: int = MOST_CAPTIONS,
  span_words: bool = False,
  languages: Sequence[str] = (),
  oversample: Mapping[str, int] | None = None,
  word_count: int = 0,
) -> "Vocabulary":
  """Trains a vocabulary on the captions of a corpus with `train_vocabulary`.

  It has the 36 LangId pieces, and those of other languages in the corpus.

  Args:
    directory, split: the records.
    out_model, size, span_words: as for `train_vocabulary`.
    most: largest number of captions; for a larger split evenly spaced images are used.
    languages: codes of the captions to read; (): all.
    oversample: code -> how many times each caption in it counts; 1 for other languages. PLuGS counts English 1, 30 or
      90 times in a draft of Crossmodal-3600, because a stabilizer precedes every caption.
    word_count: make a vocabulary of the words that occur so often (see `word_text`), whatever the size; 0: of pieces.

  Raises:
    UsageError: the corpus or split does not exist, or has too little text in these languages.
  """
  source = records.RecordSource(directory, split)
  sample = source.read(records.spread(source, _SAMPLE))
  mean = max(1.0, sum(len(record.captions) for record in sample) / len(sample))
  sentences: list[str] = []
  codes: set[str] = set()
  counts = oversample or {}
  for record in source.iterate(records.spread(source, max(1, int(most / mean)))):
    for caption in record.captions:
      # Without line breaks and tabs, but with other characters as they are, such as a non-breaking space.
      text = word_text(caption) if word_count else caption.text
      text = b" ".join(text.encode().split()).decode().strip()
      if text and (not languages or caption.language in languages):
        codes.add(caption.language)
        sentences += [text] * counts.get(caption.language, 1)
  if absent := sorted(counts.keys() - codes):
    raise UsageError(
      f"{directory}, split '{split}': no captions in {' '.join(absent)} to oversample: leave it out"
    )
  in_languages = f" in {' '.join(languages)}" if languages else ""
  origin = f"{directory}, split '{split}'{in_languages}"
  if word_count:
    counted = collections.Counter(word for sentence in sentences for word in sentence.split())
    sentences = [word for word, occurrences in counted.items() if occurrences >= word_count]
    size = 2 * len(sentences) + ROW_MULTIPLE  # those of the languages too
  return _train(sentences, origin, out_model, size, span_words, codes, words=bool(word_count))


def word_text(caption: records.Caption) -> str:
  """The words of a caption, in lower case, joined by spaces, without punctuation.

  They are its tokens, where it has some. UsageError if it has none, and its language writes no spaces.
  """
  if caption.text_tokenized:
    tokens = caption.text_tokenized.lower().split()
    return " ".join(token for token in tokens if any(char.isalnum() for char in token))
  if not languages_lib.get(caption.language).spaces:
    raise UsageError(
      f"a caption in '{caption.language}' without words ('{shown(caption.text, 40)}'), for a vocabulary of words: build"
      " the corpus from a release that has words, or make a vocabulary of pieces"
    )
  return " ".join(_WORD.findall(caption.text.lower()))


def _read_lines(path: str) -> list[str]:
  """Returns the non-blank lines of a UTF-8 file; UsageError if it cannot be read."""
  lines: list[str] = []
  try:
    with open(path, "rb") as file:
      for line in file:
        lines.append(line.decode("utf-8").strip())
  except UnicodeDecodeError:
    raise UsageError(f"{path}, line {len(lines) + 1}: not UTF-8: save the file as UTF-8") from None
  except OSError as error:
    raise UsageError(f"{path}: cannot be read ({error.strerror}): give a readable text file") from None
  return [line for line in lines if line]


def read_model(path: str) -> bytes:
  """Reads the bytes of a model, local or in a bucket; UsageError if it cannot be read."""
  if not addresses.is_remote(path):
    paths.check_file(path)
  try:
    # A local file that is too large is not read at all.
    size = 0 if addresses.is_remote(path) else os.path.getsize(path)
    model = addresses.read_bytes(path) if size <= LARGEST else b""
  except (OSError, XmcapError) as error:
    reason = getattr(error, "strerror", None) or one_line(error)
    raise UsageError(
      f"{path}: the vocabulary cannot be read ({reason}): give a SentencePiece model"
    ) from None
  size = max(size, len(model))
  if size > LARGEST:
    raise UsageError(f"{path}: {size:,} bytes; a SentencePiece model has at most {LARGEST:,}: give another")
  return model


class Vocabulary:
  """A SentencePiece model with mT5's special ids; thread-safe, pickles as its path.

  Args:
    path: a `.model` file: mT5's, or one written by `train_vocabulary`; a path or an address (`gs://...`).

  Attributes:
    model, sha256: the bytes of the file, and their hash.
    processor: the SentencePieceProcessor.

  Raises:
    UsageError: the file does not exist, is not a SentencePiece model, or its special ids are not mT5's.
  """

  def __init__(self, path: str):
    self.path = os.fspath(path)
    self.model = read_model(self.path)
    self.sha256 = hashlib.sha256(self.model).hexdigest()
    self.processor = sentencepiece.SentencePieceProcessor()
    try:
      # SentencePiece also loads an empty file, and pieces that are not UTF-8, without an error.
      loaded = bool(self.model) and self.processor.LoadFromSerializedProto(self.model)
      pieces = self.processor.id_to_piece(list(range(self.size))) if loaded else ()
    except (RuntimeError, ValueError, OSError):
      pieces = ()
    if not pieces:
      raise UsageError(f"{self.path}: not a SentencePiece model: give mT5's .model file or train one")
    ids = (self.processor.pad_id(), self.processor.eos_id(), self.processor.unk_id())
    if ids != (PAD_ID, EOS_ID, UNK_ID):
      raise UsageError(
        f"{self.path}: the ids of padding, EOS and unknown are {ids}, not {(PAD_ID, EOS_ID, UNK_ID)} as in mT5: "
        "give a model with those ids"
      )

  def __reduce__(self):
    return _opened, (self.path, self.sha256)

  @property
  def size(self) -> int:
    """Number of pieces, including special ones (mT5: 250,100)."""
    return self.processor.get_piece_size()

  @property
  def rows(self) -> int:
    """Rows of the embedding and the logits: `size` rounded up to a multiple of 128 (mT5: 250,112)."""
    return -(-self.size // ROW_MULTIPLE) * ROW_MULTIPLE

  @property
  def separator(self) -> int:
    """The id of the separator after a stabilizer: the first row that has no piece; UsageError if there is none."""
    if self.size == self.rows:
      raise UsageError(
        f"{self.path}: its {self.size:,} pieces leave no row for the separator of stabilizers: train another, whose "
        f"number of pieces is not a multiple of {ROW_MULTIPLE}"
      )
    return self.size

  def marks(self, stabilizer: Stabilizing | None) -> TargetFormat | None:
    """Returns the tokens around a stabilizer; None for None."""
    if stabilizer is None:
      return None
    return stabilizer.marks(self.separator, tuple(self.prompt(stabilizer.language)))

  @functools.cached_property
  def reads_words(self) -> bool:
    """Whether the pieces are words, so that `text_of` gives those of a caption."""
    return self.processor.piece_to_id(WORDS_PIECE) != UNK_ID

  def text_of(self, caption: records.Caption) -> str:
    """The text of a caption that is to be encoded: of a vocabulary of words, `word_text`."""
    return word_text(caption) if self.reads_words else caption.text

  def text_at(self, record: records.Columns, place: int) -> str:
    """As `text_of`, of a record's caption."""
    text = record.texts[place].decode()
    if not self.reads_words:
      return text
    return word_text(
      records.Caption(record.languages[place].decode(), text, record.tokenized[place].decode())
    )

  def encode(self, text: str) -> list[int]:
    """Returns the ids of a text, without EOS."""
    return self.processor.encode(text)

  def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
    """Returns the ids of each text, without EOS, in one call on the calling thread."""
    return self.processor.encode(list(texts), num_threads=1)

  def decode(self, ids: Sequence[int] | np.ndarray) -> str:
    """Returns the text of ids up to the first EOS, without padding; ids of rows without a piece become unknown."""
    kept = itertools.takewhile(lambda token: token != EOS_ID, np.asarray(ids, np.int64).tolist())
    rows = range(self.size)
    return self.processor.decode([token if token in rows else UNK_ID for token in kept if token != PAD_ID])

  def has_language_piece(self, language: str) -> bool:
    """Whether the model has the LangId piece of a language."""
    return self.processor.piece_to_id(language_piece(language)) != UNK_ID

  def prompt(self, language: str) -> list[int]:
    """Returns the ids of the prompt for a language: the piece `<xx>` if it exists, else `xx` as text (mT5)."""
    code = languages_lib.get(language).code
    piece = self.processor.piece_to_id(language_piece(code))
    return self.encode(code) if piece == UNK_ID else [piece]


def check_rows(vocabulary: Vocabulary, rows: int) -> None:
  """Raises UsageError if the size of a vocabulary does not match the number of embedding rows of a model.

  A model has a row per piece, rounded up to a multiple of 128. Too few pieces are as wrong as too many, as the ids
  would mean something else to the model.
  """
  if vocabulary.rows != rows:
    raise UsageError(
      f"{vocabulary.path}: {vocabulary.size:,} pieces do not fit the model's {rows:,} rows (T5Config.vocab_size): give "
      f"the model's own vocabulary (mT5's has {MT5_SIZE:,} pieces) with --gin.VOCABULARY=PATH or, if its T5 begins "
      "fresh, --gin.T5Config.vocab_size='@vocabulary_rows()'"
    )


def check_prompts(vocabulary: Vocabulary, languages: Sequence[str]) -> None:
  """Raises UsageError for languages without a unique prompt; only mT5's model may lack LangId pieces."""
  without = [language for language in languages if not vocabulary.has_language_piece(language)]
  if without and (len(without) < len(languages) or vocabulary.size != MT5_SIZE):
    raise UsageError(
      f"{vocabulary.path}: no LangId piece such as {language_piece(without[0])} for {' '.join(without)} among its "
      f"{vocabulary.size:,} pieces: give mT5's model ({MT5_SIZE:,} pieces, prompted by the code as text), or one from "
      "`xmcap data vocabulary` and of a pretrained captioner its ViT alone: --gin.PRETRAINED=\"[('FOLDER', 'vit')]\""
    )
  prompts = [tuple(vocabulary.prompt(language)) for language in languages]
  repeated = wording.repeated(prompts)
  for language, prompt in zip(languages, prompts, strict=True):
    if not prompt or UNK_ID in prompt or prompt in repeated:
      raise UsageError(
        f"{vocabulary.path}: the prompt of '{language}' is unknown, or the same as another language's: give another "
        "vocabulary"
      )


@functools.cache
def _opened(path: str, sha256: str) -> Vocabulary:
  """Returns a vocabulary that was pickled in another process, opened only once; XmcapError if it has changed since."""
  vocabulary = Vocabulary(path)
  if vocabulary.sha256 != sha256:
    raise XmcapError(f"{path}: the vocabulary changed while it was being used: start again")
  return vocabulary
