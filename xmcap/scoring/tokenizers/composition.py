"""Unicode's NFKC, but for what would change the words of a caption."""

import re
import unicodedata

_THAI_TONES, _LAO_TONES = "\u0e48-\u0e4b", "\u0ec8-\u0ecb"
# The vowel AM is one letter, which NFKC splits into the ring and AA; segmenters' dictionaries only have the letter.
# The tone mark stands before it, wherever it was typed (the order of pythainlp.util.normalize).
_AM = (
  (re.compile(f"\u0e4d([{_THAI_TONES}]*)\u0e32([{_THAI_TONES}]*)"), r"\1\2" + "\u0e33"),
  (re.compile(f"\u0ecd([{_LAO_TONES}]*)\u0eb2([{_LAO_TONES}]*)"), r"\1\2" + "\u0eb3"),
)
_RINGS = ("\u0e4d", "\u0ecd")


def _exceptions() -> dict[str, str]:
  """Returns character -> what it becomes instead of its NFKC; the test derives the same from Unicode's data."""
  # Symbols that NFKC turns into a space and a mark (´ ¨ ‗ ゛) or into letters of the word before them (™): they stay,
  # so that tokenisers see a symbol.
  symbols = (
    "\u00a8\u00af\u00b4\u00b8\u02d8-\u02dd\u0384\u0385\u1fbd\u1fbf-\u1fc1\u1fcd-\u1fcf\u1fdd-\u1fdf\u1fed\u1fee"
    "\u1ffd\u1ffe\u2017\u203e\u2120\u2122\u309b\u309c\u3196-\u319f\ufe49-\ufe4c\uffe3\U0001f16a-\U0001f16c"
  )
  exceptions = {character: character for character in _expanded(symbols)}
  # Marks as letters of their own: the mark without the space before it, which would cut the word.
  for character in _expanded("\u037a\ufc5e-\ufc63\ufe70\ufe72\ufe74\ufe76\ufe78\ufe7a\ufe7c\ufe7e"):
    exceptions[character] = unicodedata.normalize("NFKC", character).lstrip(" ")
  # 5½ is 5 1/2, not 51/2.
  for character in _expanded("\u00bc-\u00be\u2150-\u215f\u2189"):
    exceptions[character] = " " + unicodedata.normalize("NFKC", character)
  # Korean letters alone (ㅋㅋ, ㄳ), which NFKC makes parts of the syllable beside them.
  exceptions.update((character, character) for character in _expanded("\u3131-\u318e"))
  for character in _expanded("\uffa0-\uffbe\uffc2-\uffc7\uffca-\uffcf\uffd2-\uffd7\uffda-\uffdc"):
    exceptions[character] = chr(int(unicodedata.decomposition(character).split()[-1], 16))
  return exceptions


def _expanded(ranges: str) -> str:
  """Returns the characters of ranges such as `a-cx`."""
  pairs = re.findall(r"(.)(?:-(.))?", ranges)
  return "".join(chr(point) for first, last in pairs for point in range(ord(first), ord(last or first) + 1))


_EXCEPTIONS = _exceptions()
_EXCEPTION = re.compile(f"([{re.escape(''.join(sorted(_EXCEPTIONS)))}])")


def compose(text: str) -> str:
  """Returns the text in NFKC, but its words stay those that a segmenter finds in ordinary text.

  Deviations from NFKC: Thai and Lao AM are one letter, also where a text has them in two; symbols with a space in their
  decomposition stay; spacing forms of marks become the mark; fractions are parted from a number before them; Korean
  letters that stand alone do not join a syllable.
  """
  parts = _EXCEPTION.split(text)
  parts[::2] = (unicodedata.normalize("NFKC", part) for part in parts[::2])
  parts[1::2] = (_EXCEPTIONS[character] for character in parts[1::2])
  text = "".join(parts)
  for ring, (am, composed) in zip(_RINGS, _AM, strict=True):
    if ring in text:
      text = am.sub(composed, text)
  return text
