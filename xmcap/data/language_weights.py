"""The sampling weights of languages in a stream."""

import math
from collections.abc import Iterable, Mapping, Sequence

from xmcap import languages as languages_lib
from xmcap.errors import UsageError

NAMES = ("rates", "uniform", "count")


def language_weights(
  rates: Mapping[str, float], languages: Sequence[str], weights: str | Mapping[str, float], temperature: float
) -> dict[str, float]:
  """Returns code -> weight above 0 for each language to draw, in the order of `languages.ordered`.

  The arguments are those of `CaptionStream`, and the `rates` of its mixture. For `count` all weights are 1, because
  each picture has its own weights.

  Raises:
    UsageError: the mixture lacks a language, a weight is below 0, or all are 0.
  """
  if not (temperature > 0):
    raise UsageError(f"CaptionStream.temperature is {temperature}: give a number above 0")
  _check_held(languages, rates, "CaptionStream.languages")
  held = dict.fromkeys(languages or rates, 1.0)
  if isinstance(weights, Mapping):
    _check_held(weights, held, "CaptionStream.language_weights")
    bad = [code for code, weight in weights.items() if not 0 <= weight < math.inf]
    if bad:
      raise UsageError(
        f"CaptionStream.language_weights: '{bad[0]}' has {weights[bad[0]]}: give a number of at least 0"
      )
    held = {code: float(weight) for code, weight in weights.items() if weight}
  elif weights == "rates":
    held = {code: rates[code] for code in held}
  elif weights not in NAMES:
    raise UsageError(
      f"CaptionStream.language_weights is {weights!r}: give {', '.join(NAMES)}, or weights by language"
    )
  if not held:
    raise UsageError("CaptionStream.language_weights are all 0: nothing can be drawn")
  return {code: held[code] ** (1 / temperature) for code in languages_lib.ordered(held)}


def _check_held(codes: Iterable[str], held: Mapping[str, float], what: str) -> None:
  absent = [code for code in codes if code not in held]
  if absent:
    raise UsageError(f"{what}: '{absent[0]}' is not one of the available languages: {' '.join(held)}")
