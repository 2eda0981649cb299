"""SentencePiece vocabularies: mT5's, or one trained on the text of a corpus, behind one class.

Ids follow mT5 (Xue et al. 2021, section 3.2): 0 pads, 1 ends a sequence, 2 is unknown; pieces of single
bytes stand for characters that the model has never seen. Models trained here hold one more piece for each
language, `<en>` to `<zh>`, the LangId prompt of Thapliyal et al. (2022), section 4.1; mT5's own model has
no such pieces, and its prompt is the language's code as text.
"""

import atexit
import contextlib
import functools
import hashlib
import io
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import gin
import numpy as np
import sentencepiece

from xmcap import languages as languages_lib
from xmcap.errors import UsageError, XmcapError
from xmcap.storage import addresses, files

PAD_ID = 0
EOS_ID = 1
UNK_ID = 2
ROW_MULTIPLE = 128
MT5_SIZE = 250_100
"""Pieces of mT5's model, whose prompt is a language's code as text."""
LARGEST = 2**28
"""Bytes of a model's file; mT5's has 4.3 million."""

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
) -> "Vocabulary":
  """Trains a unigram SentencePiece model with byte fallback and the 36 LangId pieces: the same bytes each time.

  Args:
    text_file: UTF-8 text, one sentence a line.
    out_model: the file to write.
    size: pieces wanted, special ones included; a text too small for so many gives fewer.
    span_words: pieces may hold several words, such as a whole name: short targets, but unlike mT5.
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
      user_defined_symbols=[language_piece(language) for language in languages_lib.LANGUAGES],
      num_threads=_TRAINER_THREADS,
      minloglevel=2,
    )
  except (RuntimeError, OSError, ValueError) as error:
    reason = " ".join(str(error).split())
    raise UsageError(
      f"{text_file}: no vocabulary of {size} pieces can be trained: {reason}; change `size`"
    ) from None
  path = pathlib.Path(out_model)
  files.make_folder(path.parent)
  files.write_bytes(path, model.getvalue())
  return Vocabulary(out_model)


def _lines(path: str) -> Iterator[str]:
  """The lines of a UTF-8 file that are not blank; UsageError if they cannot be read."""
  number = 1
  try:
    with open(path, "rb") as file:
      for line in file:
        text = line.decode("utf-8").strip()
        if text:
          yield text
        number += 1
  except UnicodeDecodeError as error:
    raise UsageError(
      f"{path}, line {number}: not UTF-8 ({error.reason} at byte {error.start}): save the file as UTF-8"
    ) from None
  except OSError as error:
    raise UsageError(f"{path}: cannot be read ({error.strerror}): give a readable text file") from None


def read_model(path: str) -> bytes:
  """Reads the bytes of a model from this machine or from a bucket; UsageError if it cannot be read."""
  reason = ""
  try:
    # A file of this machine that is too large is not even read.
    size = 0 if addresses.is_remote(path) else os.path.getsize(path)
    model = addresses.read_bytes(path) if size <= LARGEST else b""
  except OSError as error:
    reason = error.strerror or "it is absent"
  except XmcapError as error:
    reason = str(error)
  if reason:
    raise UsageError(f"{path}: the vocabulary cannot be read ({reason}): give a SentencePiece model")
  size = max(size, len(model))
  if size > LARGEST:
    raise UsageError(f"{path}: {size:,} bytes; a SentencePiece model has {LARGEST:,} at most: give another")
  return model


class Vocabulary:
  """A SentencePiece model with mT5's special ids, for text to ids and back; safe in threads, pickles as its path.

  Args:
    path: a `.model` file: mT5's, or one written by `train_vocabulary`; a path or an address (`gs://...`).

  Raises:
    UsageError: there is no such file, it is no SentencePiece model, or its special ids are not mT5's.
  """

  def __init__(self, path: str):
    self.path = os.fspath(path)
    model = read_model(self.path)
    self.sha256 = hashlib.sha256(model).hexdigest()
    self._processor = sentencepiece.SentencePieceProcessor()
    try:
      # An empty file loads without complaint, as a model of nothing.
      loaded = bool(model) and self._processor.LoadFromSerializedProto(model)
    except (RuntimeError, ValueError, OSError):
      loaded = False  # ValueError: the message itself is no UTF-8
    if not loaded or not self._processor.get_piece_size():
      raise UsageError(f"{self.path}: not a SentencePiece model: give mT5's .model file or train one")
    try:
      self._processor.id_to_piece(list(range(self._processor.get_piece_size())))
    except UnicodeDecodeError:
      raise UsageError(f"{self.path}: holds pieces that are not UTF-8: fetch or copy it again") from None
    ids = (self._processor.pad_id(), self._processor.eos_id(), self._processor.unk_id())
    if ids != (PAD_ID, EOS_ID, UNK_ID):
      raise UsageError(
        f"{self.path}: pad, end and unknown are ids {ids}, not {(PAD_ID, EOS_ID, UNK_ID)} as mT5's: "
        "give a model with those ids"
      )

  def __reduce__(self):
    return _opened, (self.path, self.sha256)

  @property
  def local_path(self) -> str:
    """The model as a file of this machine, for readers that know no other; a copy is there while the process is."""
    return _local_copy(self.path) if addresses.is_remote(self.path) else self.path

  @property
  def size(self) -> int:
    """The number of pieces, special ones included (mT5: 250,100)."""
    return self._processor.get_piece_size()

  @property
  def rows(self) -> int:
    """Rows of the embedding and the logits: `size` rounded up to a multiple of 128 (mT5: 250,112)."""
    return -(-self.size // ROW_MULTIPLE) * ROW_MULTIPLE

  def encode(self, text: str) -> list[int]:
    """Text to ids, without an end."""
    return self._processor.encode(text)

  def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
    """Texts to lists of ids, without ends, in one call on the calling thread."""
    return self._processor.encode(list(texts), num_threads=1)

  def decode(self, ids: Iterable[int]) -> str:
    """Ids to text: up to the first end, pads left out; ids of rows that no piece has read as unknown."""
    kept = []
    size = self.size
    for token in np.asarray(ids if hasattr(ids, "__len__") else list(ids), np.int64).reshape(-1).tolist():
      if token == EOS_ID:
        break
      if token != PAD_ID:
        kept.append(token if 0 <= token < size else UNK_ID)
    return self._processor.decode(kept)

  def piece(self, token: int) -> str:
    """The piece of an id, with `▁` for a space."""
    return self._processor.id_to_piece(token)

  def is_byte(self, token: int) -> bool:
    """Whether the piece of an id stands for a byte of a character that has no piece."""
    return self._processor.is_byte(token)

  def has_language_piece(self, language: str) -> bool:
    """Whether the model holds the LangId piece of a language."""
    return self._processor.piece_to_id(language_piece(language)) != UNK_ID

  def prompt(self, language: str) -> list[int]:
    """The ids that tell the model to write in a language: `<xx>` where it has that piece, else `xx` as text (mT5)."""
    return list(self._prompts[languages_lib.get(language).code])

  @functools.cached_property
  def _prompts(self) -> dict[str, tuple[int, ...]]:
    return {
      code: (self._processor.piece_to_id(language_piece(code)),)
      if self.has_language_piece(code)
      else tuple(self.encode(code))
      for code in languages_lib.LANGUAGES
    }


def check_prompts(vocabulary: Vocabulary, languages: Sequence[str]) -> None:
  """Raises UsageError for languages that have no prompt of their own; only mT5's model may do without LangId pieces."""
  without = [language for language in languages if not vocabulary.has_language_piece(language)]
  if without and (len(without) < len(languages) or vocabulary.size != MT5_SIZE):
    raise UsageError(
      f"{vocabulary.path}: no LangId piece such as {language_piece(without[0])} for {' '.join(without)} among its "
      f"{vocabulary.size:,} pieces: give mT5's model ({MT5_SIZE:,} pieces, prompted by the code as text), or one that "
      "`xmcap.data.vocabulary.train_vocabulary` wrote"
    )
  owners: dict[tuple[int, ...], str] = {}
  for language in languages:
    prompt = tuple(vocabulary.prompt(language))
    if not prompt or UNK_ID in prompt:
      raise UsageError(
        f"{vocabulary.path}: the prompt of '{language}' is unknown to it: give another vocabulary"
      )
    other = owners.setdefault(prompt, language)
    if other != language:
      raise UsageError(
        f"{vocabulary.path}: '{other}' and '{language}' have the same prompt: give another one"
      )


@functools.cache
def _opened(path: str, sha256: str) -> Vocabulary:
  """A vocabulary that comes from another process: opened once, not with each call."""
  del sha256
  return Vocabulary(path)


@functools.cache
def _local_copy(path: str) -> str:
  kept = contextlib.ExitStack()
  copy = kept.enter_context(addresses.local_copy(path))
  atexit.register(kept.close)
  return copy
