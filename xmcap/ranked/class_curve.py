"""Accuracy over the number of classes, and a straight line through it over their logarithm.

Source: Geigle et al., "Babel-ImageNet" (ACL 2024), section 5 and Figure 2: random subsets of the classes, five draws of
each number. The seeds of the paper are not public.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from xmcap import spreadsheet, wording
from xmcap.errors import UsageError
from xmcap.pages.report.elements import escape

DRAWS = 5
"""Draws of each number of classes."""

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 560, 260, 44, 64, 12, 34
_MOST_LINES = 6


class LogLinear(NamedTuple):
  """The least-squares line top-1 = `start` + `doubling` x log2(classes), and its share of the variance."""

  start: float
  doubling: float
  r2: float


@dataclasses.dataclass(frozen=True)
class ClassCurve:
  """Top-1 among random classes: `top1`, float64 [sizes, draws], in [0, 1], for each of the ascending `sizes`."""

  sizes: tuple[int, ...]
  top1: np.ndarray

  def fit(self) -> LogLinear:
    """Returns the line through all draws; r2 is NaN if they are all equal."""
    x = np.repeat(np.log2(self.sizes), self.top1.shape[1])
    y = self.top1.ravel()
    doubling, start = np.polyfit(x, y, 1)
    left, total = np.sum((y - start - doubling * x) ** 2), np.sum((y - y.mean()) ** 2)
    return LogLinear(float(start), float(doubling), float(1 - left / total) if total else math.nan)


def parse(text: str) -> tuple[int, ...]:
  """Reads numbers of classes such as 50,100,200; UsageError if they are not two or more ascending ones from 2."""
  parts = text.split(",")
  if all(part.isascii() and part.isdecimal() and len(part) < 7 for part in parts):
    sizes = tuple(map(int, parts))
    if (
      len(sizes) > 1 and sizes[0] > 1 and all(low < high for low, high in zip(sizes, sizes[1:], strict=False))
    ):
      return sizes
  raise UsageError(f"--class_curve={text}: give two or more ascending numbers of classes, such as 50,100,200")


def notes(curves: Mapping[str, ClassCurve]) -> list[str]:
  """Returns the note of a table about the lines."""
  fits = {language: curve.fit() for language, curve in curves.items()}
  said = [f"{language} {100 * fit.doubling:+.2f} points (R2 {fit.r2:.3f})" for language, fit in fits.items()]
  return (
    [f"top-1 for each doubling of the classes, log-linear fit: {wording.first_few(said)}"] if said else []
  )


def csv(curves: Mapping[str, ClassCurve]) -> str:
  """Returns CSV with a row per language and number of classes: each draw, their mean, and the line of the language."""
  rows = []
  for language, curve in curves.items():
    fit = curve.fit()
    for size, draws in zip(curve.sizes, curve.top1.tolist(), strict=True):
      line = fit.start + fit.doubling * math.log2(size)
      rows.append([language, size, *draws, float(np.mean(draws)), line, fit.doubling, fit.r2])
  draws = [f"draw_{number + 1}" for number in range(DRAWS)]
  return spreadsheet.table(["language", "classes", *draws, "mean", "line", "per_doubling", "r2"], rows)


def svg(curves: Mapping[str, ClassCurve]) -> str:
  """Returns a drawing for a page: a dot a draw, and the lines; English and the first languages, at most six."""
  shown = dict(sorted(curves.items(), key=lambda item: item[0] != "en")[:_MOST_LINES])
  smallest, largest = (
    choose(size for curve in shown.values() for size in curve.sizes) for choose in (min, max)
  )
  wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

  def x(size: float) -> float:
    return _LEFT + wide * math.log(size / smallest) / math.log(largest / smallest)

  def y(top1: float) -> float:
    return _TOP + high * (1 - top1)

  parts = [
    f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" direction="ltr" font-size="12" '
    'fill="currentColor" aria-label="Top-1 over the number of classes">'
  ]
  for share in (0, 0.25, 0.5, 0.75, 1):
    parts.append(f'<path d="M{_LEFT} {y(share):g}h{wide}" stroke="var(--line)"/>')
    parts.append(_text(_LEFT - 6, y(share) + 4, f"{100 * share:g}", "end"))
  for size in sorted({size for curve in shown.values() for size in curve.sizes}):
    parts.append(_text(x(size), _HEIGHT - _BOTTOM + 16, f"{size:,}", "middle"))
  for number, (language, curve) in enumerate(shown.items()):
    color, fit = f"var(--mark-{number % 4})", curve.fit()
    for size, of_size in zip(curve.sizes, curve.top1, strict=True):
      parts += [
        f'<circle cx="{x(size):.1f}" cy="{y(top1):.1f}" r="2.5" fill="{color}"/>' for top1 in of_size.tolist()
      ]
    (left, right) = (fit.start + fit.doubling * math.log2(size) for size in (curve.sizes[0], curve.sizes[-1]))
    ends = x(curve.sizes[0]), y(left), x(curve.sizes[-1]), y(right)
    parts.append('<path d="M{:.1f} {:.1f}L{:.1f} {:.1f}" '.format(*ends) + f'stroke="{color}"/>')
    parts.append(_text(ends[2] + 6, ends[3] + 4, language, "start", color))
  parts.append(_text(_LEFT + wide / 2, _HEIGHT - 4, "classes, logarithmic", "middle"))
  return "".join([*parts, "</svg>"])


def _text(x: float, y: float, text: str, anchor: str, color: str = "currentColor") -> str:
  return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{escape(text)}</text>'
