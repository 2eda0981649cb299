"""The commands that build corpora from what their authors published."""

import argparse
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence

from xmcap.commands import base, data_index
from xmcap.data.corpora.releases.file_names import CC3M35L, COCO35L, XM3600, Part
from xmcap.errors import UsageError
from xmcap.storage import outputs


def add(corpora) -> None:
  """Declares `data build coco35l`, `cc3m35l` and `xm3600`."""
  for command in (
    _add(corpora, "coco35l", _coco, "MSCOCO with captions in 35 languages", COCO35L),
    _add(corpora, "cc3m35l", _cc3m, "Conceptual Captions with captions in 35 languages", CC3M35L),
  ):
    command.add_argument(
      "--vocabulary",
      metavar="PATH",
      help="the SentencePiece model of the runs: write the index of caption lengths too (see `data index`)",
    )
  _add(corpora, "xm3600", _xm3600, "Crossmodal-3600: 3,600 pictures, 36 languages, for evaluation", XM3600)


def _add(corpora, name: str, run, summary: str, parts: Mapping[str, Part]) -> argparse.ArgumentParser:
  command = base.add_command(
    corpora,
    name,
    functools.partial(_alone, run, parts),
    summary,
    "Reads the files as published, in place; a build that was killed goes on when it is started again. "
    "docs/corpora.md says what is needed.",
  )
  command.add_argument("--out", required=True, metavar="DIR", help="where the corpus goes")
  command.add_argument(
    "--release", metavar="DIR", help="folder of the published files under their own names; or name each:"
  )
  for option, part in parts.items():
    command.add_argument(f"--{option}", metavar="PATH", help=part.text)
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
  return command


def _alone(
  run: Callable[[argparse.Namespace], None], parts: Mapping[str, Part], arguments: argparse.Namespace
) -> None:
  """Builds, while no other process writes where this one does."""
  for option in ("release", "out", *parts):
    given = getattr(arguments, option) or ""
    if "://" in given:
      raise UsageError(
        f"--{option}={given}: a build reads and writes folders of this machine: copy the release here "
        "(gcloud storage cp, aws s3 cp), and the records to the bucket when they are built"
      )
  read = {f"--{option}": getattr(arguments, option) for option in ("release", *parts)}
  outputs.keep_apart({"--out": arguments.out}, read)
  places = [("--out", arguments.out, True)]
  if arguments.download and arguments.release:
    places.append(("--release", arguments.release, True))
  with outputs.held_all(places, arguments.prog):
    run(arguments)


def _coco(arguments) -> None:
  from xmcap.data.corpora.releases import coco35l

  paths, options = _paths(arguments, "coco35l", COCO35L), _options(arguments)
  images = [paths.pop("train_images"), paths.pop("val_images")]
  _build(coco35l.corpus(images=images, options=options, **paths), arguments, options)


def _cc3m(arguments) -> None:
  from xmcap.data.corpora.releases import cc3m35l

  paths, options = _paths(arguments, "cc3m35l", CC3M35L), _options(arguments)
  _build(cc3m35l.corpus(options=options, **paths), arguments, options)


def _xm3600(arguments) -> None:
  from xmcap.data.corpora.releases import xm3600

  paths, options = _paths(arguments, "xm3600", XM3600), _options(arguments)
  report = xm3600.build(
    arguments.out, **paths, options=options, processes=arguments.processes, progress=base.say
  )
  print(report.summary())


def _build(corpus, arguments, options) -> None:
  from xmcap.data.corpora import build
  from xmcap.data.vocabulary import Vocabulary

  model = Vocabulary(arguments.vocabulary) if arguments.vocabulary else None
  report = build.build(
    corpus,
    arguments.out,
    options,
    processes=arguments.processes,
    progress=base.say,
    vocabulary=model,
  )
  if model is not None and report.held:
    data_index.write_absent(report.out, model, list(report.splits), arguments.processes)
  print(report.summary())


def _options(arguments):
  from xmcap.data.corpora.plans import Options

  return Options(on_bad=arguments.on_bad, image_size=arguments.image_size, quality=arguments.quality)


def _paths(
  arguments: argparse.Namespace, corpus: str, parts: Mapping[str, Part]
) -> dict[str, pathlib.Path | None]:
  """Returns option -> path of every part, None for an optional one that is absent.

  Raises:
    UsageError: others are absent; says which, and where they can be had.
  """
  if arguments.processes is not None and arguments.processes < 1:
    raise UsageError(f"--processes={arguments.processes}: the least is 1")
  from xmcap.data.corpora import downloads

  if arguments.download:
    if not arguments.release:
      raise UsageError("--download needs --release=DIR, where the files go")
    names = {name: option for option, part in parts.items() for name in part.names}
    downloads.fetch_all(
      corpus,
      arguments.release,
      lambda name: _find(arguments, names[name], parts[names[name]].names) is not None,
      base.say,
    )
  paths = {option: _find(arguments, option, part.names) for option, part in parts.items()}
  absent = [option for option, path in paths.items() if path is None and not parts[option].optional]
  if absent:
    known = {part.name for part in downloads.PARTS[corpus]}
    had = all(known.intersection(parts[option].names) for option in absent)
    hint = (
      " (or add --download)"
      if had
      else f"; {downloads.ELSEWHERE[corpus]}"
      if corpus in downloads.ELSEWHERE
      else ""
    )
    where = f"{arguments.release} has no {parts[absent[0]].names[0]}: " if arguments.release else ""
    raise UsageError(f"{where}give {', '.join(f'--{option}' for option in absent)}{hint}")
  return paths


def _find(arguments: argparse.Namespace, option: str, names: Sequence[str]) -> pathlib.Path | None:
  """Returns the path of a part: as given, or else the first of its names that is in the folder of the release."""
  if given := getattr(arguments, option):
    return pathlib.Path(given)
  if arguments.release:
    for path in (pathlib.Path(arguments.release, name) for name in names):
      if path.exists():
        return path
  return None
