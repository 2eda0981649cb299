"""The commands that build corpora from what their authors published."""

import argparse
import pathlib
import sys

from xmcap.commands import base
from xmcap.errors import UsageError

_CAPTIONS = (".jsonl.bz2", ".jsonl.gz", ".jsonl")
# Option -> (names to look for in the folder of the release, what it is).
_COCO = {
  "train_captions": ([f"coco_mt_train{end}" for end in _CAPTIONS], "coco_mt_train.jsonl, or .bz2 or .gz"),
  "dev_captions": ([f"coco_mt_dev{end}" for end in _CAPTIONS], "coco_mt_dev.jsonl, or .bz2 or .gz"),
  "karpathy": (["dataset_coco.json"], "Karpathy's dataset_coco.json"),
  "train_images": (["train2014.zip", "train2014"], "train2014, a folder or the zip file"),
  "val_images": (["val2014.zip", "val2014"], "val2014, a folder or the zip file"),
}
_CC3M = {
  "train_captions": ([f"cc3m_mt_train{end}" for end in _CAPTIONS], "cc3m_mt_train.jsonl, or .bz2 or .gz"),
  "dev_captions": ([f"cc3m_mt_dev{end}" for end in _CAPTIONS], "cc3m_mt_dev.jsonl, or .bz2 or .gz"),
  "train_tsv": (
    ["Train_GCC-training.tsv", "Train-GCC-training.tsv", "GCC-training.tsv"],
    "the training TSV (caption, address)",
  ),
  "dev_tsv": (
    [
      "Validation_GCC-1.1.0-Validation.tsv",
      "Validation-GCC-1.1.0-Validation.tsv",
      "GCC-1.1.0-Validation.tsv",
    ],
    "the validation TSV",
  ),
  "train_images": (["train_images"], "training pictures: what img2dataset left, or a folder or archive"),
  "dev_images": (["dev_images"], "validation pictures"),
}
_CC3M_KEYS = {
  "train_keys": (["train_keys.tsv"], "for pictures under names of their own: rec_num or address, tab, file"),
  "dev_keys": (["dev_keys.tsv"], "the same for validation"),
}
_XM3600 = {
  "captions": (["captions.zip", "captions.jsonl"], "captions.zip or captions.jsonl"),
  "images": (["images.tgz", "images"], "images.tgz, or the folder"),
}


def add(corpora) -> None:
  """Declares `data build coco35l`, `cc3m35l` and `xm3600`."""
  _add(corpora, "coco35l", _coco, "MSCOCO with captions in 35 languages", _COCO)
  _add(corpora, "cc3m35l", _cc3m, "Conceptual Captions with captions in 35 languages", _CC3M | _CC3M_KEYS)
  _add(corpora, "xm3600", _xm3600, "Crossmodal-3600: 3,600 pictures, 36 languages, for evaluation", _XM3600)


def _add(corpora, name: str, run, summary: str, parts: dict) -> None:
  command = base.add_command(
    corpora,
    name,
    run,
    summary,
    "Reads the files as published, in place; a build that was killed goes on when it is started again. "
    "docs/corpora.md says what is needed.",
  )
  command.add_argument("--out", required=True, metavar="DIR", help="where the corpus goes")
  command.add_argument(
    "--release", metavar="DIR", help="folder of the published files under their own names; or name each:"
  )
  for option, (_, text) in parts.items():
    command.add_argument(f"--{option}", metavar="PATH", help=text)
  command.add_argument(
    "--download",
    action="store_true",
    help="first fetch into --release what is not there and has a public address",
  )
  command.add_argument(
    "--on_bad",
    default="skip",
    metavar="RULE",
    help="skip: leave bad lines and pictures out, and count them; or stop",
  )
  command.add_argument(
    "--image_size", type=int, metavar="N", help="store larger pictures with a shorter side of N pixels"
  )
  command.add_argument("--quality", type=int, default=90, metavar="N", help="of those JPEGs, 1 to 95")
  command.add_argument("--processes", type=int, metavar="N", help="default: one a core")


def _coco(arguments) -> None:
  from xmcap.data.corpora import coco35l

  paths = _paths(arguments, "coco35l", _COCO)
  images = [paths.pop("train_images"), paths.pop("val_images")]
  _build(coco35l, arguments, images=images, **paths)


def _cc3m(arguments) -> None:
  from xmcap.data.corpora import cc3m35l

  paths = _paths(arguments, "cc3m35l", _CC3M)
  for option, (names, _) in _CC3M_KEYS.items():
    paths[option] = _find(arguments, option, names)
  _build(cc3m35l, arguments, **paths)


def _xm3600(arguments) -> None:
  from xmcap.data.corpora import xm3600

  _build(xm3600, arguments, **_paths(arguments, "xm3600", _XM3600))


def _build(corpus, arguments, **paths) -> None:
  from xmcap.data.corpora.plans import Options

  options = Options(on_bad=arguments.on_bad, image_size=arguments.image_size, quality=arguments.quality)
  report = corpus.build(arguments.out, **paths, options=options, processes=arguments.processes, progress=_say)
  print(report.summary())


def _say(line: str) -> None:
  print(line, file=sys.stderr)


def _paths(arguments: argparse.Namespace, corpus: str, parts: dict) -> dict[str, pathlib.Path]:
  """Returns option -> path of every part; UsageError that says which are absent, and where they can be had."""
  if arguments.processes is not None and arguments.processes < 1:
    raise UsageError(f"--processes={arguments.processes}: the least is 1")
  from xmcap.data.corpora import downloads

  if arguments.download:
    if not arguments.release:
      raise UsageError("--download needs --release=DIR, where the files go")
    names = {name: option for option, (candidates, _) in parts.items() for name in candidates}
    downloads.fetch_all(
      corpus,
      arguments.release,
      lambda name: _find(arguments, names[name], parts[names[name]][0]) is not None,
      _say,
    )
  paths = {option: _find(arguments, option, names) for option, (names, _) in parts.items()}
  absent = [option for option, path in paths.items() if path is None]
  if absent:
    known = {part.name for part in downloads.PARTS[corpus]}
    had = all(known.intersection(parts[option][0]) for option in absent)
    hint = (
      " (or add --download)"
      if had
      else f"; {downloads.ELSEWHERE[corpus]}"
      if corpus in downloads.ELSEWHERE
      else ""
    )
    where = f"{arguments.release} has no {parts[absent[0]][0][0]}: " if arguments.release else ""
    raise UsageError(f"{where}give {', '.join(f'--{option}' for option in absent)}{hint}")
  return paths


def _find(arguments: argparse.Namespace, option: str, names: list[str]) -> pathlib.Path | None:
  """Returns the path of a part: as given, or else the first of its names that is in the folder of the release."""
  if given := getattr(arguments, option):
    return pathlib.Path(given)
  if arguments.release:
    for path in (pathlib.Path(arguments.release, name) for name in names):
      if path.exists():
        return path
  return None
