"""Builds of generated releases, for tests: small shards and chunks, so that there are many of them."""

import pathlib
import sys

from tests.data.releases import Release
from xmcap.data import progress as progress_lib
from xmcap.data.corpora import build
from xmcap.data.corpora.plans import Options
from xmcap.data.corpora.releases import cc3m35l, coco35l

SMALL = {"shard_pictures": 7, "chunk_bytes": 30_000}


def coco(release: Release, out: pathlib.Path, processes: int = 1, progress=None, **options) -> build.Report:
  paths = dict(release.paths)
  images = [paths.pop("train_images"), paths.pop("val_images")]
  made = Options(**SMALL | options)
  corpus = coco35l.corpus(**paths, images=images, options=made)
  return build.build(corpus, out, made, processes=processes, progress=progress)


def cc3m(release: Release, out: pathlib.Path, processes: int = 1, progress=None, **options) -> build.Report:
  made = Options(**SMALL | options)
  return build.build(
    cc3m35l.corpus(**release.paths, options=made), out, made, processes=processes, progress=progress
  )


def differing(one: pathlib.Path, two: pathlib.Path) -> list[str]:
  """Paths of the files in two folders that are not in both with the same bytes."""
  held = [
    {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for folder in (one, two)
  ]
  return sorted(path for path in held[0].keys() | held[1].keys() if held[0].get(path) != held[1].get(path))


_COCO_PATHS = {
  "train_captions": "coco_mt_train.jsonl.bz2",
  "dev_captions": "coco_mt_dev.jsonl.bz2",
  "karpathy": "dataset_coco.json",
  "train_images": "train2014.zip",
  "val_images": "val2014.zip",
}
_CC3M_PATHS = {
  "train_captions": "cc3m_mt_train.jsonl.bz2",
  "dev_captions": "cc3m_mt_dev.jsonl.bz2",
  "train_tsv": "Train_GCC-training.tsv",
  "dev_tsv": "Validation_GCC-1.1.0-Validation.tsv",
  "train_images": "train_images",
  "dev_images": "dev_images",
}


def main(corpus: str, folder: str, out: str) -> None:
  """Builds `coco` or `cc3m` from zip and tar files in two processes, and says every step at once."""
  progress_lib._SECONDS_BETWEEN = 0
  build_one, names = {"coco": (coco, _COCO_PATHS), "cc3m": (cc3m, _CC3M_PATHS)}[corpus]
  paths = {role: pathlib.Path(folder, name) for role, name in names.items()}
  build_one(
    Release(pathlib.Path(folder), paths, {}, {}),
    pathlib.Path(out),
    processes=2,
    progress=lambda line: print(line, flush=True),
    shard_pictures=3,
    chunk_bytes=1,
  )


if __name__ == "__main__":
  main(*sys.argv[1:])
