"""SentencePiece vocabularies: mT5's, or one trained on the text of a corpus, behind one class.

Ids follow mT5 (Xue et al. 2021, section 3.2): 0 pads, 1 ends a sequence, 2 is unknown; pieces of single
bytes stand for characters that the model has never seen. Models trained here hold one more piece for each
language, `<en>` to `<zh>`, the LangId prompt of Thapliyal et al. (2022), section 4.1; mT5's own model has
no such pieces, and its prompt is the language's code as text.
"""

import functools
import hashlib
import io
import itertools
import os
import pathlib
import tempfile
from collections.abc import Iterator, Sequence

import gin
import numpy as np
import sentencepiece

from xmcap import languages as languages_lib
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.storage import addresses, files

PAD_ID = 0
EOS_ID = 1
UNK_ID = 2
ROW_MULTIPLE = 128
MT5_SIZE = 250_100
"""Pieces of mT5's model, whose prompt is a language's code as text."""
LARGEST = 2**28
"""Bytes of a model's file; mT5's has 4.3 million."""

MOST_CAPTIONS = 2_000_000
"""Captions of a corpus that a vocabulary is trained on; more take hours and change little."""

_SAMPLE = 64  # pictures by which the captions of one are estimated
_TRAINER_THREADS = 2  # the trainer sums per thread: a fixed number gives the same model on every machine


def language_piece(language: str) -> str:
  """The LangId piece of a language: `<th>` for `th`."""
  return f"<{language}>"


@gin.configurable
def train_vocabulary(
  text_file: str,
  out_model: str,
  size: int = 4_000,
  span_words: bool = False,
  languages: Sequence[str] = (),
) -> "Vocabulary":
  """Trains a unigram SentencePiece model with byte fallback and the 36 LangId pieces: the same bytes each time.

  Args:
    text_file: UTF-8 text, one sentence a line.
    out_model: the file to write.
    size: pieces wanted, special ones included; a text too small for so many gives fewer.
    span_words: pieces may hold several words, such as a whole name: short targets, but unlike mT5.
    languages: further ones, which get LangId pieces beside the 36.
  """
  # Read once before, for the trainer would swallow an error of its iterator.
  if not sum(1 for _ in _lines(text_file)):
    raise UsageError(f"{text_file}: no text to train a vocabulary on: give a file with sentences")
  model = io.BytesIO()
  try:
    sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=_lines(text_file),
      model_writer=model,
      model_type="unigram",
      vocab_size=size,
      hard_vocab_limit=False,
      byte_fallback=True,
      character_coverage=0.9999,  # rarer characters are spelt in bytes
      # Decoding gives back the text that was encoded; mT5's `nmt_nfkc` takes Thai's SARA AM apart and drops Persian's
      # zero-width non-joiners.
      normalization_rule_name="identity",
      split_by_whitespace=not span_words,
      split_by_unicode_script=not span_words,
      max_sentencepiece_length=48 if span_words else 16,
      pad_id=PAD_ID,
      eos_id=EOS_ID,
      unk_id=UNK_ID,
      bos_id=-1,
      user_defined_symbols=[
        language_piece(language) for language in languages_lib.ordered({*languages_lib.LANGUAGES, *languages})
      ],
      num_threads=_TRAINER_THREADS,
      minloglevel=2,
    )
  except (RuntimeError, OSError, ValueError) as error:
    raise UsageError(
      f"{text_file}: no vocabulary of {size} pieces can be trained: {one_line(error)}; change `size`"
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
) -> "Vocabulary":
  """Trains a vocabulary on the captions of a corpus, in the way of `train_vocabulary`.

  Its LangId pieces are the 36, and those of further languages that occur.

  Args:
    most: captions; of a larger split evenly spread pictures are read.

  Raises:
    UsageError: there is no such corpus or split, or it has too little text.
  """
  from xmcap.data import records  # imports TensorFlow

  source = records.RecordSource(directory, split)
  sample = source.read(records.spread(source, _SAMPLE), records.parse_columns)
  mean = max(1.0, sum(len(record.texts) for record in sample) / len(sample))
  chosen = records.spread(source, max(1, int(most / mean)))
  codes: set[str] = set()
  with tempfile.TemporaryDirectory(prefix="xmcap-") as folder:
    path = os.path.join(folder, "captions.txt")
    with files.output(path) as file:
      for record in source.iterate(chosen, records.parse_columns):
        codes |= {code.decode() for code in record.languages}
        file.write(b"".join(b" ".join(text.split()) + b"\n" for text in record.texts))
    try:
      return train_vocabulary(path, out_model, size, span_words, sorted(codes))
    except UsageError as error:
      raise UsageError(str(error).replace(path, f"{directory}, split '{split}'")) from None


def _lines(path: str) -> Iterator[str]:
  """The lines of a UTF-8 file that are not blank; UsageError if they cannot be read."""
  try:
    with open(path, "rb") as file:
      for number, line in enumerate(file, 1):
        try:
          text = line.decode("utf-8").strip()
        except UnicodeDecodeError:
          raise UsageError(f"{path}, line {number}: not UTF-8: save the file as UTF-8") from None
        if text:
          yield text
  except OSError as error:
    raise UsageError(f"{path}: cannot be read ({error.strerror}): give a readable text file") from None


def read_model(path: str) -> bytes:
  """Reads the bytes of a model from this machine or from a bucket; UsageError if it cannot be read."""
  try:
    # A file of this machine that is too large is not even read.
    size = 0 if addresses.is_remote(path) else os.path.getsize(path)
    model = addresses.read_bytes(path) if size <= LARGEST else b""
  except (OSError, XmcapError) as error:
    reason = getattr(error, "strerror", None) or one_line(error)
    raise UsageError(
      f"{path}: the vocabulary cannot be read ({reason}): give a SentencePiece model"
    ) from None
  size = max(size, len(model))
  if size > LARGEST:
    raise UsageError(f"{path}: {size:,} bytes; a SentencePiece model has {LARGEST:,} at most: give another")
  return model


class Vocabulary:
  """A SentencePiece model with mT5's special ids, for text to ids and back; safe in threads, pickles as its path.

  Args:
    path: a `.model` file: mT5's, or one written by `train_vocabulary`; a path or an address (`gs://...`).

  Attributes:
    model, sha256: the bytes of the file, and their hash.
    processor: SentencePiece's own, over the model.

  Raises:
    UsageError: there is no such file, it is no SentencePiece model, or its special ids are not mT5's.
  """

  def __init__(self, path: str):
    self.path = os.fspath(path)
    self.model = read_model(self.path)
    self.sha256 = hashlib.sha256(self.model).hexdigest()
    self.processor = sentencepiece.SentencePieceProcessor()
    try:
      # An empty file loads without complaint, as a model of nothing, and so do pieces that are not UTF-8.
      loaded = bool(self.model) and self.processor.LoadFromSerializedProto(self.model)
      pieces = self.processor.id_to_piece(list(range(self.size))) if loaded else ()
    except (RuntimeError, ValueError, OSError):
      pieces = ()
    if not pieces:
      raise UsageError(f"{self.path}: not a SentencePiece model: give mT5's .model file or train one")
    ids = (self.processor.pad_id(), self.processor.eos_id(), self.processor.unk_id())
    if ids != (PAD_ID, EOS_ID, UNK_ID):
      raise UsageError(
        f"{self.path}: pad, end and unknown are ids {ids}, not {(PAD_ID, EOS_ID, UNK_ID)} as mT5's: "
        "give a model with those ids"
      )

  def __reduce__(self):
    return _opened, (self.path, self.sha256)

  @property
  def size(self) -> int:
    """The number of pieces, special ones included (mT5: 250,100)."""
    return self.processor.get_piece_size()

  @property
  def rows(self) -> int:
    """Rows of the embedding and the logits: `size` rounded up to a multiple of 128 (mT5: 250,112)."""
    return -(-self.size // ROW_MULTIPLE) * ROW_MULTIPLE

  def encode(self, text: str) -> list[int]:
    """Text to ids, without an end."""
    return self.processor.encode(text)

  def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
    """Texts to lists of ids, without ends, in one call on the calling thread."""
    return self.processor.encode(list(texts), num_threads=1)

  def decode(self, ids: Sequence[int] | np.ndarray) -> str:
    """Ids to text: up to the first end, pads left out; ids of rows that no piece has read as unknown."""
    kept = itertools.takewhile(lambda token: token != EOS_ID, np.asarray(ids, np.int64).tolist())
    known = range(self.size)
    return self.processor.decode([token if token in known else UNK_ID for token in kept if token != PAD_ID])

  def has_language_piece(self, language: str) -> bool:
    """Whether the model holds the LangId piece of a language."""
    return self.processor.piece_to_id(language_piece(language)) != UNK_ID

  def prompt(self, language: str) -> list[int]:
    """The ids that tell the model to write in a language: `<xx>` where it has that piece, else `xx` as text (mT5)."""
    code = languages_lib.get(language).code
    piece = self.processor.piece_to_id(language_piece(code))
    return self.encode(code) if piece == UNK_ID else [piece]


def check_rows(vocabulary: Vocabulary, rows: int) -> None:
  """Raises UsageError where a vocabulary is not of the size that a model was made for.

  A model has a row for each piece, rounded up to a multiple of 128. Too few pieces are as wrong as too many: the ids of
  a text would mean something else to the model.
  """
  if vocabulary.rows != rows:
    raise UsageError(
      f"{vocabulary.path}: {vocabulary.size:,} pieces do not fit the model's {rows:,} rows (T5Config.vocab_size): give "
      f"the vocabulary that it is for (mT5's has {MT5_SIZE:,} pieces), --gin.VOCABULARY=PATH, or change the model"
    )


def check_prompts(vocabulary: Vocabulary, languages: Sequence[str]) -> None:
  """Raises UsageError for languages that have no prompt of their own; only mT5's model may do without LangId pieces."""
  without = [language for language in languages if not vocabulary.has_language_piece(language)]
  if without and (len(without) < len(languages) or vocabulary.size != MT5_SIZE):
    raise UsageError(
      f"{vocabulary.path}: no LangId piece such as {language_piece(without[0])} for {' '.join(without)} among its "
      f"{vocabulary.size:,} pieces: give mT5's model ({MT5_SIZE:,} pieces, prompted by the code as text), or one that "
      "`xmcap data vocabulary` wrote"
    )
  prompts = [tuple(vocabulary.prompt(language)) for language in languages]
  for language, prompt in zip(languages, prompts, strict=True):
    if not prompt or UNK_ID in prompt or prompts.count(prompt) > 1:
      raise UsageError(
        f"{vocabulary.path}: the prompt of '{language}' is unknown to it, or another language's: give another"
      )


@functools.cache
def _opened(path: str, sha256: str) -> Vocabulary:
  """A vocabulary that comes from another process: opened once, not with each call."""
  return Vocabulary(path)
