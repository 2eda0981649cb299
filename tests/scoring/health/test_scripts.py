import json
import pathlib
import unicodedata

import pytest

from xmcap import languages
from xmcap.scoring.health import scripts

_SAMPLE = pathlib.Path(__file__).parents[4] / "shared" / "xm3600_sample" / "captions.jsonl"


def _letters(caption, language):
  (letters,), (own,) = scripts.count_letters([caption], language)
  return letters, own


@pytest.mark.parametrize(
  ("language", "caption"),
  [
    ("ar", "كلب أسود"),
    ("bn", "একটি গরু"),
    ("el", "ένας σκύλος"),
    ("he", "כלב שחור"),
    ("hi", "काला कुत्ता"),
    ("ja", "コーヒーを飲む人々です"),
    ("ko", "검은 개 한 마리"),
    ("ru", "чёрный щенок"),
    ("te", "నల్ల కుక్క"),
    ("th", "สุนัขสีดำ"),
    ("vi", "con chó đen"),
    ("zh", "一只黑色的狗"),
  ],
)
def test_count_letters_of_the_language(language, caption):
  # Letters by the standard library's categories; vowel signs are none.
  letters = sum(unicodedata.category(character)[0] == "L" for character in caption)
  assert _letters(caption, language) == (letters, letters)


@pytest.mark.parametrize(
  ("language", "caption", "expected"),
  [
    ("el", "a dog", (4, 0)),
    ("en", "ένας σκύλος", (10, 0)),
    ("zh", "黒い犬", (3, 2)),
    ("ja", "검은", (2, 0)),
    ("ko", "大韓", (2, 2)),
    ("uk", "пес dog", (6, 3)),
    ("en", "42 µ, 🐕 !", (0, 0)),
    ("en", "", (0, 0)),
    ("en", "a\ud800b", (2, 2)),
  ],
)
def test_count_letters_of_other_scripts(language, caption, expected):
  assert _letters(caption, language) == expected


def test_count_letters_counts_each_caption():
  letters, own = scripts.count_letters(["", "dog", "", "пес и dog", ""], "en")
  assert (letters.tolist(), own.tolist()) == ([0, 3, 0, 7, 0], [0, 3, 0, 3, 0])


def test_count_letters_of_no_captions():
  letters, own = scripts.count_letters([], "en")
  assert (len(letters), len(own)) == (0, 0)


@pytest.mark.parametrize("language", languages.LANGUAGES)
def test_names_of_languages_are_in_their_script(language):
  letters, own = _letters(languages.get(language).native_name, language)
  assert letters == own > 0


@pytest.mark.skipif(not _SAMPLE.exists(), reason="the XM3600 sample is not on this machine")
def test_xm3600_captions_are_in_their_script():
  row = json.loads(_SAMPLE.read_text(encoding="utf-8"))
  wrong = [
    caption
    for language in languages.LANGUAGES
    for caption in row[language]["caption"]
    for letters, own in [_letters(caption, language)]
    if 2 * own < letters
  ]
  assert wrong == []


def test_count_letters_of_script_variants_such_as_hant():
  """`zh-TW` is written in Hant, which is no script of Unicode."""
  letters, own = scripts.count_letters(["狗 dog"], "zh-TW")
  assert (letters.tolist(), own.tolist()) == ([4], [1])
