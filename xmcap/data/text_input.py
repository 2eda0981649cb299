"""Tokenizers for text towers: our own vocabularies, or the tokenizer files of a pretrained tower."""

import pathlib
import re
import string
from collections.abc import Sequence
from typing import Protocol

import sentencepiece

from xmcap.data.vocabulary import EOS_ID, PAD_ID, Vocabulary, read_model
from xmcap.errors import UsageError, one_line

TOKENIZER = "tokenizer.json"
"""File name of a transformers tokenizer, such as CLIP's and XLM-R's."""
SIGLIP = "spiece.model"
"""File name of SigLIP's SentencePiece model, which expects lower-case text without punctuation."""

_LARGEST = 2**26  # limit for a tokenizer.json in bytes; XLM-R's has 9 million, NLLB's 17 million
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class TextInput(Protocol):
  """A tokenizer.

  Attributes:
    pad_id: id of the padding token.
    max_length: largest number of ids per text, including special tokens.
    fixed: whether texts are always padded to max_length.
    added: number of special tokens that it adds to a text.
  """

  pad_id: int
  max_length: int
  fixed: bool
  added: int

  def encode_all(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
    """Returns the ids of texts, including special tokens, and the number of texts truncated to max_length."""
    ...


class OwnPieces:
  """Our own vocabulary: pieces and EOS. A longer text keeps its first pieces without EOS, as in training."""

  def __init__(self, vocabulary: Vocabulary, max_length: int):
    self.vocabulary, self.max_length = vocabulary, max_length
    self.pad_id, self.fixed, self.added = PAD_ID, False, 1

  def encode_all(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
    """See `TextInput.encode_all`."""
    encoded = [[*ids, EOS_ID] for ids in self.vocabulary.encode_all(texts)]
    return [ids[: self.max_length] for ids in encoded], _count_longer(encoded, self.max_length)


class TokenizerJson:
  """A `tokenizer.json` for Hugging Face's tokenizers; UsageError if it is not one. A truncated text keeps EOS."""

  def __init__(self, path: pathlib.Path, max_length: int, pad_id: int):
    import tokenizers

    try:
      size = path.stat().st_size
      text = path.read_text(encoding="utf-8") if size <= _LARGEST else ""
    except (OSError, UnicodeDecodeError) as error:
      raise UsageError(f"{path}: cannot be read ({one_line(error)}): fetch it again") from None
    if not text:
      raise UsageError(f"{path}: {size:,} bytes; a tokenizer has from 1 to {_LARGEST:,}: fetch it again")
    try:
      self._tokenizer = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library raises nothing more specific
      raise UsageError(f"{path}: not a Hugging Face tokenizer ({one_line(error)}): fetch it again") from None
    self._tokenizer.no_padding()
    self._tokenizer.enable_truncation(max_length)
    self.max_length, self.pad_id, self.fixed = max_length, pad_id, False
    self.added = self._tokenizer.num_special_tokens_to_add(False)

  def encode_all(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
    """See `TextInput.encode_all`."""
    encoded = self._tokenizer.encode_batch(list(texts))
    return [found.ids for found in encoded], sum(bool(found.overflowing) for found in encoded)


class SiglipPieces:
  """SigLIP's tokenizer: lower case, no punctuation, pieces, EOS; always padded with EOS. A truncated text keeps EOS.

  Follows big_vision and transformers' SiglipTokenizer.
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
