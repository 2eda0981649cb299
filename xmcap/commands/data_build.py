"""The commands that build corpora from what their authors published."""

import argparse
import functools
import pathlib
from collections.abc import Mapping

from xmcap.commands import base, data_index
from xmcap.data.corpora.releases.file_names import CC3M35L, COCO35L, ELSEWHERE, XM3600, Part
from xmcap.errors import UsageError
from xmcap.storage import outputs


def add(corpora) -> None:
  """Declares `data build coco35l`, `cc3m35l` and `xm3600`."""
  for command in (
    _add(corpora, "coco35l", "MSCOCO with captions in 35 languages", COCO35L),
    _add(corpora, "cc3m35l", "Conceptual Captions with captions in 35 languages", CC3M35L),
  ):
    command.add_argument(
      "--vocabulary",
      metavar="PATH",
      help="the SentencePiece model of the runs: write the index of caption lengths too (see `data index`)",
    )
  xm3600 = _add(corpora, "xm3600", "Crossmodal-3600: 3,600 pictures, 36 languages, for evaluation", XM3600)
  xm3600.set_defaults(vocabulary=None)


def _add(corpora, name: str, summary: str, parts: Mapping[str, Part]) -> argparse.ArgumentParser:
  command = base.add_command(
    corpora,
    name,
    functools.partial(_run, name, parts),
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


def _run(name: str, parts: Mapping[str, Part], arguments: argparse.Namespace) -> None:
  """Builds a corpus, while no other process writes where this one does."""
  for option in ("release", "out", *parts):
    given = getattr(arguments, option) or ""
    if "://" in given:
      raise UsageError(
        f"--{option}={given}: a build reads and writes folders of this machine: copy the release here "
        "(gcloud storage cp, aws s3 cp), and the records to the bucket when they are built"
      )
  if arguments.processes is not None and arguments.processes < 1:
    raise UsageError(f"--processes={arguments.processes}: the least is 1")
  if arguments.download and not arguments.release:
    raise UsageError("--download needs --release=DIR, where the files go")
  read = {f"--{option}": getattr(arguments, option) for option in ("release", *parts)}
  outputs.keep_apart({"--out": arguments.out}, read)
  places = [("--out", arguments.out, True)]
  if arguments.download:
    places.append(("--release", arguments.release, True))
  with outputs.held_all(places, arguments.prog):
    _build(name, _paths(name, parts, arguments), arguments)


def _paths(
  name: str, parts: Mapping[str, Part], arguments: argparse.Namespace
) -> dict[str, pathlib.Path | None]:
  """Option -> path of every part, as given or in the folder of the release; None for an optional one that is absent.

  Raises:
    UsageError: others are absent; says which, and where they can be had.
  """
  release = pathlib.Path(arguments.release) if arguments.release else None

  def find(option: str) -> pathlib.Path | None:
    if given := getattr(arguments, option):
      return pathlib.Path(given)
    return parts[option].find(release) if release else None

  if arguments.download:
    from xmcap.data.corpora import downloads

    for option, part in parts.items():
      if part.url and find(option) is None:
        downloads.fetch_part(part, release, base.say)
    if name in ELSEWHERE:
      base.say(ELSEWHERE[name])
  paths = {option: find(option) for option in parts}
  absent = [option for option, path in paths.items() if path is None and not parts[option].optional]
  if absent:
    hint = " (or add --download)" if all(parts[option].url for option in absent) else f"; {ELSEWHERE[name]}"
    where = f"{release} has no {parts[absent[0]].names[0]}: " if release else ""
    raise UsageError(f"{where}give {', '.join(f'--{option}' for option in absent)}{hint}")
  return paths


def _build(name: str, paths: Mapping[str, pathlib.Path | None], arguments: argparse.Namespace) -> None:
  from xmcap.data.corpora import build
  from xmcap.data.corpora.plans import Options
  from xmcap.data.corpora.releases import cc3m35l, coco35l, xm3600
  from xmcap.data.vocabulary import Vocabulary

  corpora = {"coco35l": coco35l.Coco35l, "cc3m35l": cc3m35l.Cc3m35l, "xm3600": xm3600.Xm3600}
  model = Vocabulary(arguments.vocabulary) if arguments.vocabulary else None
  report = build.build(
    corpora[name](**paths),
    arguments.out,
    Options(on_bad=arguments.on_bad, image_size=arguments.image_size, quality=arguments.quality),
    processes=arguments.processes,
    progress=base.say,
    vocabulary=model,
  )
  if model is not None and report.held:
    data_index.write_absent(report.out, model, list(report.splits), arguments.processes)
  print(report.summary())
