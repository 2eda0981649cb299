"""The check of a built corpus: every record read, every picture decoded, every caption looked at.

`xmcap.data.checking.preflight` looks at a little of a corpus before a run; this looks at all of it, on all cores, and says where
what it finds is. A record that a run could not use is an error; what is odd in a caption is a warning, for of many
millions of machine translations some are.
"""

import collections
import dataclasses
import hashlib
import io
import json
import os
import pathlib
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np
from PIL import Image

from xmcap import languages
from xmcap.data import images, records, workers
from xmcap.data.checking.report import ERRORS, Find, Report, SplitReport
from xmcap.data.records import Record, RecordSource
from xmcap.errors import UsageError, XmcapError
from xmcap.processes import Killed
from xmcap.storage import addresses, files, outputs

MAX_CHARACTERS = 500
"""A longer caption is over the limit; XM3600's longest has some 300."""

_PER_TASK = 256
_READ_AT_ONCE = 64
_MIN_LETTERS = 6  # of shorter captions, such as "DVD", the script says nothing
_MAX_SHOWN = 160
_DECODED_WRONGLY = "\ufffd"


def check(
  directory: str | os.PathLike,
  *,
  out: str | os.PathLike | None = None,
  splits: Sequence[str] = (),
  max_characters: int = MAX_CHARACTERS,
  processes: int | None = None,
  progress: Callable[[str, int, int], None] | None = None,
) -> Report:
  """Checks a corpus.

  Args:
    directory: of the records.
    out: folder of this machine for `check.json`, the report, and `check.jsonl`, a line a find; None: the corpus's own.
    splits: names, or parts such as `train[:1000]`; all of them if empty.
    max_characters: longer captions are counted.
    processes: None: one a core.
    progress: called with a split, and how many of how many records are done.

  Raises:
    UsageError: the folder is no corpus, or has no such split.
    XmcapError: the report cannot be written.
  """
  if out is None and addresses.is_remote(directory):
    raise UsageError(f"{directory} is not on this machine: say where the report goes with --out=DIR")
  out = pathlib.Path(out or directory)
  names = list(splits) or records.splits(directory)
  if not names:
    raise UsageError(f"{directory} is no corpus (dataset_info.json is absent): `xmcap data build` makes one")
  if max_characters < 1:
    raise UsageError(f"max_characters={max_characters}: give a limit of at least 1")
  sources = [RecordSource(directory, name) for name in names]
  tags = (
    frozenset(records.read_tags(directory))
    if addresses.is_file(addresses.join(directory, "tags.txt"))
    else None
  )
  files.make_folder(out)
  reports = []
  with outputs.together(out):
    with files.whole(out / "check.jsonl") as lines:
      for source in sources:
        reports.append(_check_split(source, tags, max_characters, processes, progress, lines))
    report = Report(str(directory), tuple(reports))
    files.write_text(out / "check.json", json.dumps(report.as_json(), ensure_ascii=False, indent=1) + "\n")
  return report


@dataclasses.dataclass(frozen=True)
class _Checker:
  """Checks records of a split, in any process."""

  source: RecordSource
  tags: frozenset[str] | None
  max_characters: int

  def __call__(self, indices: range) -> tuple[SplitReport, list[Find], np.ndarray]:
    """The report of some records, the finds, and uint64 [records] hashes of their keys."""
    report = SplitReport(self.source.split)
    finds: list[Find] = []
    hashes = []
    for start in range(0, len(indices), _READ_AT_ONCE):
      found: list[Find] = []
      texts: dict[str, list[tuple[int, str, str]]] = {}
      for index, record in self._read(indices[start : start + _READ_AT_ONCE]):
        report.pictures += 1
        if isinstance(record, XmcapError):
          found.append(Find(report.split, index, "", "damaged", str(record)))
          hashes.append(0)
        else:
          found += self._finds(index, record, report, texts)
          hashes.append(_hash(record.key))
      found += self._wrong_scripts(texts, report.split)
      found.sort(key=lambda find: find.index)
      report.bad += len({find.index for find in found if find.kind in ERRORS})
      for find in found:
        report.add(find)
      finds += found
    return report, finds, np.array(hashes, np.uint64)

  def _read(self, indices: Sequence[int]) -> Iterator[tuple[int, Record | XmcapError]]:
    try:
      yield from zip(indices, self.source.read(indices), strict=True)
    except XmcapError as error:
      if len(indices) == 1:
        yield indices[0], error
        return
      for index in indices:
        yield from self._read([index])

  def _finds(
    self, index: int, record: Record, report: SplitReport, texts: dict[str, list[tuple[int, str, str]]]
  ) -> Iterator[Find]:
    """Finds in a record; those of scripts are left, for many texts at once: language -> (index, key, text)."""

    def find(kind: str, what: str, language: str = "") -> Find:
      return Find(report.split, index, record.key, kind, _short(what), language)

    report.captions += len(record.captions)
    report.bytes += len(record.image)
    empty = [caption for caption in record.captions if not caption.text.strip()]
    try:
      kept = [caption for caption in record.captions if caption.text.strip()]
      records.check(dataclasses.replace(record, captions=kept))
    except XmcapError as error:
      yield find("invalid", str(error))
    try:
      height, width, _ = images.decode(record.image, record.key).shape
      with Image.open(io.BytesIO(record.image)) as image:
        report.formats[image.format] += 1
      low, high = report.sides
      report.sides = (min(low or height, height, width), max(high, height, width))
    except XmcapError as error:
      yield find("broken_picture", str(error))
    for tag in record.tags:
      if self.tags is not None and tag not in self.tags:
        yield find("unknown_tag", tag)
    if not record.captions:
      yield find("no_captions", "none in any language")
    for caption in empty:
      yield find("empty_caption", repr(caption.text), caption.language)
    for language, text in self._of_captions(record, find, found := []):
      texts.setdefault(language, []).append((index, record.key, text))
    yield from found

  def _of_captions(
    self, record: Record, find: Callable[..., Find], found: list[Find]
  ) -> Iterator[tuple[str, str]]:
    """Adds finds in captions; yields (language, text) of those whose script is to be looked at."""
    seen: set[tuple[str, str]] = set()
    for caption in record.captions:
      language, text = caption.language, caption.text
      if not text.strip():
        continue
      if not text.isprintable() or _DECODED_WRONGLY in text:
        odd = [
          char
          for char in text
          if char == _DECODED_WRONGLY or unicodedata.category(char) in ("Cc", "Cs", "Co")
        ]
        if odd:
          found.append(find("control_characters", f"{ascii(odd[0])} in {text}", language))
      if not any(unicodedata.category(char)[0] not in "CZ" for char in text):
        found.append(find("empty_caption", ascii(text), language))
      if len(text) > self.max_characters:
        found.append(find("long_caption", f"{len(text):,} characters: {text}", language))
      if (language, text) in seen:
        found.append(find("repeated_caption", text, language))
      elif language in languages.LANGUAGES:
        yield language, text
      seen.add((language, text))

  def _wrong_scripts(self, texts: Mapping[str, list[tuple[int, str, str]]], split: str) -> Iterator[Find]:
    # Imported here: data stands beside scoring, and only the check asks about scripts.
    from xmcap.scoring.health import scripts

    for language, held in texts.items():
      letters, own = scripts.count_letters([text for _, _, text in held], language)
      for place in np.flatnonzero((letters >= _MIN_LETTERS) & (2 * own < letters)).tolist():
        index, key, text = held[place]
        what = (
          f"{own[place]} of {letters[place]} letters are {'/'.join(scripts.scripts_of(language))}: {text}"
        )
        yield Find(split, index, key, "wrong_script", _short(what), language)


def _short(text: str) -> str:
  return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def _check_split(
  source: RecordSource,
  tags: frozenset[str] | None,
  max_characters: int,
  processes: int | None,
  progress: Callable[[str, int, int], None] | None,
  lines: BinaryIO,
) -> SplitReport:
  report = SplitReport(source.split)
  hashes = []
  checker = _Checker(source, tags, max_characters)
  for part, finds, part_hashes in _results(checker, len(source), processes):
    _merge(report, part)
    hashes.append(part_hashes)
    lines.writelines(map(_line, finds))
    if progress is not None:
      progress(source.split, report.pictures, len(source))
  for find in _repeated(source, np.concatenate(hashes)):
    report.add(find)
    report.bad += 1
    lines.write(_line(find))
  return report


def _line(find: Find) -> bytes:
  return f"{json.dumps(dataclasses.asdict(find), ensure_ascii=False)}\n".encode()


def _results(
  checker: _Checker, count: int, processes: int | None
) -> Iterator[tuple[SplitReport, list[Find], np.ndarray]]:
  tasks = [range(start, min(start + _PER_TASK, count)) for start in range(0, count, _PER_TASK)]
  processes = min(processes or files.available_cores(), len(tasks))
  if processes <= 1:
    yield from map(checker, tasks)
    return
  with workers.pool(processes, _begin, (checker,)) as pool:
    try:
      yield from pool.map(_check_range, tasks)
    except Killed:
      raise XmcapError(
        "a process that checked records was killed, perhaps for memory: use fewer processes"
      ) from None


_checker: _Checker | None = None  # of this process, so that it opens its files once


def _begin(checker: _Checker) -> None:
  global _checker
  _checker = checker


def _check_range(indices: range) -> tuple[SplitReport, list[Find], np.ndarray]:
  return _checker(indices)


def _merge(report: SplitReport, part: SplitReport) -> None:
  for name in ("pictures", "captions", "bytes", "bad"):
    setattr(report, name, getattr(report, name) + getattr(part, name))
  report.formats.update(part.formats)
  report.counts.update(part.counts)
  for kind, counts in part.by_language.items():
    report.by_language.setdefault(kind, collections.Counter()).update(counts)
  if part.sides[0]:
    low, high = report.sides
    report.sides = (min(low or part.sides[0], part.sides[0]), max(high, part.sides[1]))
  for kind, find in part.first.items():
    report.first.setdefault(kind, find)


def _hash(key: str) -> int:
  return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).digest(), "little") | 1


def _repeated(source: RecordSource, hashes: np.ndarray) -> Iterator[Find]:
  """Finds keys that come again: by their hashes, of which equal ones are looked up."""
  order = np.argsort(hashes, kind="stable")
  ordered = hashes[order]
  again = order[1:][(ordered[1:] == ordered[:-1]) & (ordered[1:] != 0)]
  for index in np.sort(again).tolist():
    first = int(order[np.searchsorted(ordered, hashes[index])])
    key = source[index].key
    if source[first].key == key:
      yield Find(source.split, index, key, "repeated_key", f"record {first:,} has it already")
