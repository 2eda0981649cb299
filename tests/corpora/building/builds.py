"""Builds of generated releases, for tests: small shards and chunks, so that there are many of them."""

import json
import os
import pathlib
import random
import signal
import sys
import time
import traceback

from tests.corpora.release_folders import Release
from xmcap import progress as progress_lib
from xmcap.corpora.building import build
from xmcap.corpora.building.options import Options
from xmcap.corpora.releases import cc3m35l, coco35l
from xmcap.corpora.releases import xm3600 as xm3600_lib

SMALL = {"shard_pictures": 7, "chunk_bytes": 30_000}


def coco(release: Release, out: pathlib.Path, **options) -> build.BuildReport:
  return run(coco35l.Coco35l(**release.paths), out, **options)


def cc3m(release: Release, out: pathlib.Path, **options) -> build.BuildReport:
  return run(cc3m35l.Cc3m35l(**release.paths), out, **options)


def xm3600(release: Release, out: pathlib.Path, **options) -> build.BuildReport:
  return run(xm3600_lib.Xm3600(**release.paths), out, **options)


def run(
  corpus: build.CorpusBuild, out: pathlib.Path, processes: int = 1, progress=None, **options
) -> build.BuildReport:
  """Builds with small shards and chunks."""
  return build.build(corpus, out, Options(**SMALL | options), processes=processes, progress=progress)


def differing(one: pathlib.Path, two: pathlib.Path) -> list[str]:
  """Paths of the files in two folders that are not in both with the same bytes."""
  held = [
    {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for folder in (one, two)
  ]
  return sorted(path for path in held[0].keys() | held[1].keys() if held[0].get(path) != held[1].get(path))


def main(corpus: str, paths: str, folder: str) -> None:
  """Builds into FOLDER/one undisturbed, and into FOLDER/two through ten kills at random moments.

  Each build is a fork of this process, which has imported all that it needs and started no thread.
  """
  progress_lib._SECONDS_BETWEEN = 0
  build_one = {"coco": coco, "cc3m": cc3m, "xm3600": xm3600}[corpus]
  paths = {role: pathlib.Path(path) for role, path in json.loads(paths).items()}
  release = Release(pathlib.Path(folder), paths, {}, {})
  rng = random.Random(6)

  def ends_well(name: str, lines: int | None = None) -> bool:
    """Whether a build comes to its end before it has said so many lines and is killed."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
      try:
        out = pathlib.Path(folder, name)
        build_one(
          release, out, progress=lambda line: os.write(write, b"\n"), shard_pictures=3, chunk_bytes=5_000
        )
        os._exit(0)
      except BaseException:
        traceback.print_exc()
        os._exit(1)
    os.close(write)
    with open(read, "rb") as said:
      for _ in range(lines) if lines else iter(int, 1):
        if not said.readline():
          break
      else:
        time.sleep(rng.random() * 0.02)
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1] == 0

  assert ends_well("one")
  kills = sum(not ends_well("two", rng.randint(1, 12)) for _ in range(10))
  assert kills >= 5, kills
  assert ends_well("two")


if __name__ == "__main__":
  main(*sys.argv[1:])
