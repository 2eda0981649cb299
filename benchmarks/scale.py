"""A corpus of 10^9 pictures on 1,000 hosts, simulated on one: memory, requests at the start, and the plan of a batch.

usage: python benchmarks/scale.py [--pictures=1_000_000_000] [--hosts=1_000] [--share=0.01]
The store is made up: it answers 80 ms after a request, with contents that follow from the place in a file, so it needs
no disk. The rest is the code of a run.

  indexes     processes of a host open the indexes of `share` of the files, 100,000 pictures each, one after the other
              and again; figures for all files are extrapolated
  lengths     a process opens the index of lengths of all pictures, 36 captions each, and plans its first batch
  plan        milliseconds of CPU for the plan of a batch, captions as long as COCO-35L's (lengths.py)
  heartbeats  what one process hears from all hosts every 3 seconds
"""

import argparse
import dataclasses
import io
import json
import multiprocessing
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import google_crc32c
import lengths
import numpy as np
import report

from xmcap import languages
from xmcap.data import length_index
from xmcap.data.array_records import range_index
from xmcap.data.array_records.range_index import RangeIndex
from xmcap.data.array_records.remote import RemoteRecordFiles
from xmcap.data.caption_choice import Drawing
from xmcap.data.length_batches import LengthBatches
from xmcap.data.length_index import LengthIndex, SplitLengths, StoredLengths
from xmcap.data.order import Order
from xmcap.data.records import Stretch
from xmcap.training.hosts import heartbeat, watch

_OF_FILE = 100_000  # pictures
_AT_ONCE = 8  # files whose indexes are opened together, as those of a part of a batch
_LATENCY = 0.08  # seconds
_PROCESSES = 3
_CAPTIONS = 36
_TARGETS = (16, 32, 64)
_PIECES = 40  # more than the second largest target length, as of one of the first images of most batches
_BATCHES = (2_048, 131_072)
_WINDOW = 16
_FILE = bytes(2 << 16)  # stands for a file of records, of which only the end is read

requests = multiprocessing.Value("q", 0)
read_bytes = multiprocessing.Value("q", 0)
contents: dict[str, Callable[[int, int | None], bytes]] = {}
"""End of a name -> what is in a range of such a file."""


class MadeUpStore(fsspec.AbstractFileSystem):
  """An object store whose files are functions; see `contents`."""

  protocol = "memory"

  def cat_file(self, path, start=None, end=None, **kwargs):
    time.sleep(_LATENCY)
    data = next(make for name, make in contents.items() if path.endswith(name))(start or 0, end)
    with requests.get_lock():
      requests.value += 1
      read_bytes.value += len(data)
    return data


def _repeated(pattern: bytes, header: int = 0) -> Callable[[int, int | None], bytes]:
  """A file of endless copies of a pattern behind a header."""

  def part(start: int, stop: int | None) -> bytes:
    first = (start - header) % len(pattern)
    size = (stop or start) - start
    return (pattern * -(-(first + size) // len(pattern)))[first : first + size]

  return part


def _whole(data: bytes) -> Callable[[int, int | None], bytes]:
  return lambda start, stop: bytes(bytearray(data[start:stop]))  # a copy, as of what arrives from a store


def _memory() -> int:
  """Resident bytes of this process that are not pages of files, which processes share and the system takes back."""
  lines = pathlib.Path("/proc/self/status").read_text().splitlines()
  return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def _in_a_process(measure: Callable[[], Any]) -> tuple[int, int, int, float]:
  """Calls `measure` in a process of its own; returns its bytes, and the requests, their bytes and the seconds."""
  results = multiprocessing.Queue()

  def run() -> None:
    before, asked, size, began = _memory(), requests.value, read_bytes.value, time.perf_counter()
    kept = measure()
    seconds = time.perf_counter() - began
    results.put((_memory() - before, requests.value - asked, read_bytes.value - size, seconds))
    del kept

  process = multiprocessing.get_context("fork").Process(target=run)
  process.start()
  result = results.get()
  process.join()
  return result


def _open_indexes(count: int) -> RemoteRecordFiles:
  names = [f"memory://bucket/{number}.records" for number in range(count)]
  files = RemoteRecordFiles(names, "memory://bucket")
  for first in range(0, count, _AT_ONCE):
    files._open(set(range(first, min(first + _AT_ONCE, count))))
  for file in range(count):
    assert len(files._index(file).rows) == _OF_FILE
  return files


def _indexes(pictures: int, share: float) -> Iterator[tuple[str, str]]:
  """Figures of the first process of a host that opens all indexes, and of a later one."""
  count = round(pictures / _OF_FILE * share)
  index = RangeIndex(len(_FILE), 0, np.zeros(_OF_FILE, range_index._ROW))
  index = dataclasses.replace(index, end_crc32c=google_crc32c.value(_FILE[slice(*index.end)]))
  contents[range_index.SUFFIX], contents[".records"] = _whole(index.to_bytes()), _whole(_FILE)
  opened = [_in_a_process(lambda: _open_indexes(count)) for _ in range(_PROCESSES)]
  later = tuple(statistics.median(column) for column in zip(*opened[1:], strict=True))
  for name, (memory, asked, size, seconds) in (("first", opened[0]), ("a later", later)):
    yield f"indexes of all files, {name} process of a host: memory", f"{memory / share / 2**20:,.0f} MiB"
    yield "the same: requests", f"{asked / share:,.0f}, {size / share / 1e9:.3f} GB"
    yield "the same: seconds", f"{seconds / share:,.0f}"


def _stored_lengths(pictures: int) -> StoredLengths:
  """The index of lengths of so many pictures, each of 36 captions of 40 pieces."""
  block = length_index._BLOCK
  ends = length_index._ends_of_blocks(pictures)
  offsets = np.arange(block, dtype=np.uint32) * _CAPTIONS
  patterns = {
    "lengths.npy": bytes([_PIECES]) * (block * _CAPTIONS),
    "layouts.npy": b"\x01" * block,
    "offsets.npy": offsets.tobytes(),
  }
  for name, pattern in patterns.items():
    contents[name] = _repeated(pattern, 128)
  last = int(ends[-1] - ends[-2])
  table = np.zeros((len(ends), 4), np.int64)
  table[:, 0] = ends * _CAPTIONS
  for column, pattern in enumerate(patterns.values(), 1):
    table[:-1, column] = google_crc32c.value(pattern)
    table[-2, column] = google_crc32c.value(pattern[: len(pattern) // block * last])
  stored = io.BytesIO()
  np.save(stored, table)
  contents["blocks.npy"] = _whole(stored.getvalue())
  layouts = [" ".join(f"{code}/{source}" for code in languages.LANGUAGES) for source in ("human", "mt")]
  about = {
    "records": {"shard_lengths": [pictures]},
    "dtypes": {"lengths.npy": "|u1", "layouts.npy": "|u1", "offsets.npy": "<u4"},
    "layouts": layouts,
    "crc32c": length_index._checksum(stored.getvalue(), layouts),
  }
  return StoredLengths("memory://bucket/lengths", about, "")


def _batches(
  index: LengthIndex, pictures: int, batch: int, window: int, targets: tuple[int, ...]
) -> LengthBatches:
  codes = languages.TRAINED
  drawing = Drawing(0, codes, [dict.fromkeys(codes, 1.0)], None, 1)
  return LengthBatches(drawing, [index], Order(0, [pictures]), batch, targets, window)


def _lengths(pictures: int) -> Iterator[tuple[str, str]]:
  """Figures of the processes of a host that plan their first batch with the stored lengths of all pictures."""

  def first_batch(index: StoredLengths) -> tuple[LengthBatches, int]:
    whole = LengthIndex({"": index}, [Stretch("", 0, pictures)])
    batches = _batches(whole, pictures, _BATCHES[0], 1, _TARGETS)
    return batches, batches.length(0)

  for name in ("first", "a later"):
    memory, asked, size, seconds = _in_a_process(lambda: first_batch(_stored_lengths(pictures)))
    yield f"lengths, {name} process of a host, to its first batch: memory", f"{memory / 2**20:,.0f} MiB"
    yield "the same: requests", f"{asked:,}, {size / 1e6:,.0f} MB"
    yield "the same: seconds", f"{seconds:.1f}"


@dataclasses.dataclass(frozen=True)
class _Tiled:
  """The lengths of a small corpus over and over."""

  small: SplitLengths

  @property
  def layouts(self):
    return self.small.layouts

  @property
  def lengths(self):
    return self.small.lengths

  def at(self, records: np.ndarray):
    return self.small.at(records % len(self.small.starts))


def _plan(pictures: int, hosts: int) -> Iterator[tuple[str, str]]:
  tiled: Any = _Tiled(lengths.made_up(20_000))
  index = LengthIndex({"": tiled}, [Stretch("", 0, pictures)])
  for targets, window in ((_TARGETS[-1:], 1), (_TARGETS, 1), (_TARGETS, _WINDOW)):
    for batch in _BATCHES:
      batches, times = _batches(index, pictures, batch, window, targets), []
      rows = np.arange(0, batch, hosts)
      for step in range(2 if window * batch > 10**6 else 10):
        began = time.process_time()
        batches.length(step * window)
        batches.positions(step * window, rows)
        times.append((time.process_time() - began) / window)
      name = f"plan of a batch of {batch:,}, target lengths {', '.join(map(str, targets))}, window {window}"
      yield name, f"{statistics.median(times[1:]) * 1e3:.2f} ms"


def _heartbeats(hosts: int) -> Iterator[tuple[str, str]]:
  """What a process reads at each beat, and its CPU for it."""
  state = watch.State(123_456, "step", "step 12,345", 0.1, 600.0, True, "loop.py:150 in train")
  times: list[float] = []

  class Service(heartbeat.Alone):
    def key_value_dir_get(self, prefix: str) -> list[tuple[str, str]]:
      times.append(time.thread_time())
      beat = json.dumps({"alive": len(times), "state": dataclasses.asdict(state)})
      return [(f"{prefix}{number}", beat) for number in range(hosts)]

  heartbeat.BEAT = 0.05
  service = Service()
  beating = heartbeat.Heartbeat(service, 0, hosts, 60.0, None, str)
  time.sleep(2)
  beating.stop()
  size = sum(len(key) + len(text) for key, text in service.key_value_dir_get("xmcap/alive/"))
  seconds = statistics.median(np.diff(times[:-1]))
  yield f"heartbeats of {hosts:,} processes: a process reads", f"{size / 1e3:.0f} kB every {watch.BEAT:g} s"
  yield "the same: process 0 sends", f"{size * hosts / watch.BEAT / 1e6:.0f} MB/s"
  yield "the same: CPU of each process", f"{seconds * 1e3:.1f} ms every {watch.BEAT:g} s"


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--pictures", type=int, default=10**9)
  parser.add_argument("--hosts", type=int, default=1_000)
  parser.add_argument("--share", type=float, default=0.01)
  arguments = parser.parse_args()
  fsspec.register_implementation("memory", MadeUpStore, clobber=True)
  with tempfile.TemporaryDirectory() as cache:
    os.environ["XDG_CACHE_HOME"] = cache
    rows = [
      *_plan(arguments.pictures, arguments.hosts),
      *_heartbeats(arguments.hosts),
      *_lengths(arguments.pictures),
      *_indexes(arguments.pictures, arguments.share),
    ]
  for row in rows:
    print(*row, sep="  ")
  report.write(
    "scale",
    f"{arguments.pictures:,} pictures on {arguments.hosts:,} hosts, simulated",
    rows,
    notes=[
      f"The store is made up and answers after {_LATENCY * 1e3:.0f} ms. Indexes of records: of {arguments.share:.0%} "
      f"of the files of {_OF_FILE:,} pictures, extrapolated. Memory is that of the process alone, without pages of "
      "files, which are shared. Times of plans and heartbeats are CPU time.",
    ],
  )


if __name__ == "__main__":
  main()
