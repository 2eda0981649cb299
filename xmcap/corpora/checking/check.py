"""Checks a built corpus: reads every record, decodes every image and looks at every caption.

`preflight.py` checks a sample before a run; this checks everything, on all cores, and lists its findings. A record that
a run cannot use is an error. An odd caption is only a warning, because among millions of machine translations some are
odd.
"""

import collections
import dataclasses
import itertools
import json
import os
import pathlib
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np

from xmcap import languages
from xmcap import processes as processes_lib
from xmcap.corpora.building import duplicates
from xmcap.corpora.checking.copies import SCHEMA, Copies, Identity
from xmcap.data import images, records
from xmcap.data.array_records import range_index
from xmcap.data.records import Caption, Record, RecordSource
from xmcap.errors import UsageError, XmcapError
from xmcap.files import addresses, databases, files, outputs
from xmcap.progress import Say
from xmcap.reading import image_formats
from xmcap.terminal import shown

KINDS: Mapping[str, str] = {
  "damaged": "records that cannot be read",
  "wrong_index": "files whose index of records is not theirs",
  "invalid": "records that do not follow the layout",
  "broken_picture": "pictures that cannot be decoded",
  "repeated_key": "keys that another record has too",
  "in_other_split": "pictures whose pixels an earlier split has too",
  "like_other_split": "pictures that look like one of an earlier split, which may be the same: compare some",
  "repeated_picture": "pictures whose pixels an earlier record of the split has too",
  "unknown_tag": "tags that are not in tags.txt",
  "no_captions": "pictures without captions",
  "empty_caption": "captions without a letter, digit or symbol",
  "control_characters": "captions with control characters, or with U+FFFD from a wrong decoding",
  "long_caption": "captions over the limit",
  "wrong_script": "captions with most letters outside the script of their language",
  "repeated_caption": "captions that repeat another caption of the picture in the same language",
}
"""Kinds of findings; those in ERRORS make a record unusable, or in a bucket a file."""

ERRORS = ("damaged", "wrong_index", "invalid", "broken_picture", "repeated_key", "unknown_tag")
_MAX_LANGUAGES = 8  # shown per kind

MAX_CHARACTERS = 500
"""Default limit for the length of a caption; XM3600's longest has some 300 characters."""

_CHUNK = 256  # records per call of a process
_READ_AT_ONCE = 64
_MIN_LETTERS = 6  # the script of shorter captions, such as "DVD", is not checked
_MAX_SHOWN = 160
_DECODED_WRONGLY = "\ufffd"

Texts = dict[str, list[tuple[int, str, str]]]
"""Language -> (index, key, text) of each caption."""

Problem = tuple[str, str, str]
"""Kind of a finding, its description, and a language or ""."""


@dataclasses.dataclass(frozen=True)
class Find:
  """A finding: split, index and key of the record, kind, description, and a language or "".

  For `wrong_index`, index and key are the number and the name of the file.
  """

  split: str
  index: int
  key: str
  kind: str
  what: str
  language: str = ""


@dataclasses.dataclass
class SplitFindings:
  """The findings in a split; `str()` gives a summary for display.

  Attributes:
    bytes: total size of the stored images.
    formats: `JPEG` and so on -> number of images.
    counts: kind -> number of findings.
    by_language: kind -> language -> number of findings in captions.
    bad: number of unusable records.
    sides: shortest and longest side of any image, in pixels; 0 if none could be decoded.
    first: kind -> its first finding.
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
    """Counts a finding."""
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
        common = self.by_language[kind].most_common(_MAX_LANGUAGES)
        more = len(self.by_language[kind]) - len(common)
        tail = f" and {more} more languages" if more else ""
        lines.append(f"{'':14}{', '.join(f'{code} {count:,}' for code, count in common)}{tail}")
      first = self.first[kind]
      language = f" ({first.language})" if first.language else ""
      lines.append(f"{'':14}first: {shown(first.key)}{language}: {shown(first.what)}")
    if not self.counts:
      lines.append("  no problems")
    return "\n".join(lines)

  def as_json(self) -> dict:
    """Returns the summary as a JSON object."""
    names = ("split", "pictures", "captions", "bytes", "bad", "sides")
    return {
      **{name: getattr(self, name) for name in names},
      "formats": dict(sorted(self.formats.items())),
      "counts": {kind: self.counts[kind] for kind in KINDS if self.counts[kind]},
      "by_language": {kind: dict(sorted(counts.items())) for kind, counts in self.by_language.items()},
    }


def check(
  directory: str | os.PathLike,
  *,
  out: str | os.PathLike | None = None,
  splits: Sequence[str] = (),
  max_characters: int = MAX_CHARACTERS,
  processes: int | None = None,
  say: Say | None = None,
) -> list[SplitFindings]:
  """Checks the splits of a corpus.

  Args:
    directory: the corpus.
    out: local folder for `check.json`, the summary, and `check.jsonl`, one line per finding; None: the corpus's folder.
    splits: names, or parts such as `train[:1000]`; all splits if empty.
    max_characters: longer captions are findings.
    processes: number of processes; None: all cores.
    say: receives progress lines.
  """
  if out is None and addresses.is_remote(directory):
    raise UsageError(f"{directory} is remote: give a local folder for the report with --out=DIR")
  out = pathlib.Path(out or directory)
  if max_characters < 1:
    raise UsageError(f"max_characters={max_characters}: give a limit of at least 1")
  # `train` first, because the others should not have its pictures; without a corpus, it raises the error.
  names = splits or sorted(records.splits(directory), key=lambda name: (name != "train", name)) or ["train"]
  sources = [RecordSource(directory, name) for name in names]
  has_tags = addresses.is_file(addresses.join(directory, "tags.txt"))
  tags = frozenset(records.read_tags(directory)) if has_tags else None
  files.make_folder(out)
  findings = []
  with (
    outputs.together(out),
    tempfile.TemporaryDirectory(prefix=".check-", suffix=".incomplete", dir=out) as folder,
  ):
    with (
      files.whole(out / "check.jsonl") as lines,
      databases.writing(pathlib.Path(folder, "pictures.sqlite"), SCHEMA) as database,
    ):
      copies = Copies(database, say)
      for source in sources:
        options = {"chunk": _CHUNK, "processes": processes, "say": say}
        noun = f"{source.split}: records checked"
        chunks = processes_lib.map_records(_check_records, source, tags, max_characters, what=noun, **options)
        findings.append(_collected(source, chunks, lines, copies))
        alike = (
          Find(source.split, index, key, "like_other_split", what) for index, key, what in copies.alike()
        )
        for find in itertools.chain(alike, _wrong_indexes(source, processes)):
          findings[-1].add(find)
          lines.write(_line(find))
    about = {
      "directory": str(directory),
      "bad": sum(split.bad for split in findings),
      "splits": [split.as_json() for split in findings],
    }
    files.write_text(out / "check.json", json.dumps(about, ensure_ascii=False, indent=1) + "\n")
  return findings


def _collected(
  source: RecordSource,
  chunks: Iterator[tuple[SplitFindings, list[Find], list[Identity]]],
  lines: BinaryIO,
  copies: Copies,
) -> SplitFindings:
  """Sums up the chunks of a split, and writes their findings."""
  total = SplitFindings(source.split)
  copies.begin(source)
  for part, finds, identities in chunks:
    for index, identity in enumerate(identities, total.pictures):
      finds += [Find(source.split, index, identity.key, kind, what) for kind, what in copies.add(identity)]
    finds.sort(key=lambda find: find.index)
    total.bad += len({find.index for find in finds if find.kind in ERRORS})
    for find in finds:
      total.add(find)
      lines.write(_line(find))
    total.pictures += part.pictures
    total.captions += part.captions
    total.bytes += part.bytes
    total.formats += part.formats
    if sides := [side for side in (*total.sides, *part.sides) if side]:
      total.sides = min(sides), max(sides)
  return total


def _line(find: Find) -> bytes:
  return f"{json.dumps(dataclasses.asdict(find), ensure_ascii=False)}\n".encode()


def _wrong_indexes(source: RecordSource, processes: int | None) -> Iterator[Find]:
  """Yields the local files of a source whose index is wrong; those in a bucket were read by it."""
  indexed = [path for path in source.files if os.path.isfile(path + range_index.SUFFIX)]
  with processes_lib.pool(min(processes or processes_lib.available_cores(), len(indexed))) as pool:
    for path, wrong in zip(indexed, pool.map(range_index.is_wrong, indexed), strict=True):
      if wrong:
        detail = "the index is damaged, or of another file"
        yield Find(source.split, source.files.index(path), os.path.basename(path), "wrong_index", detail)


def _check_records(
  source: RecordSource, indices: range, tags: frozenset[str] | None, max_characters: int
) -> tuple[SplitFindings, list[Find], list[Identity]]:
  """Checks the records at some indices, in any process; returns totals, findings, and identities."""
  totals = SplitFindings(source.split, len(indices))
  finds: list[Find] = []
  identities: list[Identity] = []
  texts: Texts = {}
  for start in range(0, len(indices), _READ_AT_ONCE):
    for index, record in _read(source, indices[start : start + _READ_AT_ONCE]):
      if isinstance(record, XmcapError):
        finds.append(Find(source.split, index, "", "damaged", str(record)))
        identities.append(Identity())
        continue
      totals.captions += len(record.captions)
      totals.bytes += len(record.image)
      in_picture, identity = _in_picture(record, totals)
      identities.append(identity)
      problems = [
        *_in_record(record),
        *in_picture,
        *(("unknown_tag", tag, "") for tag in record.tags if tags is not None and tag not in tags),
        *_in_captions(record.captions, max_characters),
      ]
      finds += [
        Find(source.split, index, record.key, kind, shown(detail, _MAX_SHOWN), language)
        for kind, detail, language in problems
      ]
      for language, text in dict.fromkeys((caption.language, caption.text) for caption in record.captions):
        if text.strip() and languages.is_known(language):
          texts.setdefault(language, []).append((index, record.key, text))
  finds += _wrong_scripts(texts, source.split)
  return totals, finds, identities


def _read(source: RecordSource, indices: Sequence[int]) -> Iterator[tuple[int, Record | XmcapError]]:
  """Reads records one by one if a batch has a damaged one, so that no other is lost."""
  try:
    yield from zip(indices, source.read(indices), strict=True)
  except XmcapError as error:
    if len(indices) == 1:
      yield indices[0], error
      return
    for index in indices:
      yield from _read(source, [index])


def _in_record(record: Record) -> Iterator[Problem]:
  # Empty captions are a separate kind.
  kept = [caption for caption in record.captions if caption.text.strip()]
  try:
    records.check(dataclasses.replace(record, captions=kept))
  except XmcapError as error:
    yield "invalid", str(error), ""


def _in_picture(record: Record, totals: SplitFindings) -> tuple[list[Problem], Identity]:
  """Returns the problems of an image, and its identity."""
  try:
    pixels = images.decode(record.image, record.key)
  except XmcapError as error:
    return [("broken_picture", str(error), "")], Identity(record.key)
  with image_formats.opened(record.image) as image:
    totals.formats[image.format] += 1
  height, width, _ = pixels.shape
  smallest, largest = totals.sides if any(totals.sides) else (height, height)
  totals.sides = min(smallest, height, width), max(largest, height, width)
  return [], Identity(record.key, duplicates.pixel_hash(pixels), duplicates.difference_hash(pixels))


def _in_captions(captions: Sequence[Caption], max_characters: int) -> Iterator[Problem]:
  if not captions:
    yield "no_captions", "no caption in any language", ""
  seen: set[tuple[str, str]] = set()
  for caption in captions:
    language, text = caption.language, caption.text
    if not text.strip():
      yield "empty_caption", repr(text), language
      continue
    if odd := _odd_character(text):
      yield "control_characters", f"{ascii(odd)} in {text}", language
    if not any(unicodedata.category(char)[0] not in "CZ" for char in text):
      yield "empty_caption", ascii(text), language
    if len(text) > max_characters:
      yield "long_caption", f"{len(text):,} characters: {text}", language
    if (language, text) in seen:
      yield "repeated_caption", text, language
    seen.add((language, text))


def _odd_character(text: str) -> str:
  """Returns the first control, surrogate or private-use character or U+FFFD of a text; "" if there is none."""
  if text.isprintable() and _DECODED_WRONGLY not in text:
    return ""
  odd = (
    char for char in text if char == _DECODED_WRONGLY or unicodedata.category(char) in ("Cc", "Cs", "Co")
  )
  return next(odd, "")


def _wrong_scripts(texts: Texts, split: str) -> Iterator[Find]:
  from xmcap.scoring.health import scripts  # only the check needs it

  for language, captions in texts.items():
    letters, own = scripts.count_letters([text for _, _, text in captions], language)
    for place in np.flatnonzero((letters >= _MIN_LETTERS) & (2 * own < letters)).tolist():
      index, key, text = captions[place]
      note = f"{own[place]} of {letters[place]} letters are {'/'.join(scripts.scripts_of(language))}: {text}"
      yield Find(split, index, key, "wrong_script", shown(note, _MAX_SHOWN), language)
