"""Options and steps that all builds of corpora from given files share."""

import argparse
from typing import Any

from xmcap.commands import base


def add(command, duplicates: str = "keep (the default: a release stays as it is) or refuse") -> None:
  """Adds the shared options; `duplicates` are the choices for identical pictures."""
  rule = "skip (leave out bad lines and pictures, and count them) or stop"
  base.text(command, "--on_bad", "RULE", rule, "skip")
  base.number(command, "--image_size", "resize larger pictures to a shorter side of N pixels")
  base.number(command, "--quality", "JPEG quality of resized pictures, 1 to 95", 90)
  copies = "of a picture (the same pixels, another key) in other splits, which are counted: "
  base.text(command, "--duplicates", "RULE", copies + duplicates, "")
  base.add_processes(command)


def parsed(arguments: argparse.Namespace):
  """Returns the shared options; UsageError if one is out of range."""
  from xmcap.corpora.building.options import Options

  names = ("on_bad", "image_size", "quality", "duplicates")
  return Options(**{name: getattr(arguments, name) for name in names})


def build(arguments: argparse.Namespace, corpus: Any, vocabulary: Any = None):
  """Builds a corpus with the shared options, and prints the summary; returns the report."""
  from xmcap.corpora.building import build

  report = build.build(
    corpus,
    arguments.out,
    parsed(arguments),
    processes=arguments.processes,
    progress=base.say,
    vocabulary=vocabulary,
  )
  print(report.summary())
  return report
