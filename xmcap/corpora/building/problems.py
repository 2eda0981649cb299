"""Collects the problems of a release: counts by kind, a list, and a summary."""

import json
from collections.abc import Iterable, Mapping
from typing import BinaryIO, NamedTuple

from xmcap.errors import XmcapError
from xmcap.terminal import shown


class ProblemKind(NamedTuple):
  """A kind of problem; `rule` is `use`, `skip` (an error with --on_bad=stop) or `pass` (left out on purpose)."""

  rule: str
  text: str


KINDS: Mapping[str, ProblemKind] = {
  # Lines of captions.
  "cut_line": ProblemKind("skip", "truncated lines"),
  "bad_utf8": ProblemKind("skip", "lines that are not UTF-8"),
  "not_json": ProblemKind("skip", "lines that are not JSON objects"),
  "missing_field": ProblemKind("skip", "lines that lack a field, or have one of the wrong type"),
  "unknown_language": ProblemKind("skip", "captions in an unknown language"),
  "duplicate_line": ProblemKind("skip", "duplicate captions (image, number and language); the first is used"),
  "unknown_id": ProblemKind("skip", "captions of pictures that are not listed"),
  "unread_column": ProblemKind("skip", "columns that look like captions and are not read"),
  "several_answers": ProblemKind(
    "skip", "conversations with no or several answers, of which none is known to be a caption"
  ),
  "rejected": ProblemKind("pass", "captions marked as rejected or precanned, as in VizWiz"),
  "lost_letters": ProblemKind(
    "skip", "captions whose letters were replaced by question marks when the table was saved"
  ),
  "other_script": ProblemKind("use", "captions without a letter in the script of their language"),
  "other_language": ProblemKind("use", "files and captions that show another language than is said of them"),
  "several_lines": ProblemKind(
    "use", "texts beside a picture with several lines, each of which is a caption"
  ),
  "long_caption": ProblemKind("skip", "captions over 10,000 bytes"),
  "empty_caption": ProblemKind("skip", "captions without text"),
  "control_characters": ProblemKind("use", "captions with control characters, which are removed"),
  "bom": ProblemKind("use", "files that begin with a byte order mark"),
  "crlf": ProblemKind("use", "lines that end in CR LF"),
  # Images.
  "missing": ProblemKind("skip", "missing pictures"),
  "same_name": ProblemKind("skip", "lines whose picture's name several pictures have: give the folder too"),
  "ambiguous": ProblemKind("skip", "samples with several pictures, or with a file twice"),
  "dotted_name": ProblemKind("skip", "files with dots in their names, which join another sample's key"),
  "empty_file": ProblemKind("skip", "empty files"),
  "not_a_picture": ProblemKind("skip", "files that are not pictures, such as a web page saved as .jpg"),
  "other_format": ProblemKind("skip", "pictures in a format that is not read, such as TIFF"),
  "truncated": ProblemKind("skip", "truncated pictures, and files of many pictures whose rest is lost"),
  "too_many_pixels": ProblemKind("skip", "pictures with too many pixels, rejected by their header"),
  "too_small": ProblemKind("skip", "pictures with a side under 8 pixels"),
  "converted": ProblemKind("use", "GIF, WebP, BMP, AVIF and HEIC, whose first frame is stored as PNG"),
  "unsafe_path": ProblemKind("skip", "archive entries whose path leads out of their folder"),
  "duplicate_picture": ProblemKind("skip", "duplicate pictures; the first is used"),
  "same_picture": ProblemKind(
    "use", "pictures with the pixels of an earlier one, whose record has their captions"
  ),
  "in_other_split": ProblemKind("use", "pictures that are in an earlier split too, under another key"),
  "renamed_key": ProblemKind("use", "pictures whose name is not a valid key, or not unique"),
  "other_split": ProblemKind("use", "pictures that are put in several splits, of which one counts"),
  "no_captions": ProblemKind("skip", "pictures without captions"),
  "no_class": ProblemKind("skip", "pictures without a class, from neither a folder nor a line"),
  "excluded": ProblemKind("pass", "pictures that --exclude names"),
  # Segmented sentences and tags.
  "no_part_of_speech": ProblemKind("use", "segmented words without a part of speech"),
  "no_sentence": ProblemKind("skip", "segmented lines without their sentence"),
  "unknown_tag": ProblemKind("use", "tags outside the list of labels"),
  "number_tag": ProblemKind("use", "tags that are numbers"),
  "apple_double": ProblemKind("pass", "`._NAME` files that macOS added"),
}
MAX_CAPTION_BYTES = 10_000
MAX_LISTED = 1_000_000
"""Limit for one chunk of lines or one shard, which has some 100,000 captions."""

_EXAMPLES = 3
_MAX_CHARACTERS = 1_000  # limit for place and description; a place may be a long path


class Problems:
  """Problems found: counts by kind, the first few (where, what) of each kind, and a list of all (kind, where, what).

  Args:
    on_bad: `skip` or `stop`; with `stop`, a problem whose rule is `skip` is an error.
    file: receives the list as JSON lines (`kind`, `where`, `what`); None: the list is kept in `listed`.
    most: limit for the length of `listed`; more problems are an error.
  """

  def __init__(self, on_bad: str = "skip", file: BinaryIO | None = None, most: int = MAX_LISTED):
    self.on_bad, self._file, self._most = on_bad, file, most
    self.counts: dict[str, int] = {}
    self.examples: dict[str, list[tuple[str, str]]] = {}
    self.listed: list[tuple[str, str, str]] = []

  def add(self, kind: str, where: str, detail: str = "") -> None:
    """Counts a problem at a place (file and line, or the image's key); `detail` is an optional description.

    XmcapError if the kind's rule is `skip` and `on_bad` is `stop`, or if there are too many to list.
    """
    where, detail = shown(where, _MAX_CHARACTERS), shown(detail, _MAX_CHARACTERS)
    if KINDS[kind].rule == "skip" and self.on_bad == "stop":
      detail = f"{detail or KINDS[kind].text} ({kind})"
      raise XmcapError(f"{where}: {detail}: fix it, or skip such problems with --on_bad=skip")
    self.counts[kind] = self.counts.get(kind, 0) + 1
    examples = self.examples.setdefault(kind, [])
    if len(examples) < _EXAMPLES:
      examples.append((where, detail))
    if self._file is not None:
      row = json.dumps({"kind": kind, "where": where, "what": detail}, ensure_ascii=False)
      self._file.write(f"{row}\n".encode())
      return
    self.listed.append((kind, where, detail))
    if len(self.listed) > self._most:
      too_many = f"more than {self._most:,} problems, the last of the kind {kind}"
      raise XmcapError(f"{where}: {too_many}: give the files as they were published")

  def extend(self, listed: Iterable[tuple[str, str, str]]) -> None:
    """Adds the problems of another list."""
    for kind, where, detail in listed:
      self.add(kind, where, detail)

  def in_brief(self) -> str:
    """Returns every kind that occurred, most frequent first, with its first place, as one line."""
    kinds = sorted(self.counts, key=self.counts.__getitem__, reverse=True)
    firsts = {kind: ": ".join(filter(None, self.examples[kind][0])) for kind in kinds}
    return "; ".join(f"{self.counts[kind]:,} {kind} (first: {firsts[kind]})" for kind in kinds)

  def summary(self) -> str:
    """Returns one line per kind that occurred, in the order of `KINDS`: count, kind, text, rule, first place."""
    lines = []
    for kind in filter(self.counts.get, KINDS):
      done = "used" if KINDS[kind].rule == "use" else "left out"
      where, detail = self.examples[kind][0]
      first = where + (f": {detail}" if detail else "")
      lines.append(f"{self.counts[kind]:>12,}  {kind}: {KINDS[kind].text}; {done}. First: {first}")
    return "\n".join(lines)
