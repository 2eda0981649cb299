"""Builds of generated releases, for tests: small shards and chunks, so that there are many of them."""

import pathlib

from tests.corpora.release_folders import Release
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
