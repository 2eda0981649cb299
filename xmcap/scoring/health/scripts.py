"""Finds the script of a caption, by Unicode's property Script_Extensions."""

import functools
from collections.abc import Sequence

import numpy as np

from xmcap import languages

# ISO 15924 codes for a combination of Unicode scripts, or for a variant of one.
_PARTS = {"Hans": ("Hani",), "Jpan": ("Hani", "Hira", "Kana"), "Kore": ("Hang", "Hani")}
_PARTS |= {
  "Hant": ("Hani",),
  "Hrkt": ("Hira", "Kana"),
  "Aran": ("Arab",),
  "Latf": ("Latn",),
  "Cyrs": ("Cyrl",),
}


def scripts_of(language: str) -> tuple[str, ...]:
  """Returns the Unicode scripts of a language: `("Hani", "Hira", "Kana")` for `ja`."""
  script = languages.get(language).script
  return _PARTS.get(script, (script,))


def count_letters(captions: Sequence[str], language: str) -> tuple[np.ndarray, np.ndarray]:
  """Counts the letters of each caption, and how many of them are in the language's scripts.

  A letter is a character of category L that belongs to a script. Characters common to all scripts (the micro sign) and
  combining vowel signs, which only some scripts have, do not count. A letter shared by several scripts, such as the
  Japanese long vowel mark, counts for each of them.

  Returns:
    int64 [captions] letters, int64 [captions] letters of the language's scripts.
  """
  # Zyyy (common) and Zinh (inherited) mark characters that belong to no script.
  letters = _matcher(r"[\p{L}--[\p{scx=Zyyy}\p{scx=Zinh}]]")
  scripts = "".join(rf"\p{{scx={script}}}" for script in scripts_of(language))
  own = _matcher(rf"[[\p{{L}}&&[{scripts}]]--[\p{{scx=Zyyy}}\p{{scx=Zinh}}]]")
  # A sum over the characters of each caption; only distinct characters are matched.
  code_points = np.frombuffer("".join([*captions, "\0"]).encode("utf-32-le", "surrogatepass"), np.uint32)
  met = np.flatnonzero(np.bincount(code_points)).tolist()
  lengths = np.fromiter(map(len, captions), np.int64, len(captions))
  starts = np.cumsum(lengths) - lengths

  def count(matches) -> np.ndarray:
    kinds = np.zeros(code_points.max() + 1, np.int8)
    kinds[[code_point for code_point in met if matches(chr(code_point))]] = 1
    sums = np.add.reduceat(kinds.take(code_points), starts, dtype=np.int64)
    return np.where(lengths > 0, sums, 0)  # the sum of an empty caption is that of the next character

  return count(letters), count(own)


@functools.cache
def _matcher(pattern: str):
  """Returns a cached function that says whether a character matches."""
  import regex

  match = regex.compile(pattern, regex.V1).match
  return functools.cache(lambda character: match(character) is not None)
