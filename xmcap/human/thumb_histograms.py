"""Draws THumB ratings as histograms, for each system and of precision and recall.

Source: Kasai et al., "Transparent Human Evaluation for Image Captioning" (NAACL 2022), Figure 2.
"""

import collections
import math
from collections.abc import Mapping, Sequence

from xmcap.pages.report.elements import escape
from xmcap.terminal import shown

_MEASURES = {"P": "Precision", "R": "Recall"}
_VALUES = (1, 2, 3, 4, 5)
_WIDTH, _HEIGHT, _GAP, _TOP = 230, 110, 20, 40
_BAR = _WIDTH / len(_VALUES)


def svg(systems: Sequence[str], histograms: Mapping[str, Mapping[float, Sequence[int]]]) -> str:
  """Returns the drawing: a row a system and a column a measure, with the share of ratings of each value.

  `histograms` is measure -> value -> number of ratings for each system. A rating such as 3.5 counts for 4.
  """
  names = [shown(name, limit=40) for name in systems]
  labels = 30 + 7 * max(map(len, names))
  width = labels + len(_MEASURES) * (_WIDTH + _GAP)
  height = _TOP + len(systems) * (_HEIGHT + _GAP)
  parts = [
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    'font-family="sans-serif" font-size="12" text-anchor="middle">',
    f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
  ]
  for column, (measure, heading) in enumerate(_MEASURES.items()):
    left = labels + column * (_WIDTH + _GAP)
    parts.append(_text(left + _WIDTH / 2, 22, heading, ' font-weight="bold"'))
    for row, name in enumerate(names):
      top = _TOP + row * (_HEIGHT + _GAP)
      if not column:
        parts.append(_text(labels - 12, top + _HEIGHT / 2, name, ' text-anchor="end"'))
      counts = collections.Counter[int]()
      for value, of_value in histograms[measure].items():
        counts[math.floor(value + 0.5)] += of_value[row]
      parts += _panel(left, top, counts)
  return "\n".join([*parts, "</svg>"])


def _panel(left: float, top: float, counts: Mapping[int, int]) -> list[str]:
  total = sum(counts.values())
  floor = top + _HEIGHT - 16
  parts = [f'<path d="M{left:g} {floor:g}h{_WIDTH}" stroke="#5a606b"/>']
  for place, value in enumerate(_VALUES):
    share = counts[value] / total
    size = share * (_HEIGHT - 34)
    x = left + place * _BAR
    parts += [
      f'<rect x="{x + 4:g}" y="{floor - size:.1f}" width="{_BAR - 8:g}" height="{size:.1f}" fill="#2a5fd0"/>',
      _text(x + _BAR / 2, floor - size - 4, f"{share:.0%}"),
      _text(x + _BAR / 2, floor + 14, str(value)),
    ]
  return parts


def _text(x: float, y: float, text: str, more: str = "") -> str:
  return f'<text x="{x:g}" y="{y:.1f}"{more}>{escape(text)}</text>'
