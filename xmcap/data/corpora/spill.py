"""Captions between a release and its records: written as they come, a file a chunk, and read back a shard at a time.

A release may hold the lines of a picture anywhere (sorted by language, say), and no memory holds all of them. So each
chunk of lines becomes one file in which the captions stand grouped by the shard of records that they belong to, and a
shard gathers its groups of all files. A file holds:

  MAGIC; uint64: bytes of its problems; uint64: lines of the chunk; uint64: shards
  uint64 [shards, 2]: captions of each shard, and bytes of their texts
  for each shard: its rows (`_ROW`), then its texts, UTF-8, one after the other
  the problems, JSON
"""

import dataclasses
import functools
import itertools
import json
import pathlib
from collections.abc import Iterator, Sequence

import numpy as np

from xmcap.data.corpora.lines import LineFile
from xmcap.data.corpora.problems import Problems
from xmcap.data.corpora.releases.translations import HUMAN, Captions, Parser
from xmcap.storage import files

_MAGIC = b"xmcap-1\n"
_HEADER_BYTES = len(_MAGIC) + 24
_ROW = np.dtype(
  [
    ("picture", "<u4"),
    ("line", "<u4"),
    ("bytes", "<u2"),
    ("number", "u1"),
    ("language", "u1"),
    ("source", "u1"),
  ]
)


def path_of(folder: pathlib.Path, split: str, chunk: int) -> pathlib.Path:
  """The file of a chunk."""
  return folder / f"{split}-{chunk:06d}.captions"


def write(
  lines: LineFile, parser: Parser, folder: pathlib.Path, split: str, shards: Sequence[int], chunk: int
) -> None:
  """Parses a chunk of lines and writes its file, whole or not at all; a file that is there is left as it is.

  Problems are kept with the numbers of lines in the chunk: how many come before it is not known yet.

  Args:
    lines: the captions.
    parser: of their lines.
    folder: for the file.
    split: its name.
    shards: number of pictures in each shard of records, in order.
    chunk: which.

  Raises:
    XmcapError: the lines cannot be read, or the disk is full.
  """
  path = path_of(folder, split, chunk)
  if path.exists():
    return
  problems = Problems()
  parts: list[np.ndarray] = []
  texts: list[bytes] = []
  count = 0
  for batch in lines.batches(chunk):
    captions, read = parser.parse(batch, count + 1, str, problems, is_start=chunk == 0 and count == 0)
    texts += [text.encode() for text in captions.texts]
    parts.append(_rows(captions, texts[-len(captions.texts) :] if captions.texts else []))
    count += read
  rows, texts = _grouped(np.concatenate([np.zeros(0, _ROW), *parts]), texts)
  # Rows are in the order of the pictures, so a shard is a range of them.
  ends = np.searchsorted(rows["picture"], np.cumsum(shards))
  text_ends = np.concatenate([[0], np.cumsum(rows["bytes"], dtype=np.int64)])
  with files.whole(path) as file:
    found = json.dumps(problems.to_json()).encode()
    file.write(_MAGIC + np.array([len(found), count, len(shards)], "<u8").tobytes())
    begins = np.concatenate([[0], ends[:-1]])
    file.write(np.stack([ends - begins, text_ends[ends] - text_ends[begins]], axis=1).astype("<u8").tobytes())
    for begin, end in zip(begins, ends, strict=True):
      file.write(rows[begin:end].tobytes())
      file.writelines(texts[begin:end])
    file.write(found)


def _rows(captions: Captions, texts: Sequence[bytes]) -> np.ndarray:
  """Captions as `_ROW` [N], and their texts' lengths."""
  rows = np.zeros(len(texts), _ROW)
  rows["picture"], rows["line"], rows["number"] = captions.pictures, captions.lines, captions.numbers
  rows["language"], rows["source"] = captions.languages, captions.sources
  rows["bytes"] = np.fromiter(map(len, texts), np.int64, len(texts))
  return rows


def _grouped(rows: np.ndarray, texts: Sequence[bytes]) -> tuple[np.ndarray, list[bytes]]:
  """The captions of a chunk in the order of the pictures; English once for each (picture, number)."""
  order = np.lexsort((rows["line"], rows["source"], rows["language"], rows["number"], rows["picture"]))
  rows = rows[order]
  keep = (rows["source"] != HUMAN) | ~_repeats(rows)
  return rows[keep], [texts[place] for place in order[keep]]


def _repeats(rows: np.ndarray) -> np.ndarray:
  """Whether the row before is of the same picture, number and language; bool [N]."""
  repeats = np.zeros(len(rows), bool)
  same = [rows[name][1:] == rows[name][:-1] for name in ("picture", "number", "language")]
  repeats[1:] = np.logical_and.reduce(same)
  return repeats


@functools.lru_cache(maxsize=4096)
def _header(path: pathlib.Path) -> tuple[int, int, np.ndarray]:
  """Of a file: bytes of its problems, lines, and int64 [shards, 2]."""
  with open(path, "rb") as file:
    head = file.read(_HEADER_BYTES)
    problem_bytes, lines, shards = (int(value) for value in np.frombuffer(head, "<u8", 3, len(_MAGIC)))
    return problem_bytes, lines, np.frombuffer(file.read(16 * shards), "<u8").astype(np.int64).reshape(-1, 2)


def num_lines(path: pathlib.Path) -> int:
  """The lines of a chunk."""
  return _header(path)[1]


def problems_of(path: pathlib.Path) -> Problems:
  """The problems of a chunk; each stands at the number of a line in it."""
  problem_bytes = _header(path)[0]
  with open(path, "rb") as file:
    file.seek(-problem_bytes, 2)
    return Problems.from_json(json.loads(file.read()))


@dataclasses.dataclass
class Gathered:
  """The captions of a shard, in the order of pictures, numbers, languages; of the same three, the first line's.

  Attributes:
    rows: `_ROW` [N].
    texts: N texts, UTF-8.
    repeated: (chunk, line in it, place of the row that is used), of captions that were given again.
  """

  rows: np.ndarray
  texts: list[bytes]
  repeated: list[tuple[int, int, int]]

  def by_picture(self, first: int, count: int) -> Iterator[range]:
    """The places of each picture's captions, for `count` pictures from `first` on."""
    cuts = np.searchsorted(self.rows["picture"], np.arange(first, first + count + 1))
    return itertools.starmap(range, itertools.pairwise(cuts.tolist()))


def gather(paths: Sequence[pathlib.Path], shard: int) -> Gathered:
  """Reads a shard's captions out of the files of all chunks."""
  parts, texts, chunks = [], [], []
  for chunk, path in enumerate(paths):
    _, _, table = _header(path)
    count, num_bytes = table[shard].tolist()
    if not count:
      continue
    before = table[:shard].sum(axis=0)
    with open(path, "rb") as file:
      file.seek(_HEADER_BYTES + table.nbytes + int(before[0]) * _ROW.itemsize + int(before[1]))
      rows = np.frombuffer(file.read(count * _ROW.itemsize), _ROW)
      text = file.read(num_bytes)
    parts.append(rows)
    chunks.append(np.full(count, chunk))
    ends = np.cumsum(rows["bytes"], dtype=np.int64).tolist()
    texts += [text[begin:end] for begin, end in itertools.pairwise([0, *ends])]
  if not parts:
    return Gathered(np.zeros(0, _ROW), [], [])
  rows, chunk = np.concatenate(parts), np.concatenate(chunks)
  # A person's English comes before a translation into it.
  order = np.lexsort((rows["line"], chunk, rows["source"], rows["language"], rows["number"], rows["picture"]))
  rows, chunk = rows[order], chunk[order]
  repeats = _repeats(rows)
  # English stands in the lines of all languages: that it comes again is no problem.
  odd = np.flatnonzero(repeats & (rows["source"] != HUMAN))
  used = np.cumsum(~repeats) - 1
  repeated = [(int(chunk[place]), int(rows["line"][place]), int(used[place])) for place in odd]
  keep = np.flatnonzero(~repeats)
  return Gathered(rows[keep], [texts[place] for place in order[keep]], repeated)
