"""The findings of the check of a corpus (check.py): kinds, counts and places."""

import collections
import dataclasses
from collections.abc import Mapping

from xmcap.terminal import shown

KINDS: Mapping[str, str] = {
  "damaged": "records that cannot be read",
  "invalid": "records that are not as the layout says",
  "broken_picture": "pictures that cannot be decoded",
  "repeated_key": "keys that another record has",
  "unknown_tag": "tags that tags.txt lacks",
  "no_captions": "pictures without a caption",
  "empty_caption": "captions without a letter, digit or sign",
  "control_characters": "captions with control characters, or signs of a text decoded wrongly",
  "long_caption": "captions over the limit",
  "wrong_script": "captions of which most letters are not of their language's script",
  "repeated_caption": "captions that their picture has already in this language",
}
"""Kinds of finds; those in ERRORS make a record one that cannot be used."""

ERRORS = ("damaged", "invalid", "broken_picture", "repeated_key", "unknown_tag")
_MAX_LANGUAGES = 8  # named of a kind


@dataclasses.dataclass(frozen=True)
class Find:
  """One find: the split, the index and key of its record, its kind, a description, and a language or ""."""

  split: str
  index: int
  key: str
  kind: str
  what: str
  language: str = ""


@dataclasses.dataclass
class SplitFindings:
  """The findings in a split; as a string, for people.

  Attributes:
    bytes: of the pictures, as stored.
    formats: `JPEG` and so on -> pictures.
    counts: kind -> finds.
    by_language: kind -> language -> finds, of captions.
    bad: records that cannot be used.
    sides: shortest and longest side of a picture, in pixels; 0 if none could be decoded.
    first: kind -> its first find.
  """

  split: str
  pictures: int = 0
  captions: int = 0
  bytes: int = 0
  formats: collections.Counter = dataclasses.field(default_factory=collections.Counter)
  counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)
  by_language: dict[str, collections.Counter] = dataclasses.field(default_factory=dict)
  bad: int = 0
  sides: tuple[int, int] = (0, 0)
  first: dict[str, Find] = dataclasses.field(default_factory=dict)

  def add(self, find: Find) -> None:
    """Counts a find."""
    self.counts[find.kind] += 1
    self.first.setdefault(find.kind, find)
    if find.language:
      self.by_language.setdefault(find.kind, collections.Counter())[find.language] += 1

  def __str__(self) -> str:
    formats = ", ".join(f"{count:,} {name}" for name, count in sorted(self.formats.items())) or "none decoded"
    lines = [
      f"{self.split}: {self.pictures:,} pictures ({formats}; sides of {self.sides[0]:,} to {self.sides[1]:,} pixels; "
      f"{self.bytes / 1e9:,.3f} GB), {self.captions:,} captions"
    ]
    for kind in (kind for kind in KINDS if self.counts[kind]):
      name = f"{'ERROR' if kind in ERRORS else 'warning':<7} {kind}"
      lines.append(f"  {self.counts[kind]:>10,}  {name}: {KINDS[kind]}")
      if kind in self.by_language:
        found = self.by_language[kind].most_common(_MAX_LANGUAGES)
        more = len(self.by_language[kind]) - len(found)
        tail = f" and {more} more languages" if more else ""
        lines.append(f"{'':14}{', '.join(f'{code} {count:,}' for code, count in found)}{tail}")
      first = self.first[kind]
      language = f" ({first.language})" if first.language else ""
      lines.append(f"{'':14}first: {shown(first.key)}{language}: {shown(first.what)}")
    if not self.counts:
      lines.append("  nothing wrong")
    return "\n".join(lines)

  def as_json(self) -> dict:
    """The same for programs."""
    names = ("split", "pictures", "captions", "bytes", "bad", "sides")
    return {
      **{name: getattr(self, name) for name in names},
      "formats": dict(sorted(self.formats.items())),
      "counts": {kind: self.counts[kind] for kind in KINDS if self.counts[kind]},
      "by_language": {kind: dict(sorted(counts.items())) for kind, counts in self.by_language.items()},
    }
