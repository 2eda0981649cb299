"""Sorts the captions of a release by image, on disk.

A release may be sorted by language, and it does not fit in memory. So each chunk of lines becomes a database ordered by
image, and a shard collects its captions from all of them.
"""

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from xmcap import processes as processes_lib
from xmcap.corpora.building.options import BuildInProgress
from xmcap.corpora.building.problems import Problems
from xmcap.errors import XmcapError
from xmcap.files import databases, files
from xmcap.processes import Killed
from xmcap.progress import Progress
from xmcap.reading import lines

_SCHEMA = """
CREATE TABLE captions (picture, number, language, source, line, text,
  PRIMARY KEY (picture, number, language, source, line)) WITHOUT ROWID;
CREATE TABLE problems (kind, place, what);
CREATE TABLE about (lines);
"""

_PACKED_TO = 10  # approximate compression ratio


class CaptionRow(NamedTuple):
  """A caption: position of its image, number there, language, index into SOURCES, line in the file, text."""

  picture: int
  number: int
  language: str
  source: int
  line: int
  text: str


Parse = Callable[[bytes, int, Problems], tuple[list[CaptionRow], int]]
"""Given whole lines and the number of the first, returns their captions and the number of lines. Picklable."""


@dataclasses.dataclass(frozen=True)
class Spilled:
  """The captions of a split on disk: `chunks` databases, made from `lines` lines of the file `name`."""

  name: str
  folder: pathlib.Path
  split: str
  chunks: int
  lines: int

  def captions(self, places: range) -> list[CaptionRow]:
    """Returns the captions of some images, sorted by image, number, language, source, then line."""
    rows: list[CaptionRow] = []
    for chunk in range(self.chunks):
      with databases.reading(_path(self.folder, self.split, chunk)) as database:
        cursor = database.execute(
          "SELECT * FROM captions WHERE picture >= ? AND picture < ?", (places.start, places.stop)
        )
        rows.extend(map(CaptionRow._make, cursor))
    return sorted(rows)


def spill(work: BuildInProgress, split: str, path: pathlib.Path, parse: Parse) -> Spilled:
  """Reads a file of captions into the working folder, without chunks that are there already.

  XmcapError if the file is damaged, a problem stops the build, or the disk is full.
  """
  done = work.folder / f"{split}.captions.json"
  if done.exists():
    spilled = Spilled(path.name, work.folder, split, **json.loads(done.read_text(encoding="utf-8")))
    for chunk in range(spilled.chunks):
      _collect(_path(work.folder, split, chunk), work.problems)
    return spilled
  size = path.stat().st_size if path.is_file() else 0
  shown = Progress(work.say, f"{split}: captions", size, "bytes")
  chunk_bytes = work.options.chunk_bytes
  processes = min(work.processes, 1 + _PACKED_TO * size // chunk_bytes)  # a process takes seconds to start
  chunks = total = 0
  with contextlib.ExitStack() as stack:
    pieces = stack.enter_context(contextlib.closing(lines.chunks(path, chunk_bytes)))
    run = map if processes == 1 else stack.enter_context(processes_lib.pool(processes)).map
    try:
      for chunks, share in enumerate(run(_write, _calls(pieces, parse, work.folder, split)), 1):
        total += _collect(_path(work.folder, split, chunks - 1), work.problems)
        shown(int(share * size))
    except Killed:
      reason = f"a process that read {path.name} was killed, perhaps out of memory"
      raise XmcapError(f"{reason}: start again with fewer --processes") from None
  files.write_text(done, json.dumps({"chunks": chunks, "lines": total}))
  return Spilled(path.name, work.folder, split, chunks, total)


_Call = tuple[pathlib.Path, Parse, int, bytes, float]
"""A chunk to parse: its database, number of the first line, text (empty if the database exists), share read so far."""


def _calls(
  pieces: Iterator[tuple[bytes, float]], parse: Parse, folder: pathlib.Path, split: str
) -> Iterator[_Call]:
  first = 1
  for chunk, (text, share) in enumerate(pieces):
    path = _path(folder, split, chunk)
    yield path, parse, first, b"" if path.exists() else text, share
    first += text.count(b"\n")


def _path(folder: pathlib.Path, split: str, chunk: int) -> pathlib.Path:
  return folder / f"{split}-{chunk:06d}.captions"


def _write(call: _Call) -> float:
  """Writes the database of a chunk, unless it exists; returns the share of the release read so far."""
  path, parse, first, text, share = call
  if text:
    problems = Problems()
    rows, count = parse(text, first, problems)
    with databases.writing(path, _SCHEMA) as database:
      database.executemany("INSERT INTO captions VALUES (?, ?, ?, ?, ?, ?)", sorted(rows))
      database.executemany("INSERT INTO problems VALUES (?, ?, ?)", problems.listed)
      database.execute("INSERT INTO about VALUES (?)", (count,))
  return share


def _collect(path: pathlib.Path, problems: Problems) -> int:
  """Adds the problems of a chunk; returns its number of lines."""
  with databases.reading(path) as database:
    problems.extend(database.execute("SELECT * FROM problems ORDER BY rowid"))
    return database.execute("SELECT lines FROM about").fetchone()[0]
