"""Texts to the ids that a text tower reads: by a vocabulary of ours, or by the files of the tower's own tokenizer."""

import pathlib
import re
import string
from collections.abc import Sequence
from typing import Protocol

import sentencepiece

from xmcap.data.vocabulary import EOS_ID, PAD_ID, Vocabulary, read_model
from xmcap.errors import UsageError, one_line

TOKENIZER = "tokenizer.json"
"""Of transformers: CLIP's, XLM-R's and most others'."""
SIGLIP = "spiece.model"
"""Of SigLIP: a SentencePiece model that reads texts in lower case and without punctuation."""

_LARGEST = 2**26  # bytes of a tokenizer.json; XLM-R's has 9 million, NLLB's 17
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class TextInput(Protocol):
  """A tokenizer.

  Attributes:
    pad_id: what fills up a text.
    max_length: ids of a text at most, what the tokenizer adds included.
    fixed: whether texts are always filled up to max_length.
    added: how many ids it adds to a text.
  """

  pad_id: int
  max_length: int
  fixed: bool
  added: int

  def encode_all(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
    """Returns the ids of texts, each with what the tokenizer adds, and how many texts were cut to max_length."""
    ...


class OwnPieces:
  """A vocabulary of ours: pieces and an end. A longer text keeps its first pieces and no end, as in training."""

  def __init__(self, vocabulary: Vocabulary, max_length: int):
    self.vocabulary, self.max_length = vocabulary, max_length
    self.pad_id, self.fixed, self.added = PAD_ID, False, 1

  def encode_all(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
    """See `TextInput.encode_all`."""
    encoded = [[*ids, EOS_ID] for ids in self.vocabulary.encode_all(texts)]
    return [ids[: self.max_length] for ids in encoded], _count_longer(encoded, self.max_length)


class TokenizerJson:
  """A `tokenizer.json`, read by Hugging Face's tokenizers; UsageError if it is none. A longer text keeps its end."""

  def __init__(self, path: pathlib.Path, max_length: int, pad_id: int):
    import tokenizers

    try:
      size = path.stat().st_size
      text = path.read_text(encoding="utf-8") if size <= _LARGEST else ""
    except (OSError, UnicodeDecodeError) as error:
      raise UsageError(f"{path}: cannot be read ({one_line(error)}): fetch it again") from None
    if not text:
      raise UsageError(f"{path}: {size:,} bytes; a tokenizer has {_LARGEST:,} at most, and is not empty")
    try:
      self._tokenizer = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library raises nothing more special
      raise UsageError(f"{path}: no tokenizer of Hugging Face ({one_line(error)}): fetch it again") from None
    self._tokenizer.no_padding()
    self._tokenizer.enable_truncation(max_length)
    self.max_length, self.pad_id, self.fixed = max_length, pad_id, False
    self.added = self._tokenizer.num_special_tokens_to_add(False)

  def encode_all(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
    """See `TextInput.encode_all`."""
    encoded = self._tokenizer.encode_batch(list(texts))
    return [found.ids for found in encoded], sum(bool(found.overflowing) for found in encoded)


class SiglipPieces:
  """SigLIP's tokenizer: lower case, no punctuation, pieces, an end; always filled up with ends. A longer text keeps it.

  As big_vision and transformers' SiglipTokenizer have it.
  """

  def __init__(self, path: pathlib.Path, max_length: int):
    self._processor = sentencepiece.SentencePieceProcessor()
    try:
      loaded = self._processor.LoadFromSerializedProto(read_model(str(path)))
    except (RuntimeError, ValueError, OSError):
      loaded = False
    if not loaded:
      raise UsageError(f"{path}: not a SentencePiece model: fetch it again")
    self._end = self._processor.eos_id()
    self.max_length, self.pad_id, self.fixed, self.added = max_length, self._end, True, 1

  def encode_all(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
    """See `TextInput.encode_all`."""
    plain = [re.sub(r"\s+", " ", text.lower().translate(_PUNCTUATION)).strip() for text in texts]
    encoded = self._processor.encode(plain, num_threads=1)
    most = self.max_length - 1
    return [[*ids[:most], self._end] for ids in encoded], _count_longer(encoded, most)


def _count_longer(encoded: Sequence[Sequence[int]], most: int) -> int:
  return sum(len(ids) > most for ids in encoded)
