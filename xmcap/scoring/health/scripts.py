"""The script that a caption is written in, by Unicode's property Script_Extensions."""

import functools
from collections.abc import Sequence

import numpy as np

from xmcap import languages

# ISO 15924 codes that stand for several of Unicode's scripts, or for a variant of one.
_PARTS = {"Hans": ("Hani",), "Jpan": ("Hani", "Hira", "Kana"), "Kore": ("Hang", "Hani")}


def scripts_of(language: str) -> tuple[str, ...]:
  """Returns Unicode's scripts that a language is written in: `("Hani", "Hira", "Kana")` for `ja`."""
  script = languages.get(language).script
  return _PARTS.get(script, (script,))


def count_letters(captions: Sequence[str], language: str) -> tuple[np.ndarray, np.ndarray]:
  """Counts the letters of captions, and those of the language's scripts among them.

  A letter is a character of category L that belongs to a script: not one that every script uses (the micro
  sign), and no combining vowel sign, of which some scripts have many and others none. A letter that several
  scripts share, such as the Japanese long vowel mark, is of each of them.

  Returns:
    int64 [captions] letters, int64 [captions] letters of the language's scripts.
  """
  # Zyyy and Zinh, common and inherited, are the scripts of characters that belong to none.
  letters = _matcher(r"[\p{L}--[\p{scx=Zyyy}\p{scx=Zinh}]]")
  scripts = "".join(rf"\p{{scx={script}}}" for script in scripts_of(language))
  own = _matcher(rf"[[\p{{L}}&&[{scripts}]]--[\p{{scx=Zyyy}}\p{{scx=Zinh}}]]")
  # A cumulative count over all characters of all captions; only the distinct ones are looked at.
  code_points = np.frombuffer("".join(captions).encode("utf-32-le", "surrogatepass"), np.uint32)
  met = np.flatnonzero(np.bincount(code_points)).tolist()
  ends = np.cumsum([0, *map(len, captions)])

  def count(matches) -> np.ndarray:
    kinds = np.zeros(code_points.max(initial=0) + 1, np.int8)
    kinds[[code_point for code_point in met if matches(chr(code_point))]] = 1
    counts = np.zeros(len(code_points) + 1, np.int64)
    np.cumsum(kinds[code_points], out=counts[1:])
    return np.diff(counts[ends])

  return count(letters), count(own)


@functools.cache
def _matcher(pattern: str):
  """Returns whether a character matches, as a function that remembers the characters it met."""
  import regex

  match = regex.compile(pattern, regex.V1).match
  return functools.cache(lambda character: match(character) is not None)
