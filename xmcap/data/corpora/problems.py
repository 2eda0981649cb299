"""What is wrong with a release: counted by kind, listed one by one, and summed up at the end."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from xmcap.errors import UsageError, XmcapError
from xmcap.terminal import shown

ON_BAD = ("skip", "stop")


@dataclasses.dataclass(frozen=True)
class Kind:
  """A kind of problem.

  Attributes:
    rule: `use` (counted, and the thing is used), `skip` (counted and left out; an error with --on_bad=stop), or
      `stop` (always an error).
    text: what it is, in a few words.
  """

  rule: str
  text: str


KINDS: Mapping[str, Kind] = {
  # Lines of captions.
  "cut_line": Kind("skip", "lines cut off in the middle"),
  "bad_utf8": Kind("skip", "lines that are not UTF-8"),
  "not_json": Kind("skip", "lines that are not JSON objects"),
  "missing_field": Kind("skip", "lines without a field, or with one of another type"),
  "unknown_language": Kind("skip", "captions in a language that is not in the table"),
  "duplicate_line": Kind("skip", "captions given twice (image, number and language); the first is used"),
  "unknown_id": Kind("skip", "captions of a picture that the release does not name"),
  "long_caption": Kind("skip", "captions over 10,000 bytes"),
  "empty_caption": Kind("skip", "captions without text"),
  "control_characters": Kind("use", "captions with control characters, which are taken out"),
  "bom": Kind("use", "files that begin with a byte order mark"),
  "crlf": Kind("use", "lines that end in CR LF"),
  # Pictures.
  "missing": Kind("skip", "pictures that are not there"),
  "empty_file": Kind("skip", "pictures of no bytes"),
  "not_a_picture": Kind("skip", "files that are no picture, such as a page saved as .jpg"),
  "truncated": Kind("skip", "pictures that break off"),
  "too_many_pixels": Kind("skip", "pictures with too many pixels, refused by their header"),
  "too_small": Kind("skip", "pictures with a side under 8 pixels"),
  "converted": Kind("use", "GIF, WebP and BMP, whose first frame is stored as PNG"),
  "unsafe_path": Kind("skip", "entries of archives that would leave their folder"),
  "duplicate_picture": Kind("skip", "pictures given twice; the first is used"),
  "no_captions": Kind("skip", "pictures left without a caption"),
}
"""Every kind, with its rule."""

MAX_CAPTION_BYTES = 10_000
MAX_LISTED = 1_000_000
"""Problems that a chunk of lines or a shard may have; each has some 100,000 captions."""

_EXAMPLES = 3
_WORDS = 1_000  # characters of each text at most: a place may be a long path


class Problems:
  """Problems found: counts by kind, the first of each, and all of them one by one.

  What is listed is kept in memory until `take_listed` hands it out: a worker's share of a build is small.

  Args:
    on_bad: `skip` or `stop`: whether a problem whose rule is `skip` ends the work.
    most: that are listed before they are taken; more end the work.

  Attributes:
    counts: kind -> how many, in the order first met.
    examples: kind -> the first few, each (where, what).

  Raises:
    UsageError: `on_bad` is something else.
  """

  def __init__(self, on_bad: str = "skip", most: int = MAX_LISTED):
    if on_bad not in ON_BAD:
      raise UsageError(f"on_bad={on_bad}: choose {' or '.join(ON_BAD)}")
    self.on_bad, self._most = on_bad, most
    self.counts: dict[str, int] = {}
    self.examples: dict[str, list[tuple[str, str]]] = {}
    self._listed: list[tuple[str, str, str]] = []

  def add(self, kind: str, where: str, what: str = "") -> None:
    """Counts a problem.

    Args:
      kind: one of `KINDS`.
      where: the file and line, or the picture's key, as the release has it: it is escaped here.
      what: what is wrong there, in a few words; the kind's text if empty.

    Raises:
      XmcapError: the kind's rule is `stop`, or it is `skip` and `on_bad` is `stop`; or there are more than can be
        held.
    """
    where, what = shown(where, _WORDS), shown(what, _WORDS)
    rule = KINDS[kind].rule
    if rule == "stop" or (rule == "skip" and self.on_bad == "stop"):
      how = "" if rule == "stop" else ", or leave such things out with --on_bad=skip"
      raise XmcapError(f"{where}: {what or KINDS[kind].text} ({kind}): mend it{how}")
    self.counts[kind] = self.counts.get(kind, 0) + 1
    examples = self.examples.setdefault(kind, [])
    if len(examples) < _EXAMPLES:
      examples.append((where, what))
    self._listed.append((kind, where, what))
    if len(self._listed) > self._most:
      raise XmcapError(
        f"{where}: more than {self._most:,} problems, the last of the kind {kind}: "
        "give the files as they were published"
      )

  def merge(self, other: "Problems") -> None:
    """Adds what another found after this one, its list included."""
    for kind, count in other.counts.items():
      self.counts[kind] = self.counts.get(kind, 0) + count
      examples = self.examples.setdefault(kind, [])
      examples.extend(other.examples[kind][: _EXAMPLES - len(examples)])
    self._listed.extend(other._listed)

  @property
  def listed(self) -> list[tuple[str, str, str]]:
    """The problems that were not yet taken: (kind, where, what)."""
    return self._listed

  def take_listed(self) -> str:
    """Returns the problems one by one, JSON lines (`kind`, `where`, `what`), and forgets them; counts stay."""
    lines = [
      json.dumps({"kind": kind, "where": where, "what": what}, ensure_ascii=False) + "\n"
      for kind, where, what in self._listed
    ]
    self._listed = []
    return "".join(lines)

  def to_json(self) -> dict[str, Any]:
    """Returns counts, examples and list as JSON can hold them."""
    return {"counts": self.counts, "examples": self.examples, "listed": self._listed}

  @classmethod
  def from_json(cls, values: Mapping[str, Any], on_bad: str = "skip") -> "Problems":
    """The inverse of `to_json`."""
    problems = cls(on_bad)
    problems.counts = dict(values["counts"])
    problems.examples = {
      kind: [(where, what) for where, what in examples] for kind, examples in values["examples"].items()
    }
    problems._listed = [(kind, where, what) for kind, where, what in values["listed"]]
    return problems

  def summary(self) -> str:
    """Returns a line a kind that occurred, in the order of `KINDS`: count, kind, rule, what it is, the first place."""
    lines = []
    for kind in (name for name in KINDS if self.counts.get(name)):
      done = "used" if KINDS[kind].rule == "use" else "left out"
      where, what = self.examples[kind][0]
      first = where + (f": {what}" if what else "")
      lines.append(f"{self.counts[kind]:>12,}  {kind}: {KINDS[kind].text}; {done}. First: {first}")
    return "\n".join(lines)
