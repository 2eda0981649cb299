"""The scores of one system: a table, and the statistics of the images behind it."""

import dataclasses
from collections.abc import Mapping, Sequence

import xmcap
from xmcap.errors import UsageError
from xmcap.scoring import metrics
from xmcap.scoring.statistics import resampling
from xmcap.scoring.statistics.sufficient import Statistics
from xmcap.scoring.tables import score_table
from xmcap.scoring.tables.signature import METRIC, Signature


@dataclasses.dataclass(frozen=True)
class System:
  """The scores of one system.

  Attributes:
    table: scores of the languages, their means, and the signature.
    statistics: language code -> statistics of its images, which `xmcap compare` resamples.
  """

  table: score_table.Table
  statistics: dict[str, Statistics]


def make_table(
  statistics: Mapping[str, Statistics],
  parts: Mapping[str, str],
  notes: Sequence[str],
  *,
  fixed: str = "candidates",
  title: str = "",
  bootstrap: int = 0,
  seed: int = 0,
) -> score_table.Table:
  """Returns the table of the statistics, with intervals if `bootstrap`, the number of resamples, is above 0.

  `parts` are the parts of the signature, except those of the metrics (unless they differ from the metric's own), the
  bootstrap and the version; `fixed` names what the resamples leave as it is.
  """
  if not statistics:
    raise UsageError("there is nothing to score: no language has references")
  names = next(iter(statistics.values())).values
  parts = {**{f"{METRIC}{name}": metrics.METRICS[name].signature for name in names}, **parts}
  samples: resampling.Samples = {}
  if bootstrap:
    parts["bootstrap"] = f"{bootstrap},seed={seed},level=95%,{fixed}=fixed"
    samples = resampling.bootstrap(statistics, bootstrap, seed)
  return score_table.Table.of_rows(
    str(Signature({**parts, "xmcap": xmcap.__version__})),
    {language: of_language.row() for language, of_language in statistics.items()},
    title,
    intervals=resampling.intervals(samples),
    notes=tuple(notes),
  )
