"""Scores by the region of the images, and by group and script of the languages."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from xmcap import languages, spreadsheet
from xmcap.scoring import metrics
from xmcap.scoring.statistics import means
from xmcap.scoring.statistics.sufficient import Statistics, joint_columns, joint_scores


@dataclasses.dataclass(frozen=True)
class Slices:
  """Scores of subsets of the images and languages.

  Attributes:
    regions: `image/locale` -> language code or mean -> {"images": count, metric: score}. Document frequencies are those
      of all images. A language without images of the region has no entry.
    groups: `group:web`, `script:Latn` and so on -> {"languages": count, metric: mean over the languages}.
  """

  regions: dict[str, dict[str, dict[str, float]]]
  groups: dict[str, dict[str, float]]

  def as_csv(self, scale: int = 1) -> str:
    """Returns CSV with a row per slice and language: slice, language (empty for groups), languages, images, metrics.

    Metrics are at the scale, as in a table.
    """
    names = [name for name in next(iter(self.groups.values())) if name != "languages"]
    factors = [metrics.METRICS[name].factor(scale) for name in names]

    def scaled(scores: Mapping[str, float]) -> list[float]:
      return [factor * scores[name] for name, factor in zip(names, factors, strict=True)]

    rows = [
      [group, None, scores["languages"], None, *scaled(scores)] for group, scores in self.groups.items()
    ]
    for region, by_language in self.regions.items():
      for language, scores in by_language.items():
        label = language if languages.is_known(language) else f"mean_{language.replace(' ', '_')}"
        rows.append([f"locale:{region}", label, None, scores.get("images"), *scaled(scores)])
    return spreadsheet.table(["slice", "language", "languages", "images", *names], rows)


def make(statistics: Mapping[str, Statistics], locales: Mapping[str, str]) -> Slices:
  """Returns the slices of the statistics.

  Args:
    statistics: language code -> statistics of its images.
    locales: image key -> `image/locale`; images without one belong to no region.
  """
  return Slices(_regions(statistics, locales), _groups(statistics))


def _regions(
  statistics: Mapping[str, Statistics], locales: Mapping[str, str]
) -> dict[str, dict[str, dict[str, float]]]:
  keys, columns = joint_columns(statistics)
  regions = sorted({locales[key] for key in keys if locales.get(key)})
  if not regions:
    return {}
  of_key = np.array([locales.get(key, "") for key in keys])
  members = np.stack([of_key == region for region in regions]).astype(np.float64)
  sums = members @ columns
  by_name = joint_scores(statistics, sums)
  images, first = {}, 0
  for language, of_language in statistics.items():
    images[language] = sums[:, first].astype(np.int64).tolist()  # the first column of a language is all ones
    first += of_language.columns.shape[1]
  slices: dict[str, dict[str, dict[str, float]]] = {region: {} for region in regions}
  for i, of_region in enumerate(slices.values()):
    for name, of_name in by_name.items():
      scores = {metric: float(values[i]) for metric, values in of_name.items()}
      if not any(map(math.isnan, scores.values())):
        of_region[name] = ({"images": images[name][i]} if name in images else {}) | scores
  return slices


def _groups(statistics: Mapping[str, Statistics]) -> dict[str, dict[str, float]]:
  members: dict[str, list[str]] = {}
  for code in statistics:
    language = languages.get(code)
    members.setdefault(f"group:{language.group}", []).append(code)
    members.setdefault(f"script:{language.script}", []).append(code)
  rows = {code: of_language.row() for code, of_language in statistics.items()}
  return {
    name: {"languages": len(codes), **means.mean(rows, codes)} for name, codes in sorted(members.items())
  }
