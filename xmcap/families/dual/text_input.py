"""Tokenizers for text towers: our own vocabularies, or the tokenizer files of a pretrained tower."""

import dataclasses
import os
import pathlib
import re
import string
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from xmcap.data.vocabulary import EOS_ID, PAD_ID, VOCABULARY, Vocabulary, check_rows
from xmcap.errors import UsageError
from xmcap.families.dual import nllb_languages, tokenizer_files
from xmcap.families.dual.text_tower import CLEANINGS, TextConfig
from xmcap.families.dual.tokenizer_files import TOKENIZER, Described, read_pieces, read_tokenizer
from xmcap.files.bucket_paths import epath
from xmcap.models import model_json
from xmcap.models.t5 import T5Config

_LONGEST = 64  # pieces of a text, for towers that read any length
_AT_ONCE = 1 << 15  # characters that are encoded at once
_NLLB_END = "</s>"
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ASCII = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


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
    max_length, pad_id, fixed: as in `TextInput`.
    cleaning: as in `TextConfig`.
    template: tokens before and after each text, instead of those that the file adds; "" for none.
  """

  def __init__(
    self,
    path: pathlib.Path,
    max_length: int,
    pad_id: int,
    cleaning: str = "none",
    fixed: bool = False,
    template: tuple[str, str] | None = None,
  ):
    self._tokenizer = read_tokenizer(path)
    if template is not None:
      self._tokenizer.post_processor = _template(self._tokenizer, template, path)
    self._tokenizer.enable_truncation(max_length)
    self._clean = _CLEANINGS[cleaning]
    self.max_length, self.pad_id, self.fixed = max_length, pad_id, fixed
    self.added = self._tokenizer.num_special_tokens_to_add(False)

  def encode_all(self, texts: Sequence[str], language: str = "") -> tuple[list[list[int]], int]:
    encoded = self._tokenizer.encode_batch([self._clean(text) for text in texts])
    return [encoding.ids for encoding in encoded], sum(bool(encoding.overflowing) for encoding in encoded)


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
    encoded = [row.ids for row in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]
    return [[first, *ids[:most], self._end] for ids in encoded], _count_longer(encoded, most)


class SiglipPieces:
  """A SentencePiece model as SigLIP reads it: pieces of the cleaned text, EOS. A truncated text keeps EOS.

  Follows big_vision and transformers' SiglipTokenizer: SigLIP cleans `plain` and pads with EOS.

  Args:
    path: the file; UsageError if it is no such model, or has no EOS.
    max_length, pad_id, fixed: as in `TextInput`; SigLIP's EOS is 1.
    cleaning: as in `TextConfig`.
  """

  def __init__(
    self,
    path: pathlib.Path,
    max_length: int,
    pad_id: int = 1,
    cleaning: str = "plain",
    fixed: bool = True,
  ):
    self._processor = read_pieces(path)
    self._end, self._clean = self._processor.eos_id(), _CLEANINGS[cleaning]
    if self._end < 0:
      raise UsageError(f"{path}: has no token that ends a text: fetch it again")
    self.max_length, self.pad_id, self.fixed, self.added = max_length, pad_id, fixed, 1

  def encode_all(self, texts: Sequence[str], language: str = "") -> tuple[list[list[int]], int]:
    encoded = self._processor.encode([self._clean(text) for text in texts], num_threads=1)
    most = self.max_length - 1
    return [[*ids[:most], self._end] for ids in encoded], _count_longer(encoded, most)


class Guarded:
  """A pretrained tower's tokenizer, whose errors and panics take one line.

  A text that has more than `max_length` ids with its special tokens is cut there.
  """

  def __init__(self, tokenizer: TextInput, folder: pathlib.Path):
    self._tokenizer, self._folder = tokenizer, folder
    self.pad_id, self.max_length = tokenizer.pad_id, tokenizer.max_length
    self.fixed, self.added = tokenizer.fixed, tokenizer.added
    # So that what is wrong is found, and what Rust prints about it dropped, before anything is encoded.
    self._encode_all(["a", "", "☃ 字"], "", silently=True)

  def encode_all(self, texts: Sequence[str], language: str = "") -> tuple[list[list[int]], int]:
    return self._encode_all(texts, language, silently=False)

  def _encode_all(self, texts: Sequence[str], language: str, silently: bool) -> tuple[list[list[int]], int]:
    encoded: list[list[int]] = []
    longer = 0
    with tokenizer_files.one_line_for(f"{self._folder}: its tokenizer cannot split texts", silently):
      for few in _few(texts):
        of_few, cut = self._tokenizer.encode_all(few, language)
        encoded += [ids[: self.max_length] for ids in of_few]
        longer += cut
    return encoded, longer


def _few(texts: Sequence[str]) -> Iterator[Sequence[str]]:
  """Splits texts into parts of some characters, because a normaliser may lengthen all of them."""
  start, size = 0, 0
  for end, text in enumerate(texts):
    if size and size + len(text) > _AT_ONCE:
      yield texts[start:end]
      start, size = end, 0
    size += len(text)
  yield texts[start:]


def of_folder(folder: str | os.PathLike, config: T5Config | TextConfig, longest: int = 0) -> TextInput:
  """Opens the tokenizer in the folder of a run, or beside the weights that `xmcap convert` wrote.

  Texts are cut to `longest` tokens, if the tower reads texts of several lengths; 0: to those that it reads.

  UsageError if there is none, or it does not belong to the tower.
  """
  folder = epath.Path(folder)
  if longest and isinstance(config, TextConfig) and config.pool != "last":
    config = dataclasses.replace(config, max_length=min(longest, config.max_length))
  most = longest or _LONGEST if isinstance(config, T5Config) else config.max_length
  if (folder / VOCABULARY).exists():
    vocabulary = Vocabulary(os.fspath(folder / VOCABULARY))
    check_rows(vocabulary, config.vocab_size)
    return OwnPieces(vocabulary, most, fixed=getattr(config, "pool", "") == "last")
  if isinstance(config, TextConfig):
    text_input = open_pretrained(pathlib.Path(folder), config)
    if text_input is not None:
      return text_input
  names = f"{VOCABULARY}, {tokenizer_files.TOKENIZER}, {tokenizer_files.SIGLIP} (SigLIP's)"
  raise UsageError(f"{folder}: no tokenizer of its text tower: put one of these files there: {names}")


def open_pretrained(folder: pathlib.Path, config: TextConfig) -> TextInput | None:
  """Opens the tokenizer files of a pretrained text tower; None if there are none.

  UsageError if they are damaged, or disagree with the configuration on the padding or on the end of a text.
  """
  described = tokenizer_files.describe(folder)
  model, path = described.model(), folder / TOKENIZER
  last = config.pool == "last"
  if model is not None and (last or described.kind or not path.is_file()):
    tokenizer = SiglipPieces(model, config.max_length, config.pad_id, config.cleaning, last)
  elif not path.is_file():
    return None
  elif config.positions == "sinusoidal":
    return NllbPieces(path, config.max_length, config.pad_id)
  else:
    template = described.template if described.gemma else None
    tokenizer = TokenizerJson(path, config.max_length, config.pad_id, config.cleaning, last, template)
  guarded = Guarded(tokenizer, folder)
  _check(guarded, described, config, folder)
  return guarded


def _check(tokenizer: TextInput, described: Described, config: TextConfig, folder: pathlib.Path) -> None:
  # Padding that is masked, or that follows all tokens that the output sees, changes nothing.
  matters = config.pool == "last" or config.mask_padding or config.positions != "learned"
  if matters and described.pad_id is not None and described.pad_id != config.pad_id:
    raise UsageError(
      f"{folder}: its tokenizer pads with id {described.pad_id}, and the text tower with {config.pad_id} (pad_id of"
      f" {model_json.NAME}): put the tokenizer there that the tower was trained with"
    )
  if config.pool in ("end", "last"):
    ids = tokenizer.encode_all(["a"])[0][0]
    if ids[-1:] != [config.end_id] and (config.pool == "last" or config.end_id not in ids):
      raise UsageError(
        f"{folder}: its tokenizer ends a text with id {ids[-1] if ids else 'none'}, and the text tower with"
        f" {config.end_id} (end_id of {model_json.NAME}): put the tokenizer there that the tower was trained with"
      )


def _template(tokenizer: Any, template: tuple[str, str], path: pathlib.Path) -> Any:
  import tokenizers

  id_of = {token: tokenizer.token_to_id(token) for token in template if token}
  if None in id_of.values():
    missing = next(token for token in id_of if id_of[token] is None)
    raise UsageError(f"{path}: has no token {missing!r}, which {tokenizer_files.CONFIG} adds to texts")
  single = " ".join(part for part in (template[0], "$A", template[1]) if part)
  return tokenizers.processors.TemplateProcessing(single=single, special_tokens=list(id_of.items()))


def _plain(text: str) -> str:
  return re.sub(r"\s+", " ", text.lower().translate(_PUNCTUATION)).strip()


def _lower(text: str) -> str:
  # Letter by letter, as tokenizers' Lowercase does: a final sigma is not recognised.
  return "".join(letter.lower() for letter in text)


_CLEANINGS: dict[str, Callable[[str], str]] = {
  "none": lambda text: text,
  "lower": _lower,
  "lower_ascii": lambda text: text.translate(_ASCII),
  "plain": _plain,
  "canonical": lambda text: _plain(text.replace("_", " ")),
}
assert set(_CLEANINGS) == set(CLEANINGS)


def _count_longer(encoded: Sequence[Sequence[int]], most: int) -> int:
  return sum(len(ids) > most for ids in encoded)
