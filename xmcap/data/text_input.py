"""Tokenizers for text towers: our own vocabularies, or the tokenizer files of a pretrained tower."""

import pathlib
import re
import string
from collections.abc import Sequence
from typing import Any, Protocol

import sentencepiece

from xmcap.data import nllb_languages
from xmcap.data.vocabulary import EOS_ID, PAD_ID, Vocabulary, read_model
from xmcap.errors import UsageError, one_line
from xmcap.storage import strict_json

TOKENIZER = "tokenizer.json"
"""File name of a transformers tokenizer, such as CLIP's and XLM-R's."""
_TOKENIZER_CONFIG, _NLLB_END = "tokenizer_config.json", "</s>"
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

  def encode_all(self, texts: Sequence[str], language: str = "") -> tuple[list[list[int]], int]:
    """Returns the ids of texts, including special tokens, and the number of texts truncated to max_length.

    `language` is the code of all texts; only NLLB's tokenizer uses it.
    """
    ...


class OwnPieces:
  """Our own vocabulary: pieces and EOS. A longer text keeps its first pieces without EOS, as in training."""

  def __init__(self, vocabulary: Vocabulary, max_length: int, fixed: bool = False):
    self.vocabulary, self.max_length = vocabulary, max_length
    self.pad_id, self.fixed, self.added = PAD_ID, fixed, 1

  def encode_all(self, texts: Sequence[str], language: str = "") -> tuple[list[list[int]], int]:
    encoded = [[*ids, EOS_ID] for ids in self.vocabulary.encode_all(texts)]
    return [ids[: self.max_length] for ids in encoded], _count_longer(encoded, self.max_length)


class TokenizerJson:
  """A `tokenizer.json` for Hugging Face's tokenizers. A truncated text keeps EOS.

  Args:
    path: the file; UsageError if it is none.
    max_length, pad_id: as in `TextInput`.
    siglip: as OpenCLIP reads it for SigLIP: texts in lower case without punctuation, always padded to max_length.
  """

  def __init__(self, path: pathlib.Path, max_length: int, pad_id: int, siglip: bool = False):
    self._tokenizer = read_tokenizer(path)
    self._tokenizer.enable_truncation(max_length)
    self.max_length, self.pad_id, self.fixed = max_length, pad_id, siglip
    self.added = self._tokenizer.num_special_tokens_to_add(False)

  def encode_all(self, texts: Sequence[str], language: str = "") -> tuple[list[list[int]], int]:
    if self.fixed:
      texts = [_plain(text.replace("_", " ")) for text in texts]
    encoded = self._tokenizer.encode_batch(list(texts))
    return [found.ids for found in encoded], sum(bool(found.overflowing) for found in encoded)


class NllbPieces:
  """NLLB's `tokenizer.json`: the code of the text's language, pieces, an end. A longer text keeps both.

  A language that NLLB does not have, or none, is read as English.
  """

  def __init__(self, path: pathlib.Path, max_length: int, pad_id: int):
    self._tokenizer = read_tokenizer(path)
    self._languages = frozenset(
      name for name in self._tokenizer.get_vocab() if re.fullmatch("[a-z]{3}_[A-Z][a-z]{3}", name)
    )
    self._end = self._tokenizer.token_to_id(_NLLB_END)
    if nllb_languages.ENGLISH not in self._languages or self._end is None:
      raise UsageError(f"{path}: not NLLB's tokenizer: it has no {nllb_languages.ENGLISH} or no {_NLLB_END}")
    self.max_length, self.pad_id, self.fixed, self.added = max_length, pad_id, False, 2

  def encode_all(self, texts: Sequence[str], language: str = "") -> tuple[list[list[int]], int]:
    first = self._tokenizer.token_to_id(nllb_languages.find(language, self._languages))
    most = self.max_length - self.added
    encoded = [found.ids for found in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]
    return [[first, *ids[:most], self._end] for ids in encoded], _count_longer(encoded, most)


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

  def encode_all(self, texts: Sequence[str], language: str = "") -> tuple[list[list[int]], int]:
    encoded = self._processor.encode([_plain(text) for text in texts], num_threads=1)
    most = self.max_length - 1
    return [[*ids[:most], self._end] for ids in encoded], _count_longer(encoded, most)


def read_tokenizer(path: pathlib.Path) -> Any:
  """A `tokenizers.Tokenizer` without padding and truncation; UsageError if the file holds none."""
  import tokenizers

  try:
    size = path.stat().st_size
    text = path.read_text(encoding="utf-8") if size <= _LARGEST else ""
  except (OSError, UnicodeDecodeError) as error:
    raise UsageError(f"{path}: cannot be read ({one_line(error)}): fetch it again") from None
  if not text:
    raise UsageError(f"{path}: {size:,} bytes; a tokenizer has {_LARGEST:,} at most, and is not empty")
  try:
    tokenizer = tokenizers.Tokenizer.from_str(text)
  except Exception as error:  # the library raises nothing more special
    raise UsageError(f"{path}: no tokenizer of Hugging Face ({one_line(error)}): fetch it again") from None
  tokenizer.no_padding()
  tokenizer.no_truncation()
  return tokenizer


def pad_id_beside(folder: pathlib.Path) -> int | None:
  """The id of the padding token that a folder's `tokenizer_config.json` names; None if there is no such file."""
  file = folder / _TOKENIZER_CONFIG
  if not file.is_file() or not (folder / TOKENIZER).is_file():
    return None
  if file.stat().st_size > _LARGEST:
    raise UsageError(f"{file}: more than {_LARGEST:,} bytes: fetch it again")
  token = strict_json.parse_object(file.read_bytes(), str(file)).get("pad_token")
  name = token.get("content") if isinstance(token, dict) else token
  return read_tokenizer(folder / TOKENIZER).token_to_id(name) if isinstance(name, str) else None


def _plain(text: str) -> str:
  return re.sub(r"\s+", " ", text.lower().translate(_PUNCTUATION)).strip()


def _count_longer(encoded: Sequence[Sequence[int]], most: int) -> int:
  return sum(len(ids) > most for ids in encoded)
