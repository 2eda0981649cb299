"""Round numbers along an axis, and how they are written."""

import math


def ticks(lowest: float, highest: float) -> list[float]:
  """Returns round numbers from at most `lowest` to at least `highest`: about five steps."""
  if highest <= lowest:
    return [float(lowest), float(lowest) + 1.0]
  rough = (highest - lowest) / 5
  power = 10.0 ** math.floor(math.log10(rough))
  step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
  first = math.floor(lowest / step + 1e-9)
  last = math.ceil(highest / step - 1e-9)
  return [float(f"{step * i:.12g}") for i in range(first, last + 1)]


def log_ticks(lowest: float, highest: float) -> list[float]:
  """Returns powers of ten around positive numbers, at most eight; within two powers also their 2 and 5 fold."""
  low, high = math.floor(math.log10(lowest) + 1e-9), math.ceil(math.log10(highest) - 1e-9)
  if high - low > 1:
    step = math.ceil((high - low) / 7)
    return [10.0**power for power in range(low, high + step, step)]
  fine = [factor * 10.0**power for power in range(low, low + 2) for factor in (1, 2, 5)] + [10.0 ** (low + 2)]
  first = max(i for i, tick in enumerate(fine) if tick <= lowest * (1 + 1e-9))
  last = next(i for i, tick in enumerate(fine) if tick >= highest * (1 - 1e-9))
  return fine[first : max(last, first + 1) + 1]


def text(value: float, percent: bool = False) -> str:
  """Returns a tick's number, short: `20k`, `2.5M`, `1e-4`, `12.5%`."""
  if percent:
    return f"{100 * value:.4g}%"
  for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
    if abs(value) >= size:
      return f"{value / size:.4g}{letter}"
  if 0 < abs(value) < 1e-2:
    mantissa, _, exponent = f"{value:.3e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}"
  return f"{value:.4g}"
