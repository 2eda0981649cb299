import re
import sys
import unicodedata

import pytest

from xmcap import languages
from xmcap.scoring.tokenizers import normalization, orthography
from xmcap.scoring.tokenizers.composition import compose

# By Python's tables of Unicode; surrogates and Hangul syllables do not change.
_CHANGED = [
  chr(point)
  for point in range(sys.maxunicode + 1)
  if not 0xD800 <= point < 0xE000 and not unicodedata.is_normalized("NFKC", chr(point))
]


def _wanted(character: str) -> str:
  """Returns what a character should become, by rule."""
  nfkc, category = unicodedata.normalize("NFKC", character), unicodedata.category(character)
  tag = unicodedata.decomposition(character).partition(" ")[0]
  name = unicodedata.name(character, "")
  is_mark_on_a_space = nfkc[0] == " " and unicodedata.category(nfkc[1:2] or " ")[0] == "M"
  if name in ("THAI CHARACTER SARA AM", "LAO VOWEL SIGN AM"):
    return character  # otherwise the segmenter sees another word
  if is_mark_on_a_space:
    return nfkc[1:] if category[0] == "L" else character  # a symbol parts words, a letter does not
  if tag == "<super>" and category == "So":
    return character  # the letters of a mark such as ™ would join the word before it
  if tag == "<fraction>":
    return " " + nfkc  # the numerator would join the number before it
  if name.startswith("HANGUL LETTER") or name == "HANGUL FILLER":
    return character  # conjoining letters would join the syllable beside them
  if name.startswith("HALFWIDTH HANGUL"):
    return chr(int(unicodedata.decomposition(character).split()[1], 16))
  return nfkc


def test_compose_of_each_character_that_nfkc_changes():
  assert {character: compose(character) for character in _CHANGED} == {c: _wanted(c) for c in _CHANGED}


def test_compose_leaves_other_characters():
  others = set(map(chr, range(0x3000))) - set(_CHANGED)
  assert [character for character in others if compose(character) != character] == []


def test_normalizer_keeps_letters_as_one_word():
  """Of all letters, only ŀ (l·) and two words of Arabic as one character are more than one word."""
  letters = [character for character in _CHANGED if unicodedata.category(character)[0] == "L"]
  found = normalization.Normalizer("en")([f"x{letter}x" for letter in letters])
  assert [letter for letter, text in zip(letters, found, strict=True) if len(text.split()) > 1] == list(
    "Ŀŀﷺﷻ"
  )


@pytest.mark.parametrize(
  "typed, wanted",
  [
    ("น้ำ", "น้ำ"),
    ("น้ํา", "น้ำ"),  # tone mark, ring, AA: what NFKC makes of the line above
    ("นํ้า", "น้ำ"),  # ring, tone mark, AA
    ("นํา้", "น้ำ"),  # ring, AA, tone mark
    ("นำ้", "น้ำ"),  # AM, tone mark
    ("ดํา", "ดำ"),
    ("นํ้", "นํ้"),  # a ring without AA stays
    ("ນ້ໍາ", "ນ້ຳ"),
    ("ນໍ້າ", "ນ້ຳ"),
    ("ສີດຳ", "ສີດຳ"),
    ("ｶﾞｷﾞﾊﾟ", "ガギパ"),
    ("ﻻ ﷲ ﻛﺘﺎﺏ", "لا الله كتاب"),
    ("ＡＢＣ ﬁne x²", "ABC fine x2"),
    ("5½ Lego™ don´t", "5 1⁄2 Lego™ don´t"),
    ("아ㄳ ㅋㅋ", "아ㄳ ㅋㅋ"),
    ("\u1112\u1161\u11ab", "한"),
    ("e\u0301", "é"),
  ],
)
def test_compose_of_texts(typed, wanted):
  assert compose(typed) == wanted
  assert compose(compose(typed)) == compose(typed)


def test_normalizer_words_of_composed_symbols():
  words = normalization.Normalizer("es")(["5½ Lego™ don´t"])[0].split()
  assert words == ["5", "1", "2", "lego", "don", "t"]


def test_every_digit_of_the_wide_scripts_has_a_rule():
  (digits,) = (rule for rule in orthography.RULES if rule.name == "digits of other scripts")
  scripts = {languages.get(code).script for code in languages.WIDE}
  assert {"Thai", "Laoo", "Khmr", "Mymr", "Sinh", "Beng", "Telu", "Deva"} <= scripts
  known = {chr(point) for point in range(0x80, 0x1800) if unicodedata.decimal(chr(point), None) is not None}
  other = {unicodedata.name(digit).partition(" DIGIT")[0] for digit in known - digits.pairs.keys()}
  assert other == {"NKO", "TIBETAN"}
  assert all(unicodedata.decimal(digit) == int(value) for digit, value in digits.pairs.items())
  assert not re.search("[^0-9]", "".join(digits.pairs.values()))
