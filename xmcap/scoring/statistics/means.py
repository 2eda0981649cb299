"""Means over languages, and the groups of languages that have one."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from xmcap import languages, wording
from xmcap.papers import babel_imagenet_languages

COUNTS = ("images", "references", "classes", "captions", "tags", "candidates")
"""The entries of a row that are counts, not metrics."""

MEDIANS = {
  "t2i_median_rank": "T2I median rank", "i2t_median_rank": "I2T median rank", "median_rank": "median rank"
}  # fmt: skip
"""Name -> heading of the entries of a row that are median ranks: no metrics either, and never averaged."""

CLASS_GROUPS = (100, 333, 666, math.inf)
"""Upper limits for the number of classes in Babel-ImageNet's groups of languages: very low, low, mid and high."""

ALL_BUT_EN = "all but en"
"""Name of the mean over the 36 languages without English."""


def is_metric(name: str) -> bool:
  """Whether an entry of a row is a metric, which has a mean over languages."""
  return name not in COUNTS and name not in MEDIANS


def median_of(metric: str) -> str:
  """Returns the name of the median rank that belongs to a metric: that of its direction."""
  name = f"{metric.partition('_')[0]}_median_rank"
  return name if name in MEDIANS else "median_rank"


def class_group(count: float) -> str:
  """Returns the name of Babel-ImageNet's group of the languages with so many classes."""
  limits = itertools.pairwise((0, *CLASS_GROUPS))
  low, high = next((low, high) for low, high in limits if count <= high)
  return f"{low + 1} to {high} classes" if high < math.inf else f"over {low} classes"


def mean(rows: Mapping[str, Mapping[str, Any]], codes: Sequence[str]) -> dict[str, Any]:
  """Returns metric -> mean over the languages; the scores of the rows may be arrays."""
  names = [name for name in rows[codes[0]] if is_metric(name)]
  return {name: sum(rows[language][name] for language in codes) / len(codes) for name in names}


def mean_groups(rows: Mapping[str, Mapping[str, float]]) -> dict[str, tuple[str, ...]]:
  """Returns the means of a table with these rows (or their counts): name -> languages averaged over.

  Languages with classes are grouped by their number of classes, as in Babel-ImageNet, and English is in none of the
  means. With that paper's own numbers of classes they are its 100 languages alone, however many rows there are.
  """
  if any("classes" in row for row in rows.values()):
    return _groups_by_classes(rows)
  every = tuple(languages.LANGUAGES)
  groups = {"35": languages.TRAINED, "36": every}
  if rows.keys() >= set(every):  # PaliGemma's avg-35 and Centurio's mul
    groups = {
      "35": languages.TRAINED,
      ALL_BUT_EN: tuple(language for language in every if language != "en"),
      "36": every,
    }
  groups = {name: members for name, members in groups.items() if rows.keys() >= set(members)}
  if not any(len(members) == len(rows) for members in groups.values()):
    groups = {wording.count(len(rows), "language"): tuple(rows)}
  return groups


def _groups_by_classes(rows: Mapping[str, Mapping[str, float]]) -> dict[str, tuple[str, ...]]:
  counts = {language: row["classes"] for language, row in rows.items() if "classes" in row}
  if babel_imagenet_languages.is_paper(counts):
    return _groups_of_the_paper(rows)
  others = tuple(language for language in rows if language != "en") or tuple(rows)
  groups = {}
  for name in map(class_group, CLASS_GROUPS):
    members = tuple(language for language in others if class_group(rows[language]["classes"]) == name)
    if members and len(members) < len(others):
      groups[name] = members
  of_all = wording.count(len(others), "language")
  return {**groups, of_all + (" without en" if len(others) < len(rows) else ""): others}


def _groups_of_the_paper(rows: Mapping[str, Mapping[str, float]]) -> dict[str, tuple[str, ...]]:
  """Returns the groups of Babel-ImageNet's Table 5, whatever other languages there are."""
  by_name = {
    babel_imagenet_languages.GROUPS[name]: tuple(language for language in members if language in rows)
    for name, members in babel_imagenet_languages.groups().items()
  }
  paper = tuple(babel_imagenet_languages.classes())
  scored = tuple(language for language in paper if language in rows)
  groups = {name: members for name, members in by_name.items() if members and len(members) < len(scored)}
  count = (
    f"{len(paper)} languages" if len(scored) == len(paper) else f"{len(scored)} of the {len(paper)} languages"
  )
  return {**groups, f"{count} of the paper": scored}
