"""What translated prompts gain over the bare labels: Figure 5 of Babel-ImageNet, from its authors' result files.

Source: Geigle, Timofte, Glavas (ACL 2024). A figure prints no numbers, so that there is nothing to compare with. The
third setting of the paper's Table 7, English templates around the labels, is in no result file.
"""

import os
import pathlib
from collections.abc import Iterator

import numpy as np

from xmcap import languages
from xmcap.papers import babel_imagenet_languages
from xmcap.published import babel_imagenet
from xmcap.published.findings import RecomputedNumber, RecomputedTable

SETTINGS = ("label", "nllb_dist13b_prompts")
"""The bare label, and translated prompts."""


def recompute(results: str | os.PathLike) -> RecomputedTable:
  """Recomputes the tables of `babel_imagenet.recompute`, and Figure 5.

  Raises:
    UsageError: there are no result files, or one is malformed.
  """
  findings = babel_imagenet.recompute(results)
  return RecomputedTable(findings.paper, (*findings.rows, *gains(results)), findings.absent)


def gains(results: str | os.PathLike) -> Iterator[RecomputedNumber]:
  """Yields by how many points of top-1 translated prompts are better than labels, for each model and group.

  Args:
    results: the folder `results` of the paper's repository. A mean is over the languages that have translated prompts.
  """
  for model, by_setting in babel_imagenet.accuracies_by_prompt(pathlib.Path(results), []):
    label, prompted = ({languages.canonical(c): v for c, v in by_setting[name].items()} for name in SETTINGS)
    for group, members in babel_imagenet_languages.groups().items():
      both = [language for language in members if language in label and language in prompted]
      if both:
        gain = float(np.mean([prompted[language] - label[language] for language in both]))
        heading = f"{model}, {group} ({len(both)} languages), gain by prompts"
        yield RecomputedNumber("Figure 5", heading, "", gain, reason="a figure prints no numbers")
