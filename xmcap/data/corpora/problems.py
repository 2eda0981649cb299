"""What is wrong with a release: counted by kind, listed one by one, and summed up at the end."""

import json
from collections.abc import Iterable, Mapping
from typing import BinaryIO, NamedTuple

from xmcap.errors import XmcapError
from xmcap.terminal import shown

ON_BAD = ("skip", "stop")


class Kind(NamedTuple):
  """A kind of problem.

  `rule` is `use` (counted and used), `skip` (left out; an error with --on_bad=stop) or `pass` (left out, as it should).
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
  "renamed_key": Kind("use", "pictures whose name cannot be a key, or is another picture's too"),
  "other_split": Kind(
    "use", "lines that put a picture into another split than an earlier line; the first counts"
  ),
  "no_captions": Kind("skip", "pictures left without a caption"),
  "no_class": Kind("skip", "pictures in no folder of a class, and in no line about one"),
  "excluded": Kind("pass", "pictures that --exclude names"),
  # Segmented sentences and tags.
  "no_part_of_speech": Kind("use", "segmented words without a part of speech"),
  "no_sentence": Kind("skip", "segmented lines whose sentence is not there"),
  "unknown_tag": Kind("use", "tags that the list of labels lacks"),
  "apple_double": Kind("pass", "files `._NAME` with attributes, which macOS packs beside others"),
}
MAX_CAPTION_BYTES = 10_000
MAX_LISTED = 1_000_000
"""Problems of one chunk of lines or one shard, which has some 100,000 captions."""

_EXAMPLES = 3
_MAX_CHARACTERS = 1_000  # of each text; a place may be a long path


class Problems:
  """Problems found: counts by kind, the first few of each kind (where, what), and a list of all (kind, where, what).

  Args:
    on_bad: `skip` or `stop`: whether a problem whose rule is `skip` ends the work.
    file: takes the list as JSON lines (`kind`, `where`, `what`); None: it is kept in `listed`.
    most: problems that `listed` may hold; more end the work.
  """

  def __init__(self, on_bad: str = "skip", file: BinaryIO | None = None, most: int = MAX_LISTED):
    self.on_bad, self._file, self._most = on_bad, file, most
    self.counts: dict[str, int] = {}
    self.examples: dict[str, list[tuple[str, str]]] = {}
    self.listed: list[tuple[str, str, str]] = []

  def add(self, kind: str, where: str, what: str = "") -> None:
    """Counts a problem of a kind, at a place (file and line, or the picture's key); `what` says more, or nothing.

    Raises:
      XmcapError: the kind's rule is `skip` and `on_bad` is `stop`, or there are too many to list.
    """
    where, what = shown(where, _MAX_CHARACTERS), shown(what, _MAX_CHARACTERS)
    if KINDS[kind].rule == "skip" and self.on_bad == "stop":
      raise XmcapError(
        f"{where}: {what or KINDS[kind].text} ({kind}): mend it, or leave such things out with --on_bad=skip"
      )
    self.counts[kind] = self.counts.get(kind, 0) + 1
    examples = self.examples.setdefault(kind, [])
    if len(examples) < _EXAMPLES:
      examples.append((where, what))
    if self._file is not None:
      row = json.dumps({"kind": kind, "where": where, "what": what}, ensure_ascii=False)
      self._file.write(f"{row}\n".encode())
      return
    self.listed.append((kind, where, what))
    if len(self.listed) > self._most:
      raise XmcapError(
        f"{where}: more than {self._most:,} problems, the last of the kind {kind}: "
        "give the files as they were published"
      )

  def extend(self, listed: Iterable[tuple[str, str, str]]) -> None:
    """Adds what another listed."""
    for kind, where, what in listed:
      self.add(kind, where, what)

  def summary(self) -> str:
    """One line for each kind that occurred, in the order of `KINDS`: count, kind, rule, text, the first place."""
    lines = []
    for kind in filter(self.counts.get, KINDS):
      done = "used" if KINDS[kind].rule == "use" else "left out"
      where, what = self.examples[kind][0]
      first = where + (f": {what}" if what else "")
      lines.append(f"{self.counts[kind]:>12,}  {kind}: {KINDS[kind].text}; {done}. First: {first}")
    return "\n".join(lines)
