"""Scores that `xmcap score` wrote, read back for a comparison with people."""

import itertools
import os
import pathlib
from collections.abc import Mapping

from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.result import read_rows, read_signature
from xmcap.scoring.signature import shortened


def read(directories: Mapping[str, str | os.PathLike], metric: str) -> dict[str, dict[str, float]]:
  """Returns the scores of one metric from `table.json` in the folder of each system.

  Args:
    directories: system -> folder.
    metric: its name.

  Returns:
    System -> language code -> score.

  Raises:
    UsageError: a file cannot be read, is no table of scores, or a language lacks the metric; or the signatures differ
      in a way that matters for it, and the message says in what.
  """
  paths = {name: pathlib.Path(folder, "table.json") for name, folder in directories.items()}
  scores = {name: _scores(path, metric) for name, path in paths.items()}
  signatures = {name: read_signature(path) for name, path in paths.items()}
  for (first, one), (name, other) in itertools.pairwise(signatures.items()):
    differences = one.differences(other, (metric,))
    if differences:
      raise UsageError(
        f"the scores of '{files.shown(first)}' and '{files.shown(name)}' cannot be held against each other, their "
        f"signatures differ in {'; '.join(shortened(differences))}: score both with the same references and options"
      )
  return scores


def _scores(path: pathlib.Path, metric: str) -> dict[str, float]:
  scores = {}
  for language, row in read_rows(path).items():
    if metric not in row:
      raise UsageError(
        f"{path}: '{language}' has no '{files.shown(metric)}'; name another --metric or score again"
      )
    scores[language] = row[metric]
  return scores
