"""Which image and language a caption is of: ids of other programs, codes of other schemes, names of files."""

import itertools
import os
import pathlib
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, TypeVar

from xmcap import languages, wording
from xmcap.errors import UsageError
from xmcap.reading import columns
from xmcap.reading.columns import ColumnNames
from xmcap.reading.layouts import Layout
from xmcap.reading.rows import SUFFIXES, Rows, language_suffix, split_name
from xmcap.terminal import shown

T = TypeVar("T")

_KEY_CODE = re.compile(r"(?s:(.+))_([a-z]{2,3})")
_END = re.compile(r"_preds|_annotations|_storepreds|-\d{5}-of-(?P<parts>\d{5})(?:-[0-9a-f]{16})?")
"""What follows the code in a file's name: big_vision's NAME_CODE_preds, Hugging Face's CODE-00000-of-00001 (once with a
hash)."""
_WORDS = frozenset({"he", "hi", "id", "it", "no"})
"""Codes that more often begin a name as a word."""
_VARIETY = re.compile(r"(?s:.*[_.-])?([a-z]{2,3}[_-](?:[A-Z]{2}|[A-Z][a-z]{3}))")
"""File names that end in a code with its region or script: NAME_pt-BR, NAME-deu_Latn."""

_NOTES = {
  "language '{}' is read as '{}'": "{} names of languages are read as codes: {}",
  "language '{}' is read as '{}', of which it is a variety": "{} varieties are read as their languages: {}",
  "language '{}' is that of the file's name, {}": "{} languages are those of the files' names: {}",
}
"""A note on one name -> that on several, with their number and list."""


def pattern(key: str | None) -> re.Pattern | None:
  """Returns the compiled `--key`; UsageError if it is no regular expression with one group, beside one `language`."""
  if key is None:
    return None
  try:
    compiled = re.compile(key)
  except (re.error, OverflowError, RecursionError) as error:
    raise UsageError(
      f"--key={shown(key)}: no regular expression ({error}); give one such as '(.*)_en'"
    ) from None
  if compiled.groups - ("language" in compiled.groupindex) != 1:
    raise UsageError(
      f"--key={shown(key)}: needs one group, the image's key, as in '(.*)_en'; a second may be (?P<language>...)"
    )
  return compiled


def language_of_name(path: str | os.PathLike) -> str | None:
  """Returns the language in the name of a file, such as `th` in `xm3600_th_preds.json`; None if there is none."""
  if language := language_suffix(path):
    return language
  stem = _ended(path)[0]
  if (variety := _VARIETY.fullmatch(stem)) and (
    language := languages.named(languages.canonical(variety[1]) or "")
  ):
    return language
  words = re.split("[_.-]", stem)
  of_last = languages.named(words[-1]) if words[-1].lower() != "in" else None
  return of_last or (words[0] if words[0] in languages.LANGUAGES.keys() - _WORDS else None)


def _ended(path: str | os.PathLike) -> tuple[str, str]:
  """Returns the name of a file without its suffix and end, and of how many parts it is one, or ""."""
  stem = split_name(path)[0]
  end = next((match for match in _END.finditer(stem) if match.end() == len(stem)), None)
  return (stem[: end.start()], end["parts"] or "") if end else (stem, "")


def check_parts(paths: Iterable[str | os.PathLike]) -> None:
  """Raises UsageError if of the files of a language, CODE-00000-of-00003 and so on, some are not among these."""
  parts: dict[tuple[str, str, str], list[str | os.PathLike]] = {}
  for path in paths:
    stem, count = _ended(path)
    if count and (language := language_of_name(path)):
      parts.setdefault((language, stem, count), []).append(path)
  for (language, _, count), of_language in parts.items():
    if len(of_language) != int(count):
      raise UsageError(
        f"{of_language[0]}: {len(of_language)} of the {int(count)} files of {language} are here: download them all"
      )


class Namer:
  """Finds the key and the language of each caption of a file, or of the files of a folder.

  Attributes:
    codes: each code as written -> the code of the language.
    columns: names of columns that the user asked for.
    present: those of them that a file has.
  """

  def __init__(self, noun: str, key: str | None = None, columns: ColumnNames | None = None):
    self._noun = noun
    self._key = pattern(key)
    self.columns = columns or ColumnNames()
    self.present: set[str] = set()
    self._notes: dict[str, dict[tuple[str, ...], None]] = {}
    self._counts: dict[tuple[str, str], int] = {}
    self.languages: dict[str, str] = {}

  @property
  def notes(self) -> list[str]:
    """What was recognised and is not evident, for readers of the scores."""
    lines = []
    for text, names in self._notes.items():
      if len(names) > 1:
        text = _NOTES[text].format(len(names), ", ".join(map(" -> ".join, names)))
      elif text in _NOTES:
        text = text.format(*next(iter(names)))
      lines.append(f"{self._noun}: {text}")
    counted = [f"{wording.count(number, noun)} {text}" for (noun, text), number in self._counts.items()]
    return lines + [f"{self._noun}: {text}" for text in counted]

  def layout(self, first: dict[str, Any], where: str, ordered: bool, language: str | None) -> Layout:
    """Returns the layout of rows, given the first, as `columns.layout`."""
    there = {str(name).strip().casefold() for name in first}
    self.present |= {name for name in self.columns.all if name.casefold() in there}
    return columns.layout(first, self._noun, where, ordered, language, self.columns)

  def note(self, text: str, *names: str) -> None:
    """Adds a note once; `names` are those of a text in `_NOTES`."""
    self._notes.setdefault(text, {})[names] = None

  def tally(self, number: int, noun: str, text: str) -> None:
    """Adds to the number of nouns of a note, which is that of all files together."""
    if number:
      self._counts[noun, text] = self._counts.get((noun, text), 0) + number

  def language(self, written: object, where: str) -> str:
    """Returns the language of a code in a file; notes a code of another scheme, and raises UsageError for none."""
    if not isinstance(written, str):
      raise UsageError(f"{where}: 'language' is not a string; give a code such as en")
    language = self.languages.get(written)
    if language is None:
      language = written if languages.is_known(written) else languages.canonical(written)
      if language is None:
        raise UsageError(f"{where}: {languages.unknown(written)}")
      self.languages[written] = language
      if language != written:
        self.note("language '{}' is read as '{}'", shown(written), language)
    return language

  def files(self, folder: pathlib.Path, language: str | None = None) -> list[tuple[str, pathlib.Path]]:
    """Returns (language, file) for a folder with one file per language, or the parts of one, by name.

    Names that begin with a dot are skipped. UsageError if a file is of no language, or of another than `language`.
    """
    try:
      entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
      raise UsageError(f"{folder}: cannot be read ({error.strerror or error})") from error
    codes: dict[pathlib.Path, str] = {}
    for entry in entries:
      stem, ending = split_name(entry)
      code = language_of_name(entry) or languages.canonical(stem)
      is_only = code not in codes.values() or "-of-" in stem
      if code is None or not (
        is_only
        and (ending in SUFFIXES or language_suffix(entry))
        and entry.is_file()
        and language in (None, code)
      ):
        raise UsageError(
          f"{folder}: {shown(entry.name)} is not the only file of {self._noun} in {language or 'a language'} (CODE"
          f"{', '.join(SUFFIXES)}); remove it"
        )
      if language_of_name(entry) is None:
        self.language(stem, str(entry))
      codes[entry] = code
    if not codes:
      raise UsageError(f"{folder}: contains no {self._noun}; give a file per language, such as en.jsonl")
    check_parts(codes)
    return [(code, entry) for entry, code in codes.items()]

  def named(
    self,
    source: Rows,
    items: Iterable[tuple[int | str, str, object, T]],
    language: str | None,
    says: str = "",
    keys: Collection[str] = (),
  ) -> Iterator[tuple[int | str, str, str, T]]:
    """Yields (number, key, language, rest) for (number, id, code or None, rest).

    Args:
      source: the file.
      items: the rows of the file.
      language: of rows without one; None: as the ids or the file's name say.
      says: where `language` comes from, if rows must agree with it.
      keys: keys that are used as they are, though they end in a code.
    """
    items = iter(items)
    first = next(items, None)
    if first is None:
      return
    items = itertools.chain((first,), items)
    own = language_suffix(source.path)
    if language is not None and own not in ("", language, languages.variety_base(language)):
      self.note(
        f"--language={language} is taken, though the file is named {shown(os.path.basename(source.path))}"
      )
    if self._key is not None:
      items = self._matched(source, list(items))
    elif first[2] is None:
      items = self._split(list(items), keys)
    if language is None and isinstance(items, list) and all(item[2] is None for item in items):
      language = self.of_name(source.path)
    if language is not None:
      self.languages.setdefault(language, language)
    language_of = self.languages.get
    for number, key, written, rest in items:
      if written is None:
        code = language
      else:
        code = language_of(written) if type(written) is str else None
        code = code or self.language(written, source.where(number))
      if code is None:
        raise UsageError(
          f"{source.where(number)}: 'language' is missing; give it there, or for all captions with --language=CODE"
        )
      if says and language not in (None, code):
        raise UsageError(f"{source.where(number)}: language is {code}, but {says} {language}; change one")
      yield number, key, code, rest

  def of_name(self, path: str | os.PathLike) -> str | None:
    """Returns the language code in the name of a file, with a note; None if there is none."""
    language = language_of_name(path)
    if language is not None:
      self.note("language '{}' is that of the file's name, {}", language, shown(os.path.basename(path)))
    return language

  def _matched(self, source: Rows, items: list) -> list:
    """Applies `--key` to the ids; those of references may be keys already, but then all of them."""
    assert self._key is not None
    matches = [self._key.fullmatch(item[1]) for item in items]
    if not any(matches) and self._noun == "references":
      return items
    matched = []
    group = next(n for n in range(1, self._key.groups + 1) if n != self._key.groupindex.get("language"))
    for item, match in zip(items, matches, strict=True):
      if match is None or not match[group]:
        raise UsageError(
          f"{source.where(item[0])}: --key={shown(self._key.pattern)} does not match the id '{shown(item[1])}'; it "
          "must match whole ids"
        )
      written = match["language"] if "language" in self._key.groupindex else None
      if written is not None and item[2] is not None:
        own = self.language(item[2], source.where(item[0]))
        if own != self.language(written, source.where(item[0])):
          raise UsageError(
            f"{source.where(item[0])}: language is {own}, but its id says {written}; change one"
          )
      matched.append((item[0], match[group], item[2] if written is None else written, item[3]))
    return matched

  def _split(self, items: list, keys: Collection[str]) -> list:
    """Takes a code off ids that all end in one, as big_vision's do."""
    split = []
    for number, key, written, rest in items:
      match = _KEY_CODE.fullmatch(key)
      if match is None or match[2] not in languages.LANGUAGES or written is not None or key in keys:
        return items
      split.append((number, match[1], match[2], rest))
    self.note("ids are KEY_CODE, as in big_vision; --key='(.*)' takes them whole")
    return split
