"""What the values of a column are: words, or addresses, numbers, identifiers, names of files and the like."""

import collections
import dataclasses
import posixpath
import re
from collections.abc import Mapping
from typing import Any

from xmcap import languages
from xmcap.corpora.folder import split_choice
from xmcap.errors import UsageError
from xmcap.reading import archives, columns, image_formats, layouts, literals

WORDS = "words"
LOST = "question marks"
"""Texts whose letters another program lost when it saved them: `???? ??`."""
SAVE_AGAIN = "another program lost their letters when it saved them: save the table as `CSV UTF-8`"

ADDRESSES = "addresses"
EMBEDDED = "pictures"
PICTURE_FILES = "names of pictures"
SPLITS = "names of splits"
_NOTHING = ("", "-", "nan", "none", "null", "n/a", "na", "<na>")
_FLAGS = ("true", "false", "yes", "no")
_ADDRESS = re.compile(
  r"([a-z][a-z0-9+.-]*:(//|[^\s/]+[@=,;/])|www\.)\S*|[^\s@]+@[^\s@]+\.[a-z]+", re.IGNORECASE
)
_HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,6}/\S*", re.IGNORECASE)
_PICTURE_NAMES = (*archives.PICTURES, ".jp2", ".svg")
_FILE = re.compile(r"\S*[^\s.]\.[a-z0-9]{1,5}|([a-z]:)?\S*[\\/]\S*|[a-z]:\\.*|\\\\.*", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d\b.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}\b.*", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)e[+-]?\d+|[+-]?inf(inity)?", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-f]{16,}", re.IGNORECASE)
_INNER_CAPITAL = re.compile(r"[a-z][A-Z]|[A-Z][a-z]+[A-Z]")
_CODE = re.compile(r"[A-Za-z]{2,3}([_-][A-Za-z0-9]+)*")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{2}")
_MOST_TOKENS = 20  # of a text are looked at
_LONGEST_WORD = 30
_OF_A_TEXT = 400  # characters that are looked at
_IN_A_LIST = 5  # texts of a list that are looked at


def kind_of(text: str) -> str:
  """Returns the kind of a text: WORDS, LOST, "", `numbers`, `addresses`, `names of files`, `identifiers`, ..."""
  text = text.strip()[:_OF_A_TEXT]
  if text.lower() in _NOTHING:
    return ""
  if columns.is_base64(text):
    return EMBEDDED
  if text[0] + text[-1] in ("{}", "[]") or text.startswith("<?xml"):
    return "structures"
  if not any(map(str.isalpha, text)):
    if any(map(str.isnumeric, text)):
      return "numbers"
    return LOST if "?" in text or "\ufffd" in text else "signs"
  tokens = text.split()[:_MOST_TOKENS]
  # `the file a.jpg` is a sentence, `My photo 1.jpg` a name.
  is_sentence = len(tokens) > 2 and all(token.isalpha() and token.islower() for token in tokens[:-1])
  if text.lower().endswith(_PICTURE_NAMES) and not is_sentence and not _ADDRESS.fullmatch(text):
    return PICTURE_FILES
  kinds = {_of_token(token.strip(",;|")) for token in tokens}
  if len(tokens) == 1:
    return kinds.pop()
  if _DATE.fullmatch(text):
    return "numbers"
  # Several addresses or numbers in a cell, but not two short words that are also codes.
  return min(kinds) if kinds <= {ADDRESSES, "numbers", "names of files", "identifiers"} else WORDS


def is_phrase(text: str) -> bool:
  """Whether words are several, as far as their script shows."""
  return len([token for token in text.split() if any(map(str.isalpha, token))]) > 1 or bool(
    _UNSPACED.search(text)
  )


def _of_token(token: str) -> str:
  """Returns the kind of a text without spaces."""
  if not any(map(str.isalpha, token)) or _NUMBER.fullmatch(token):
    return "numbers"
  if _ADDRESS.fullmatch(token) or _HOST.fullmatch(token):
    return ADDRESSES
  if not token.isascii():
    return WORDS
  if _FILE.fullmatch(token):
    return "names of files"
  lower = token.lower()
  if split_choice.is_name(lower):
    return SPLITS
  if lower in _FLAGS:
    return "yes or no"
  if len(token) <= 3 and (lower in languages.LANGUAGES or lower in languages.WIDE):
    return "codes of languages"
  has_digit, is_long = any(map(str.isdigit, token)), len(token) > _LONGEST_WORD
  if has_digit or is_long or "_" in token or _HEX.fullmatch(token) or _INNER_CAPITAL.search(token):
    return "identifiers"
  return WORDS


@dataclasses.dataclass
class ColumnProfile:
  """What a bounded sample of a column holds.

  Attributes:
    kinds: kind -> number of values; empty ones do not count.
    phrases: number of values of several words.
    long: number of values of at least three words, or in a script without spaces.
    names: the last part of each name of a file, by row, for comparison with another column.
    by_language: whether values are objects with a key per language.
    released: whether values are as in XM3600's release, {"caption": [...]}.
    turns: whether values are turns of a conversation.
    member: where objects have their text, if that is no usual name.
  """

  kinds: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
  phrases: int = 0
  long: int = 0
  texts: set[str] = dataclasses.field(default_factory=set)
  names: list[str] = dataclasses.field(default_factory=list)
  by_language: bool = False
  released: bool = False
  turns: bool = False
  member: str = ""

  @property
  def count(self) -> int:
    """Number of values that are not empty."""
    return self.kinds.total()

  @property
  def most(self) -> str:
    """The most frequent kind; "" if there is no value."""
    return max(self.kinds, key=self.kinds.__getitem__, default="")

  @property
  def are_words(self) -> bool:
    """Whether most values are words, or were before another program lost their letters."""
    return 2 * (self.kinds[WORDS] + self.kinds[LOST]) > self.count

  @property
  def are_phrases(self) -> bool:
    """Whether most values are several words."""
    return self.are_words and 2 * (self.phrases + self.kinds[LOST]) > self.count

  @property
  def are_like_captions(self) -> bool:
    """Whether most values are long enough for captions, and hardly repeated."""
    return self.are_phrases and 2 * self.long > self.count and 2 * len(self.texts) > self.count

  def add(self, value: Any) -> None:
    """Adds a value of the column."""
    if is_embedded(value):
      self.kinds[EMBEDDED] += 1
    elif isinstance(value, bytes):
      self.kinds["bytes"] += 1
    elif isinstance(value, bool):
      self.kinds["yes or no"] += 1
    elif isinstance(value, int | float):
      self.kinds["numbers"] += 1
    elif isinstance(value, str):
      self._add_cell(value)
    elif isinstance(value, list | tuple):
      self.turns = self.turns or is_turns(value)
      self.by_language = self.by_language or are_pairs(value)
      for item in value[:_IN_A_LIST]:
        self.add(item[1] if self.by_language and are_pairs([item]) else item)
    elif isinstance(value, Mapping):
      self._add_object(value)

  def _add_cell(self, cell: str) -> None:
    try:
      value = unpacked(cell)
    except UsageError:
      self.kinds["lists without commas, as NumPy prints them"] += 1
      return
    if value is cell:
      self._add_text(cell)
    else:
      self.add(value)

  def _add_object(self, value: Mapping[str, Any]) -> None:
    self.released = self.released or isinstance(value.get("caption"), list)
    if name := text_member(value):
      self.member = self.member or (name if name not in _TEXTS else "")
      self.by_language = self.by_language or any(language in value for language in columns.LANGUAGES)
      self.add(value[name])
      return
    coded = {name: of_name for name, of_name in value.items() if languages.named(str(name))}
    self.by_language = self.by_language or bool(coded)
    for of_name in list(coded.values())[:_IN_A_LIST]:
      self.add(of_name)
    if not coded and value:
      self.kinds["structures"] += 1

  def _add_text(self, text: str) -> None:
    text = text[:_OF_A_TEXT]
    kind = kind_of(text)
    if not kind:
      return
    self.kinds[kind] += 1
    if kind == WORDS:
      is_unspaced = bool(_UNSPACED.search(text))
      self.phrases += is_phrase(text)
      self.long += is_unspaced or len(text.split()) > 2
      self.texts.add(text)
    elif kind in (PICTURE_FILES, "names of files"):
      self.names.append(archives.split_suffix(posixpath.basename(text.strip().replace("\\", "/")))[0])


_TEXTS = ("caption", "text", "raw", "translation")


def text_member(value: Mapping[str, Any]) -> str:
  """Returns where an object of a list of captions has its text; "" if it has none.

  Beside a language that may also be the first name that begins with `caption`, as in WIT.
  """
  if name := next((name for name in _TEXTS if name in value), ""):
    return name
  has_language = any(language in value for language in columns.LANGUAGES)
  return next((name for name in value if name.startswith("caption")), "") if has_language else ""


def are_pairs(value: Any) -> bool:
  """Whether a value is a list of captions with their languages: [[code, text], ...], as in laion-coco-nllb."""
  return (
    isinstance(value, list)
    and bool(value)
    and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in value)
    and all(isinstance(text, str) for pair in value for text in pair)
    and all(_CODE.fullmatch(code) for code, _ in value)
    and any(languages.canonical(code) for code, _ in value)
  )


def unpacked(cell: Any) -> Any:
  """Returns the list of texts, or the object or list of these, that a cell holds as Python or JSON writes it.

  Other values are returned as they are. UsageError for a list without commas, as NumPy prints it.
  """
  if not isinstance(cell, str) or cell[:1] not in ("[", "{"):
    return cell
  if (texts := layouts.listed(cell, "")) is not cell:
    return texts
  text = cell.strip()
  if text[-1] not in "]}" or len(text) > literals.MOST_PYTHON:
    return cell
  try:
    value = literals.parse(text)
  except ValueError:
    return cell
  is_useful = value == [] or are_pairs(value)
  return value if is_useful or isinstance(value[0] if isinstance(value, list) else value, Mapping) else cell


def is_embedded(value: Any) -> bool:
  """Whether a value is an image: as `datasets` stores it, or bytes that begin as one, and not a hash."""
  if isinstance(value, bytes):
    return value.startswith(image_formats.STARTS) or image_formats.other_format(value) != ""
  return isinstance(value, Mapping) and "bytes" in value and value.keys() <= {"bytes", "path"}


def is_turns(value: Any) -> bool:
  """Whether a value is a conversation: LLaVA's list of {from, value}, or the list of {role, content} of chat models."""
  first = value[0] if isinstance(value, list | tuple) and value else None
  return isinstance(first, Mapping) and (
    {"from", "value"} <= first.keys() or {"role", "content"} <= first.keys()
  )
