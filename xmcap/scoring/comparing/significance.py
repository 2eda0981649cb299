"""Significance tests of the differences between systems, language by language.

For each language and mean: both scores and their difference with 95% intervals by the (paired) bootstrap, and the
p-values of two two-sided tests. Images are resampled in all languages at once (see resampling.py).
- Paired bootstrap (Koehn, EMNLP 2004): the share of resampled differences that are at least as far from the observed
  difference as that is from 0.
- Approximate randomisation (Riezler and Maxwell, 2005): the share of random exchanges of the two systems' captions that
  give at least as large a difference. This is the stricter test; its p-value gets Holm's correction over languages.
"""

import dataclasses
import math
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from xmcap import languages, wording
from xmcap.arguments import checked
from xmcap.digests import of_images
from xmcap.errors import UsageError
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring import options, protocols
from xmcap.scoring.comparing.comparison import FEW_REFERENCES, Comparison, Difference
from xmcap.scoring.result import read_table
from xmcap.scoring.statistics import resampling
from xmcap.scoring.statistics.statistics_file import STATISTICS_FILE, read_statistics
from xmcap.scoring.statistics.sufficient import Statistics, image_keys
from xmcap.scoring.system import System
from xmcap.scoring.tables import note_order, score_table
from xmcap.scoring.tables.signature import Signature


@checked
def compare(
  systems: Mapping[str, System],
  metrics: str | Sequence[str] | None = None,
  resamples: int = 10_000,
  seed: int = 0,
  title: str = "",
  scale: int | None = None,
) -> Comparison:
  """Compares systems that were scored on the same images, each with the first.

  Args:
    systems: name -> result of `score` or `read_system`; the first is the baseline.
    metrics: names of metrics; None: the primary metric of the baseline's table.
    resamples: number of resamples of each test.
    seed: seed of the resamples; the same for every system.
    title: title for readers.
    scale: factor at which scores are shown and written, 1 or 100; None: that of the baseline's table.

  Raises:
    UsageError: there are fewer than two systems, a metric was not scored, or the signatures show that the scores are
      not comparable; the message gives the difference.
  """
  if len(systems) < 2:
    raise UsageError("a comparison needs two or more systems: xmcap compare A B")
  options.check_count("resamples", resamples, options.MAX_RESAMPLES)
  if not resamples:
    raise UsageError("--resamples=0: must be 1 or more")
  options.check_count("seed", seed, options.MAX_SEED)
  protocols.check_scale(scale)
  (name, baseline), *others = systems.items()
  metrics = options.metric_names(metrics, metrics_lib.METRICS) if metrics else (baseline.table.primary,)
  for system, scored in systems.items():
    _check(name, baseline.table, system, scored.table, metrics)
    for language, of_language in baseline.statistics.items():
      if set(scored.statistics[language].keys) != set(of_language.keys):
        raise UsageError(
          f"{name} and {system} were scored on different images in '{language}': score both again"
        )
  few_references = {
    language
    for language, statistics in baseline.statistics.items()
    if statistics.counted == "references" and statistics.num_counted < FEW_REFERENCES * len(statistics.keys)
  }
  first, *seconds = (_only(scored.statistics, metrics) for scored in systems.values())
  drawn, *redrawn_of = resampling.bootstraps([first, *seconds], resamples, seed)
  rows: list[Difference] = []
  for (system, scored), second, redrawn in zip(others, seconds, redrawn_of, strict=True):
    exchanged = resampling.exchanged(first, second, resamples, seed + 1)
    for metric in metrics:
      differences = []
      for language in baseline.table.scores:
        before, after = baseline.table.scores[language][metric], scored.table.scores[language][metric]
        resampled = redrawn[language][metric] - drawn[language][metric]
        p = _p(exchanged[1][language][metric] - exchanged[0][language][metric], after - before)
        differences.append(
          Difference(
            system,
            metric,
            language,
            before,
            after,
            *resampling.interval(resampled),
            p_bootstrap=_p(resampled - (after - before), after - before),
            p_randomization=p,
            p_holm=p,
            few_references=language in few_references,
            **_ends("baseline", baseline.table, language, metric, drawn),
            **_ends("score", scored.table, language, metric, redrawn),
          )
        )
      rows += corrected(differences)
  of_systems = ((system, note) for system, scored in systems.items() for note in scored.table.own_notes)
  notes = [f"{', '.join(named)}: {note}" for named, note in note_order.by_text(of_systems)]
  shown_at = scale or baseline.table.scale
  notes += [
    f"{system}: its table is at scale {scored.table.scale}; here all scores are at scale {shown_at}"
    for system, scored in systems.items()
    if scored.table.scale != shown_at
  ]
  return Comparison(
    baseline=name,
    signature=baseline.table.signature,
    rows=tuple(rows),
    resamples=resamples,
    seed=seed,
    notes=tuple(notes),
    scale=shown_at,
    title=title,
    medians=_medians(systems),
  )


def _medians(systems: Mapping[str, System]) -> dict[str, dict[str, dict[str, float]]]:
  """Returns median rank -> language code -> system -> its value, of the ranks that all systems have."""
  tables = {name: scored.table for name, scored in systems.items()}
  first, *others = tables.values()
  return {
    median: {
      language: {name: table.rows[language][median] for name, table in tables.items()}
      for language in first.rows
    }
    for median in first.medians
    if all(median in table.medians for table in others)
  }


def check_protocol(systems: Mapping[str, System], protocol: str | None) -> None:
  """Raises UsageError if there is no such protocol, or if the scores of a system do not follow it; None: any."""
  if protocol is None:
    return
  protocols.get(protocol)
  for system, scored in systems.items():
    followed = Signature.parse(scored.table.signature).protocol
    if followed != protocol:
      raise UsageError(
        f"{system}: its protocol is {followed}, not {protocol}; score it again with --protocol={protocol}"
      )


@checked
def read_system(folder: str | os.PathLike) -> System:
  """Reads a folder that `xmcap score` wrote.

  Raises:
    UsageError: it lacks a table or statistics of xmcap, or the two do not belong together.
  """
  folder = pathlib.Path(folder)
  table = read_table(folder / "table.json")
  if not (folder / STATISTICS_FILE).exists():
    raise UsageError(
      f"{folder}: has no {STATISTICS_FILE}, because it was written with --only_tables; score again without that option"
    )
  statistics = read_statistics(folder / STATISTICS_FILE)
  rows = {language: of_language.row() for language, of_language in statistics.items()}
  images = Signature.parse(table.signature).parts.get("images")
  if images != of_images(image_keys(statistics)) or not _same_rows(table.rows, rows):
    raise UsageError(f"{folder}: table.json and {STATISTICS_FILE} are from different runs; score again")
  return System(table, {language: statistics[language] for language in table.rows})


def _same_rows(rows: Mapping[str, Mapping[str, float]], others: Mapping[str, Mapping[str, float]]) -> bool:
  """Whether two tables are equal up to the last digits, which may differ between machines."""
  return rows.keys() == others.keys() and all(
    row.keys() == others[language].keys()
    and all(math.isclose(value, others[language][name], rel_tol=1e-9) for name, value in row.items())
    for language, row in rows.items()
  )


def _check(
  name: str, baseline: score_table.Table, other: str, table: score_table.Table, metrics: Sequence[str]
) -> None:
  absent = [metric for metric in metrics if metric not in table.metrics]
  if absent and set(baseline.metrics).isdisjoint(table.metrics):
    scored = f"{name} has {wording.first_few(baseline.metrics)}, {other} {wording.first_few(table.metrics)}"
    raise UsageError(f"{scored}: these are scores of different kinds: compare those of one command")
  if absent:
    raise UsageError(
      f"{other} was not scored with {', '.join(absent)}: score it again with --metrics={','.join(metrics)}"
    )
  own, theirs = Signature.parse(baseline.signature), Signature.parse(table.signature)
  if own.protocol != theirs.protocol:
    raise UsageError(
      f"{name} follows the protocol {own.protocol}, and {other} {theirs.protocol}: score both with the same --protocol"
    )
  if baseline.rows.keys() != table.rows.keys():
    both = ",".join(language for language in baseline.rows if language in table.rows)
    how = f"score both again with --languages={both}" if both else "they have no language in common"
    raise UsageError(
      f"{name} has {len(baseline.rows)} languages, {other} {len(table.rows)}, not the same: {how}"
    )
  differences = own.differences(theirs, tuple(metrics))
  if differences:
    raise UsageError(
      f"{name} and {other} cannot be compared, because their signatures differ in {'; '.join(differences)}: score both "
      "with the same references and options"
    )


def _ends(
  name: str, table: score_table.Table, language: str, metric: str, drawn: resampling.Samples
) -> dict[str, float]:
  """Returns the ends of the interval of a score: the table's own, so that all files have the same, or else drawn."""
  of_table = table.intervals.get(language, {}).get(metric)
  low, high = of_table or resampling.interval(drawn[language][metric])
  return {f"{name}_low": low, f"{name}_high": high}


def _only(statistics: Mapping[str, Statistics], metrics: Sequence[str]) -> dict[str, Statistics]:
  return {
    language: dataclasses.replace(of_language, values={name: of_language.values[name] for name in metrics})
    for language, of_language in statistics.items()
  }


def _p(samples: np.ndarray, difference: float) -> float:
  """Returns the share of samples at least as far from 0 as the difference, counting the difference itself."""
  samples = samples[~np.isnan(samples)]
  # The tolerance for rounding keeps two systems with the same captions from differing.
  extreme = np.abs(samples) >= abs(difference) - 1e-12
  return float((1 + extreme.sum()) / (1 + len(samples)))


def corrected(rows: Sequence[Difference]) -> list[Difference]:
  """Returns the rows with Holm's step-down correction over the languages (Holm 1979)."""
  of_languages = sorted(
    (row.p_randomization, place) for place, row in enumerate(rows) if languages.is_known(row.name)
  )
  of_place, highest = {}, 0.0
  for rank, (p, place) in enumerate(of_languages):
    highest = max(highest, min(1.0, p * (len(of_languages) - rank)))
    of_place[place] = highest
  return [
    dataclasses.replace(row, p_holm=of_place[place]) if place in of_place else row
    for place, row in enumerate(rows)
  ]
