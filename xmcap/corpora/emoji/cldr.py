"""Reads CLDR's names and keywords of emoji, and its list patterns.

For each language, CLDR (Unicode Common Locale Data Repository) has a short name (`type="tts"`) and a few keywords of
every emoji, written by native speakers, and patterns for writing a list ("{0}, {1} and {2}"). ICU's additional rules
(Spanish "y" becomes "e" before an i) are not applied. Two formats are supported: the XML of the Debian package
`unicode-cldr-core`, and the JSON of the npm packages `cldr-annotations-full` and `cldr-misc-full`.

Source: UTS #35, Unicode Locale Data Markup Language, part 2 (list patterns) and part 7 (annotations).
"""

import dataclasses
import json
import pathlib
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xmcap import languages
from xmcap.errors import XmcapError, one_line

_CODES = {"quz": "qu"}
"""Our code -> CLDR's code, if they differ."""

_INHERIT = "↑↑↑"
# Invisible direction marks, which only some translators use. The joiners U+200C and U+200D are part of the spelling in
# Persian and the Indic scripts, and stay.
_DIRECTION_MARKS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# List types whose pairs have no "and" in nearly all languages; the first that differs from the standard is taken.
_PLAIN_TYPES = ("standard-narrow", "unit", "unit-short", "unit-narrow")


@dataclasses.dataclass(frozen=True)
class ListPattern:
  """How a language writes a list; `{0}` and `{1}` are placeholders for the items (UTS #35, part 2, 11)."""

  pair: str
  start: str
  middle: str
  end: str

  def join(self, items: Sequence[str]) -> str:
    """Joins one or more items into a list; a single item stays as it is."""
    if len(items) <= 2:
      return items[0] if len(items) == 1 else _fill(self.pair, items[0], items[1])
    text = _fill(self.end, items[-2], items[-1])
    for item in reversed(items[1:-2]):
      text = _fill(self.middle, item, text)
    return _fill(self.start, items[0], text)


@dataclasses.dataclass(frozen=True)
class Cldr:
  """The data from CLDR that an emoji corpus uses.

  Attributes:
    names: language -> emoji (without U+FE0F, as in CLDR) -> name, without direction marks.
    keywords: language -> emoji -> its keywords, in CLDR's order; the name is often one of them.
    standard: language -> the usual pattern ("{0} and {1}").
    plain: language -> an alternative pattern that joins a pair without "and" ("{0}, {1}"; Thai keeps the word, with
      spaces), for languages that have one.
  """

  names: dict[str, dict[str, str]]
  keywords: dict[str, dict[str, list[str]]]
  standard: dict[str, ListPattern]
  plain: dict[str, ListPattern]


def clean(text: str) -> str:
  """Removes direction marks, and reduces white space to single spaces."""
  return " ".join(_DIRECTION_MARKS.sub("", text).split())


def read_xml(common: pathlib.Path, codes: Iterable[str] = languages.LANGUAGES) -> Cldr:
  """Reads the folder `common` of CLDR's release; XmcapError names a missing or broken file."""
  root = _xml_patterns(common / "main" / "root.xml")
  names, keywords, patterns = {}, {}, {}
  for language in codes:
    code = _CODES.get(language, language)
    names[language], keywords[language] = {}, {}
    for element in _parsed(common / "annotations" / f"{code}.xml").iter("annotation"):
      cp, text = element.get("cp", ""), element.text
      if text is None or text == _INHERIT:
        continue
      if element.get("type") == "tts":
        names[language][cp] = clean(text)
      else:
        keywords[language][cp] = _distinct(text.split("|"))
    patterns[language] = _xml_patterns(common / "main" / f"{code}.xml")
  return _cldr(names, keywords, lambda language, kind: _resolve(kind, patterns[language], root))


def read_json(folder: pathlib.Path, codes: Iterable[str] = languages.LANGUAGES) -> Cldr:
  """Reads a folder with `cldr-annotations-full` and `cldr-misc-full`; XmcapError as `read_xml`."""
  names, keywords, patterns = {}, {}, {}
  for language in codes:
    code = _CODES.get(language, language)
    path = folder / "cldr-annotations-full" / "annotations" / code / "annotations.json"
    annotations = _parsed(path)["annotations"]["annotations"]
    names[language] = {
      cp: clean(_unescaped(entry["tts"][0])) for cp, entry in annotations.items() if entry.get("tts")
    }
    keywords[language] = {
      cp: _distinct(map(_unescaped, entry["default"]))
      for cp, entry in annotations.items()
      if entry.get("default")
    }
    path = folder / "cldr-misc-full" / "main" / code / "listPatterns.json"
    patterns[language] = _parsed(path)["main"][code]["listPatterns"]
  # Aliases and inheritance are already resolved in the JSON release.
  return _cldr(
    names, keywords, lambda language, kind: _pattern(patterns[language][f"listPattern-type-{kind}"])
  )


def _distinct(texts: Iterable[str]) -> list[str]:
  """Returns the cleaned texts that are not empty, each once."""
  return list(dict.fromkeys(cleaned for text in texts if (cleaned := clean(text))))


def _unescaped(text: str) -> str:
  """Returns a text of the JSON release, in which quotes are escaped twice."""
  return text.replace('\\"', '"')


def _cldr(
  names: dict[str, dict[str, str]],
  keywords: dict[str, dict[str, list[str]]],
  find: Callable[[str, str], ListPattern],
) -> Cldr:
  """Makes a `Cldr`; `find` returns the pattern for a language and a list type."""
  standard = {language: find(language, "standard") for language in names}
  plain = {}
  for language, usual in standard.items():
    others = [find(language, kind) for kind in _PLAIN_TYPES]
    # "{0}{1}" (Chinese units) would merge two names into one word.
    different = [other for other in others if other.pair not in (usual.pair, "{0}{1}")]
    if different:
      plain[language] = different[0]
  return Cldr(names, keywords, standard, plain)


def _fill(pattern: str, first: str, second: str) -> str:
  return pattern.replace("{0}", first).replace("{1}", second)


def _pattern(parts: dict[str, str]) -> ListPattern:
  # Not `clean`, because the spaces at the ends of a part matter.
  pair, *rest = (_DIRECTION_MARKS.sub("", parts[name]) for name in ("2", "start", "middle", "end"))
  return ListPattern(pair, *rest)


def _xml_patterns(path: pathlib.Path) -> dict[str, dict[str, str]]:
  """Returns list type -> part -> pattern, with the part "alias" -> list type if the file has one."""
  patterns: dict[str, dict[str, str]] = {}
  for element in _parsed(path).iter("listPattern"):
    parts = patterns.setdefault(element.get("type", "standard"), {})
    for part in element:
      if part.tag == "alias":
        target = re.search(r"@type='([^']+)'", part.get("path", ""))
        parts["alias"] = target.group(1) if target else "standard"
      elif part.text != _INHERIT:
        parts[part.get("type", "")] = part.text or ""
  return patterns


def _resolve(kind: str, own: dict, root: dict) -> ListPattern:
  """Resolves each part from the language itself, else through root's alias to another type, else from root."""

  def part(name: str) -> str:
    current = kind
    while True:
      if name in own.get(current, {}):
        return own[current][name]
      if "alias" not in root[current]:
        return root[current][name]
      current = root[current]["alias"]

  return _pattern({name: part(name) for name in ("2", "start", "middle", "end")})


def _parsed(path: pathlib.Path) -> Any:
  """Returns the root of an XML file, or the value of a JSON file."""
  try:
    data = path.read_bytes()
    return ElementTree.fromstring(data) if path.suffix == ".xml" else json.loads(data)
  except (OSError, ValueError, ElementTree.ParseError) as error:
    raise XmcapError(f"cannot read CLDR's {path}: {one_line(error)}; fetch it again") from None
