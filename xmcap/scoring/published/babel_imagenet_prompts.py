"""What translated prompts gain over the bare labels: Figure 5 of Babel-ImageNet, from its authors' result files.

Source: Geigle, Timofte, Glavas (ACL 2024). A figure prints no numbers, so that there is nothing to compare with. The
third setting of the paper's Table 7, English templates around the labels, is in no result file.
"""

import os
import pathlib
from typing import NamedTuple

import numpy as np

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.scoring.published import babel_imagenet, babel_imagenet_languages
from xmcap.scoring.writing import grid

SETTINGS = {"label": "label alone", "nllb_dist13b_prompts": "translated prompts"}
GAIN = "gain by prompts"


class Row(NamedTuple):
  """A number: of what, as printed, as computed, and the deviation; None where nothing is printed."""

  what: str
  printed: float | None
  computed: float
  deviation: float | None


def rows(results: str | os.PathLike) -> tuple[Row, ...]:
  """Returns the mean top-1 in per cent of each model and group, in both settings, and the gain.

  Args:
    results: the folder `results` of the paper's repository. A mean is over the languages that have translated prompts.

  Raises:
    UsageError: there are no result files, or one is malformed.
  """
  found: list[Row] = []
  for model, by_setting in babel_imagenet.accuracies_by_prompt(pathlib.Path(results), []):
    label, prompted = ({languages.canonical(c): v for c, v in by_setting[name].items()} for name in SETTINGS)
    for group, members in babel_imagenet_languages.groups().items():
      both = [code for code in members if code in label and code in prompted]
      if both:
        means = [float(np.mean([held[code] for code in both])) for held in (label, prompted)]
        named = zip((*SETTINGS.values(), GAIN), (*means, means[1] - means[0]), strict=True)
        found += [
          Row(f"{model}, {group} ({len(both)} languages), {what}", None, value, None) for what, value in named
        ]
  if not found:
    raise UsageError(
      f"{results}: contains no accuracies by prompt; give the folder 'results' of its repository"
    )
  return tuple(found)


def grid_of(found: tuple[Row, ...]) -> grid.Grid:
  """Returns the gains as a table of models and groups."""
  gains = [
    row.what.rpartition(", ")[0].rpartition(", ") + (row.computed,)
    for row in found
    if row.what.endswith(GAIN)
  ]
  groups = list(dict.fromkeys(group for _, _, group, _ in gains))
  models: dict[str, dict[str, float]] = {}
  for model, _, group, gain in gains:
    models.setdefault(model, {})[group] = gain
  rows = (
    (model, *(f"{held[group]:+.2f}" if group in held else "-" for group in groups))
    for model, held in models.items()
  )
  return grid.Grid((f"{GAIN}, Figure 5", *groups), tuple(rows))
