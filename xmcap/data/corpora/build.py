"""Building a corpus from a release, on all cores, in constant memory, so that a killed build goes on where it was.

  1. Captions: each chunk of lines becomes a file, grouped by shard (spill.py).
  2. Shards: each gathers its captions from all those files, reads its pictures, and becomes one file of records.

What is whole is not made again. OUT/.build holds everything between; it goes when the corpus is whole. The bytes of
OUT depend on the release and the options alone, not on the number of processes, on kills, or on who was first.
OUT holds the records with TFDS's metadata, and

  problems.jsonl  each problem: `kind`, `where`, `what`
  NAME.json       options, inputs, counts of lines, captions and pictures; written last, so its presence says "whole"
"""

import collections
import dataclasses
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xmcap.data import lengths, record_writer, workers
from xmcap.data.corpora import lines as lines_lib
from xmcap.data.corpora import pictures as pictures_lib
from xmcap.data.corpora import plans, spill
from xmcap.data.corpora.listing import Listing
from xmcap.data.corpora.plans import Options
from xmcap.data.corpora.problems import KINDS, Problems
from xmcap.data.corpora.releases.translations import Cc3mIds, CocoIds, Parser
from xmcap.data.corpora.shards import ShardMaker
from xmcap.data.progress import Progress, Say
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import XmcapError, one_line
from xmcap.processes import Killed
from xmcap.storage import files

_WORK_DIR = ".build"


@dataclasses.dataclass(frozen=True)
class Split:
  """One split of a release.

  Attributes:
    name: of the split.
    captions: file of lines.
    listing: the pictures that it should have.
    ids: how its lines name them.
    places: folders and archives of pictures, as of `pictures.open_pictures`.
    key_map: as there.
  """

  name: str
  captions: pathlib.Path
  listing: Listing
  ids: CocoIds | Cc3mIds
  places: Sequence[pathlib.Path]
  key_map: pathlib.Path | None = None


@dataclasses.dataclass(frozen=True)
class Corpus:
  """A corpus to build.

  Attributes:
    name, version, description: for the files and TFDS.
    inputs: what it is made from: role (`train_captions`) -> path.
    splits: called with the working folder when it is known that there is something to build.
  """

  name: str
  version: str
  description: str
  inputs: Mapping[str, pathlib.Path]
  splits: Callable[[pathlib.Path], Sequence[Split]]


@dataclasses.dataclass(frozen=True)
class Report:
  """What came of a build.

  Attributes:
    out: the folder.
    splits: split -> `lines`, `captions`, `records`, and of pictures `listed`, `found`, `missing`, `broken`.
    problems: all of them.
    held: whether the folder held the corpus already.
  """

  out: pathlib.Path
  splits: Mapping[str, Mapping[str, int]]
  problems: Problems
  held: bool = False

  def summary(self) -> str:
    """Lines of text: the splits, then each kind of problem that occurred."""
    said = [f"{self.out} holds this corpus already" if self.held else f"{self.out} is built"]
    for split, counts in self.splits.items():
      said.append(
        f"{split}: {counts['records']:,} records with {counts['captions']:,} captions, from {counts['lines']:,} lines; "
        f"of {counts['listed']:,} pictures {counts['found']:,} found, {counts['missing']:,} missing, "
        f"{counts['broken']:,} broken"
      )
    if not self.problems.counts:
      return "\n".join([*said, "nothing was wrong with the release"])
    return "\n".join([*said, f"problems, each in {self.out / 'problems.jsonl'}:", self.problems.summary()])


def build(
  corpus: Corpus,
  out: str | os.PathLike,
  options: Options,
  *,
  processes: int | None = None,
  progress: Say | None = None,
  vocabulary: Vocabulary | None = None,
) -> Report:
  """Builds a corpus; a folder that holds it already is left as it is, and one that a kill left is finished.

  Args:
    corpus: what to build.
    out: folder; new, empty, or one of an earlier build of the same.
    options: of the build.
    processes: None: one a core; 1: this process alone.
    progress: called with a line of text now and then.
    vocabulary: in whose pieces a new corpus's captions are counted too, for an index of lengths; None: they are not.

  Raises:
    UsageError: an input is absent or of another kind, an option is out of range, or `out` holds something else.
    XmcapError: a file of the release is damaged, something is wrong with it and `on_bad` is `stop`, or the disk is
      full.
  """
  out = pathlib.Path(out)
  say = progress or (lambda line: None)
  cores = processes or files.available_cores()

  def make(wanted: Mapping[str, Any], work_dir: pathlib.Path) -> Report:
    return _build(corpus, out, work_dir, wanted, options, cores, say, vocabulary)

  return into(out, corpus.name, corpus.version, corpus.inputs, options, make)


def into(
  out: pathlib.Path,
  name: str,
  version: str,
  inputs: Mapping[str, pathlib.Path],
  options: Options,
  make: Callable[[Mapping[str, Any], pathlib.Path], Report],
) -> Report:
  """Makes a corpus in a folder, unless it is whole there; goes on with what was begun, and clears up at the end.

  Args:
    out: the folder.
    name, version, inputs: as of `Corpus`.
    options: of the build.
    make: called with the plan and the working folder; writes the corpus, by `finish` at the end.

  Raises:
    UsageError: an input is absent, an option is out of range, or `out` holds something else.
  """
  options.check()
  wanted = plans.plan(name, version, inputs, options)
  work_dir = out / _WORK_DIR
  report = _held(out, name, wanted)
  if report is None:
    plans.begin(out, work_dir, name, wanted)
    report = make(wanted, work_dir)
    # A worker of a killed build may have begun a file after `begin`, before it noticed.
    files.remove_incomplete(out)
  shutil.rmtree(work_dir, ignore_errors=True)
  return report


def _build(
  corpus: Corpus,
  out: pathlib.Path,
  work_dir: pathlib.Path,
  wanted: Mapping[str, Any],
  options: Options,
  processes: int,
  say: Say,
  vocabulary: Vocabulary | None,
) -> Report:
  splits = corpus.splits(work_dir)
  total, lists = Problems(), []  # of problems, and where they are listed, in the order of the report
  opened: dict[Any, pictures_lib.Pictures] = {}
  for split in splits:
    place = (tuple(split.places), split.key_map)
    if place not in opened:
      opened[place] = pictures_lib.open_pictures(
        split.places,
        work_dir / f"pictures-{split.name}",
        key_map=split.key_map,
        on_bad=options.on_bad,
        processes=processes,
        progress=say,
      )
      say(f"{len(opened[place]):,} pictures found in {', '.join(path.name for path in split.places)}")
      found = _relative(opened[place].problems, split.places)
      total.merge(found)
      total.take_listed()
      lists.append(lambda found=found: found)
  counts: dict[str, dict[str, int]] = {}
  makers: dict[str, ShardMaker] = {}
  for split in splits:
    line_file = lines_lib.open_lines(split.captions, work_dir, chunk_bytes=options.chunk_bytes, progress=say)
    located: list[_Located] = []

    def take(read: _Located, located: list[_Located] = located) -> None:
      total.merge(read())
      total.take_listed()
      located.append(read)

    num_lines = _spill(split, line_file, work_dir, options.on_bad, processes, say, take)
    lists += located
    counts[split.name] = {"lines": num_lines}
    makers[split.name] = ShardMaker(
      work_dir=work_dir,
      split=split.name,
      captions=split.captions.name,
      chunks=line_file.chunks,
      first_lines=np.array([read.before + 1 for read in located], np.int64),
      listing=split.listing,
      pictures=opened[tuple(split.places), split.key_map],
      image_size=options.image_size,
      quality=options.quality,
      on_bad=options.on_bad,
    )
  written = []
  for split in splits:
    maker, shards = makers[split.name], range(len(split.listing.shards))
    shown = Progress(say, f"{split.name}: records", split.listing.count)
    try:
      written.append(
        record_writer.write_split(
          out,
          split.name,
          shards,
          maker,
          dataset=corpus.name,
          processes=processes,
          progress=shown,
          finished=work_dir,
        )
      )
    except record_writer.EmptySplitError as error:
      raise _empty(error, split, [_Result(maker.result_path(shard)) for shard in shards]) from None
    tally: collections.Counter[str] = collections.Counter()
    for shard in shards:
      read = _Result(maker.result_path(shard))
      tally.update(read.tally())
      total.merge(read())
      total.take_listed()
      lists.append(read)
    counts[split.name] |= {
      "records": sum(written[-1].shard_lengths),
      **{name: tally[name] for name in ("captions", "listed", "found", "missing", "broken")},
    }
  record_writer.write_metadata(
    out, written, dataset=corpus.name, version=corpus.version, description=corpus.description
  )
  if vocabulary is not None:
    lengths.write(out, vocabulary, list(counts), processes=processes)
  plans.write_list(out / "problems.jsonl", lists)
  return finish(out, corpus.name, wanted, counts, total)


def _spill(
  split: Split,
  line_file: lines_lib.LineFile,
  work_dir: pathlib.Path,
  on_bad: str,
  processes: int,
  say: Say,
  take: Callable[["_Located"], None],
) -> int:
  """Phase 1 of a split; `take` gets the problems of each chunk in order, as soon as may be. Returns the lines."""
  shown = Progress(say, f"{split.name}: captions", line_file.size, "bytes")
  chunks = range(line_file.chunks)
  left = [chunk for chunk in chunks if not spill.path_of(work_dir, split.name, chunk).exists()]
  shown(line_file.size * (len(chunks) - len(left)) // max(1, len(chunks)))
  arguments = (line_file, Parser(split.ids), work_dir, split.name, split.listing.shards)

  def collect(results: Iterator[None]) -> int:
    lines, waiting = 0, len(left)
    for chunk in chunks:
      if chunk in missing:
        next(results)
        waiting -= 1
        shown(line_file.size * (len(chunks) - waiting) // len(chunks))
      path = spill.path_of(work_dir, split.name, chunk)
      take(_Located(path, split.captions.name, lines, on_bad))
      lines += spill.num_lines(path)
    return lines

  missing = frozenset(left)
  if processes == 1 or len(left) <= 1:
    return collect(spill.write(*arguments, chunk) for chunk in left)
  with workers.pool(min(processes, len(left))) as pool:
    try:
      return collect(pool.map(spill.write, *([value] * len(left) for value in arguments), left))
    except Killed:
      raise XmcapError(
        f"a process that read {split.captions.name} was killed, perhaps for memory: start again with fewer --processes"
      ) from None


def _empty(error: XmcapError, split: Split, results: Sequence["_Result"]) -> XmcapError:
  """Why a split has no records: what was wrong with its pictures, or that no line was about them."""
  total = Problems()
  for result in results:
    total.merge(result())
  places = ", ".join(map(str, split.places))
  said = (
    "; ".join(line.strip() for line in total.summary().splitlines()) or "no line of the captions can be used"
  )
  return XmcapError(f"{error}. Of {split.listing.count:,} pictures looked for in {places}: {said}")


def _relative(problems: Problems, places: Sequence[pathlib.Path]) -> Problems:
  """The same problems with places named as in the release: what is built is not to depend on where that lies."""
  named = Problems()
  for kind, where, what in problems.listed:
    for place in places:
      where, what = (text.replace(f"{place.parent}{os.sep}", "") for text in (where, what))
    named.add(kind, where, what)
  return named


@dataclasses.dataclass(frozen=True)
class _Located:
  """The problems of a chunk, which know the number of the line in it alone, with file and line; reads them anew."""

  path: pathlib.Path
  name: str
  before: int
  on_bad: str

  def __call__(self) -> Problems:
    problems = Problems(self.on_bad)
    for kind, line, what in spill.problems_of(self.path).listed:
      problems.add(kind, f"{self.name}, line {self.before + int(line):,}", what)
    return problems


@dataclasses.dataclass(frozen=True)
class _Result:
  """What came of a shard; reads it anew."""

  path: pathlib.Path

  def tally(self) -> Mapping[str, int]:
    return self._read()["tally"]

  def __call__(self) -> Problems:
    return Problems.from_json(self._read()["problems"])

  def _read(self) -> dict[str, Any]:
    return json.loads(self.path.read_text(encoding="utf-8"))


def finish(
  out: pathlib.Path,
  name: str,
  wanted: Mapping[str, Any],
  counts: Mapping[str, Mapping[str, int]],
  total: Problems,
) -> Report:
  """Writes NAME.json, which says that the corpus is whole, and returns what came of the build.

  Args:
    out: the folder.
    name: of the corpus.
    wanted: of `plans.plan`.
    counts: split -> counts, as in `Report`.
    total: all problems.
  """
  about = {
    **wanted,
    "splits": counts,
    "problems": {kind: total.counts[kind] for kind in KINDS if kind in total.counts},
    "first_problems": {kind: total.examples[kind] for kind in KINDS if kind in total.counts},
  }
  for given in about["inputs"].values():
    given.pop("modified", None)  # of the files here, not of the release
  files.write_text(out / f"{name}.json", json.dumps(about, ensure_ascii=False, indent=1) + "\n")
  return Report(out, counts, total)


def _held(out: pathlib.Path, name: str, wanted: Mapping[str, Any]) -> Report | None:
  """The report of a folder that holds the corpus; None if there is none. UsageError if it holds another."""
  path = out / f"{name}.json"
  try:
    about = json.loads(path.read_text(encoding="utf-8"))
  except (FileNotFoundError, NotADirectoryError):
    return None
  except (OSError, ValueError) as error:
    raise XmcapError(f"cannot read {path}: {one_line(error)}; remove {out} and build again") from None
  plans.compare(about, wanted, out, "holds")
  problems = Problems()
  problems.counts = about["problems"]
  problems.examples = about["first_problems"]
  return Report(out, about["splits"], problems, held=True)
