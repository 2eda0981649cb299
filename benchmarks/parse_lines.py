"""Lines of captions that one core parses, beside a plain loop of `bz2` and `json`; and memory by length.

usage: python benchmarks/parse_lines.py [--captions=12000] [--order=image|language] [--repeats=3]
  [--lines=100000,1000000,10000000]
Both read the same generated coco_mt_train.jsonl.bz2, each in a process of its own, in turns. Time is the process's CPU
time once it has imported what it needs. The plain loop reads each line with `bz2` and `json` and takes out the id, the
language and the text; xmcap also finds the picture, checks the text, and gives the English captions once.
Decompression alone is timed too, since no parser can be faster, and so are the same lines as .jsonl.gz. Text repeats
itself less where lines are ordered by language. Memory is the largest resident size of a process that spills all
captions of a file, as a build does; longer files are the same one over and over (bzip2 files may follow one another).
"""

import argparse
import bz2
import gzip
import importlib
import json
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

NAME = "coco_mt_train.jsonl.bz2"
_NAMES = {
  "plain": "a plain loop of bz2 and json",
  "ours": "xmcap, parsed and checked",
  "decompressed": "xmcap, decompression alone",
  "ours, gzip": "xmcap, from .jsonl.gz",
}


def plain(path: pathlib.Path) -> int:
  """What anyone would write; returns the lines."""
  count = 0
  with bz2.open(path) as lines:
    for line in lines:
      row = json.loads(line)
      _ = (row["image_id"], row["trg_lang"], row["caption_tokenized"], row["translation_tokenized"])
      count += 1
  return count


def ours(path: pathlib.Path) -> int:
  """The parser of the builds, all checks included; returns the lines."""
  from xmcap.corpora.building.problems import Problems
  from xmcap.reading import lines

  parser, problems, count = _parser(path), Problems(), 0
  for text, _ in lines.chunks(path):
    _, read = parser(text, count + 1, problems)
    count += read
  assert not problems.counts, problems.counts
  return count


def decompressed(path: pathlib.Path) -> int:
  """Decompression alone, as ours does it; returns 0."""
  from xmcap.reading import lines

  for _ in lines.chunks(path):
    pass
  return 0


def spilled(path: pathlib.Path) -> int:
  """The first phase of a build, in this process alone; returns the lines."""
  from xmcap.corpora.building import options, spill

  with tempfile.TemporaryDirectory(dir=path.parent) as folder:
    return spill.spill(options.BuildInProgress(pathlib.Path(folder)), "train", path, _parser(path)).lines


def _parser(path: pathlib.Path):
  from xmcap.corpora.releases import translations

  return translations.CocoParser(path.name, {n: n - 1 for n in range(1, 1_000_000)})


WAYS = {"plain": plain, "ours": ours, "decompressed": decompressed, "spilled": spilled}


def measure(way: str, path: pathlib.Path) -> dict[str, float]:
  """Runs one way in a process of its own; returns lines, CPU seconds (of the start, and after), and MB of memory."""
  command = [sys.executable, __file__, f"--way={way}", f"--path={path}"]
  return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def run_way(way: str, path: pathlib.Path) -> None:
  began = time.process_time()
  if way != "plain":
    for module in ("lines", "spill", "releases.translations"):
      importlib.import_module(f"xmcap.corpora.building.{module}")
  imported = time.process_time()
  lines = WAYS[way](path)
  seconds = time.process_time() - imported
  memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
  print(json.dumps({"lines": lines, "seconds": seconds, "imports": imported - began, "memory": memory}))


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--captions", type=int, default=12_000)
  parser.add_argument("--order", default="image", choices=("image", "language"))
  parser.add_argument("--repeats", type=int, default=3)
  parser.add_argument("--lines", default="100000,1000000,10000000")
  parser.add_argument("--way", choices=WAYS)
  parser.add_argument("--path", type=pathlib.Path)
  arguments = parser.parse_args()
  if arguments.way:
    run_way(arguments.way, arguments.path)
    return
  from benchmarks import large_release, report

  with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    large_release.write_coco35l(
      folder / "release", arguments.captions, order=arguments.order, pictures="none"
    )
    path = folder / "release" / NAME
    lines, starts = 0, []
    packed = path.with_suffix(".gz")
    with bz2.open(path) as source, gzip.open(packed, "wb", 6) as target:
      shutil.copyfileobj(source, target, 1 << 20)
    ways = {
      "plain": ("plain", path),
      "ours": ("ours", path),
      "decompressed": ("decompressed", path),
      "ours, gzip": ("ours", packed),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(arguments.repeats):
      for name, seconds in found.items():
        result = measure(*ways[name])
        lines = result["lines"] or lines
        seconds.append(result["seconds"])
        if name == "ours":
          starts.append(result["imports"])
    size = path.stat().st_size
    rows = []
    print(
      f"{lines:,} lines, {size / 1e6:,.0f} MB of bz2; CPU time of one process, median of {arguments.repeats}"
    )
    for name, seconds in found.items():
      middle = statistics.median(seconds)
      print(f"  {name:14s} {middle:6.2f} s  {lines / middle:10,.0f} lines a second")
      rows.append((f"lines per second: {_NAMES[name]}", f"{lines / middle:,.0f}"))
    print(f"the start of a process that is ours: {statistics.median(starts):.2f} s")
    for name in list(ways)[1:]:
      ratios = [a / b for a, b in zip(found["plain"], found[name], strict=True)]
      turns = ", ".join(f"{ratio:.2f}" for ratio in ratios)
      print(f"plain / {name}: {statistics.median(ratios):.2f} (of each turn: {turns})")
      rows.append((f"{_NAMES[name]} / {_NAMES['plain']}", f"{statistics.median(ratios):.2f}"))
    rows.append(("seconds to start a process", f"{statistics.median(starts):.2f}"))
    for wanted in map(int, filter(None, arguments.lines.split(","))):
      large_release.write_coco35l(
        folder / "part", min(wanted, 10**6) // 34 // 5 * 5 * 20 // 19, pictures="none"
      )
      long = folder / "long.jsonl.bz2"
      with open(long, "wb") as target:
        for _ in range(max(1, wanted // 10**6)):
          with open(folder / "part" / NAME, "rb") as source:
            shutil.copyfileobj(source, target)
      result = measure("spilled", long)
      print(f"memory at {result['lines']:12,} lines: {result['memory']:6.0f} MB ({result['seconds']:.0f} s)")
      rows.append((f"MB of a process that has parsed {result['lines']:,} lines", f"{result['memory']:.0f}"))
    report.write(
      "parse_lines" if arguments.order == "image" else "parse_lines_by_language",
      "Parsing of caption files on one core",
      rows,
      notes=[
        f"{size / 1e6:,.0f} MB of bz2; CPU time of all threads, medians of {arguments.repeats} rounds. A build"
        " decompresses bz2 on all cores at once.",
      ],
    )


if __name__ == "__main__":
  main()
