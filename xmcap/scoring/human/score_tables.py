"""Scores that `xmcap score` wrote, read back for a comparison with people."""

import os
import pathlib

from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.result import read_rows


def read(directory: str | os.PathLike, metric: str) -> dict[str, float]:
  """Returns the scores of one metric from `table.json` in a folder, language code -> score.

  Raises:
    UsageError: the file cannot be read, is no table of scores, or a language lacks the metric.
  """
  path = pathlib.Path(directory, "table.json")
  scores = {}
  for language, row in read_rows(path).items():
    if metric not in row:
      raise UsageError(
        f"{path}: '{language}' has no '{files.shown(metric)}'; name another --metric or score again"
      )
    scores[language] = row[metric]
  return scores
