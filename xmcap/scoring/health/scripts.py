"""The script that a caption is written in, by Unicode's property Script_Extensions."""

import functools
from collections.abc import Sequence

import numpy as np

from xmcap import languages

# ISO 15924 codes that stand for several of Unicode's scripts, or for a variant of one.
_PARTS = {"Hans": ("Hani",), "Jpan": ("Hani", "Hira", "Kana"), "Kore": ("Hang", "Hani")}
_KNOWN, _LETTER = 1, 2


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
  classes, bits = _classes(), _bits()
  ends = np.cumsum([len(caption) for caption in captions], dtype=np.int64)
  starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
  text = "".join(captions).encode("utf-32-le", errors="surrogatepass")
  code_points = np.frombuffer(text, dtype="<u4")
  _learn(np.unique(code_points[classes[code_points] == 0]))
  found = classes[code_points]
  own = sum(bits[script] for script in scripts_of(language))
  counts = []
  for mask in (_LETTER, own):
    totals = np.concatenate([[0], np.cumsum((found & mask) != 0)])
    counts.append(totals[ends] - totals[starts] if len(captions) else np.zeros(0, dtype=np.int64))
  return counts[0], counts[1]


@functools.cache
def _classes() -> np.ndarray:
  """uint32 [code points]: 0 until a character is met, then known, letter and the scripts of a letter as bits."""
  return np.zeros(0x110000, dtype=np.uint32)


@functools.cache
def _bits() -> dict[str, int]:
  """The scripts of all the languages, each with its bit."""
  scripts = sorted({script for language in languages.LANGUAGES for script in scripts_of(language)})
  return {script: 4 << i for i, script in enumerate(scripts)}


def _learn(code_points: np.ndarray) -> None:
  """Looks characters up that were not met before."""
  letter, patterns = _patterns()
  for code_point in code_points.tolist():
    character = chr(code_point)
    found = _KNOWN
    if letter.match(character):
      found |= _LETTER
      for script, pattern in patterns.items():
        if pattern.match(character):
          found |= _bits()[script]
    _classes()[code_point] = found


@functools.cache
def _patterns():
  import regex

  # Zyyy and Zinh, common and inherited, are the scripts of what belongs to none.
  letter = regex.compile(r"[\p{L}--[\p{scx=Zyyy}\p{scx=Zinh}]]", regex.V1)
  return letter, {script: regex.compile(rf"\p{{scx={script}}}") for script in _bits()}
