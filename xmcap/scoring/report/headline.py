"""The top of the report: what was scored, what one must know about it, and the means."""

import math
from collections.abc import Sequence

from xmcap.errors import UsageError
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring import tables
from xmcap.scoring.report import elements
from xmcap.scoring.report.chart import Others
from xmcap.scoring.signature import Signature, shortened


def short_signature(signature: str) -> str:
  """Returns the short form of a signature; as it is if it is none of ours."""
  try:
    return Signature.parse(signature).short
  except UsageError:
    return signature


def notices(table: tables.Table, others: Others, name: str = "") -> str:
  """Returns a box with the tables' notes, and with what makes other tables incomparable; "" without any.

  Args:
    table: that the report is about.
    others: shown beside.
    name: of the system of `table`, where its notes must be told from those of other systems.
  """
  about = f"<b>{elements.escape(name)}</b>: " if name else ""
  notes = [f"{about}{elements.escape(note)}" for note in table.notes]
  for name, other in others:
    notes += [f"<b>{elements.escape(name)}</b>: {elements.escape(note)}" for note in other.notes]
    notes += [
      f"<b>{elements.escape(name)}</b> was scored in another way, so its scores do not compare: "
      f"{elements.escape(difference)}"
      for difference in _differences(table, other)
    ]
  if not notes:
    return ""
  items = "".join(f"<li>{note}</li>" for note in notes)
  return f'<aside class="notices" aria-label="Notes"><ul>{items}</ul></aside>\n'


def tiles(table: tables.Table, others: Others, baseline: str | None = None) -> str:
  """Returns a tile a metric: the mean over most languages and its interval.

  The first is that of the primary metric, with the other means and the other systems, each with its difference:
  of the first to it, or, where the first is a `baseline` of this name, of it to the first.
  """
  order = [table.primary, *(metric for metric in table.metrics if metric != table.primary)]
  parts = "".join(_tile(metric, table, others, metric == table.primary, baseline) for metric in order)
  return f'<section class="tiles" aria-label="Mean scores">{parts}</section>\n'


def interval(metric: str, ends: tables.Interval | None) -> str:
  """Returns an interval as people read it; "" if there is none."""
  if ends is None or any(map(math.isnan, ends)):
    return ""
  low, high = (metrics_lib.METRICS[metric].format(end) for end in ends)
  return f"{low} \u2013 {high}"


def _tile(metric: str, table: tables.Table, others: Others, primary: bool, baseline: str | None) -> str:
  held = metrics_lib.METRICS[metric]
  name, mean = list(table.means.items())[-1]
  if not primary:
    return _small_tile(metric, table, name)
  ends = interval(metric, table.intervals.get(name, {}).get(metric))
  beside: Sequence[tuple[str, float]] = [
    (elements.named(label, number), other.means[name][metric])
    for number, (label, other) in enumerate(others)
    if metric in other.metrics and name in other.means
  ]
  items = "".join(
    f"<div><dt>{tables.mean_label(other)}</dt><dd>{held.format(scores[metric])}</dd></div>"
    for other, scores in table.means.items()
    if other != name
  )
  sign = 1.0 if baseline is None else -1.0
  heading = held.heading if baseline is None else f"{held.heading}, {elements.named(baseline, None)}"
  items += "".join(
    f"<div><dt>{label}</dt><dd>{held.format(score)} "
    f'<span class="difference">{elements.signed(metric, sign * (mean[metric] - score))}</span></dd></div>'
    for label, score in beside
  )
  return (
    f'<div class="tile primary"><p class="tile-name">{heading}</p>'
    f'<p class="tile-score">{held.format(mean[metric])}</p>'
    + (f'<p class="tile-interval">{ends} <span class="soft">95% interval</span></p>' if ends else "")
    + f'<p class="note">mean, {tables.mean_label(name)}</p><dl>{items}</dl></div>'
  )


def _small_tile(metric: str, table: tables.Table, name: str) -> str:
  held = metrics_lib.METRICS[metric]
  ends = interval(metric, table.intervals.get(name, {}).get(metric))
  return (
    f'<div class="tile"><p class="tile-name">{held.heading}</p>'
    f'<p class="tile-score">{held.format(table.means[name][metric])}</p>'
    + (f'<p class="tile-interval soft">{ends}</p>' if ends else "")
    + "</div>"
  )


def _differences(table: tables.Table, other: tables.Table) -> list[str]:
  if table.signature == other.signature:
    return []
  shared = tuple(metric for metric in table.metrics if metric in other.metrics)
  try:
    found = Signature.parse(table.signature).differences(Signature.parse(other.signature), shared)
  except UsageError:
    return ["its signature is none of xmcap's"]
  # What is too long to be read is at the end of the page.
  return [text if ":" in text else f"{text}, see How to reproduce" for text in shortened(found)]
