"""The table of languages: facts of Crossmodal-3600 (Thapliyal et al., 2022), section 2.1."""

import pytest

from xmcap import languages
from xmcap.errors import UsageError


def test_languages_of_xm3600_and_their_groups():
  codes = "ar bn cs da de el en es fa fi fil fr he hi hr hu id it ja ko mi nl no pl pt quz ro ru"
  codes += " sv sw te th tr uk vi zh"
  assert list(languages.LANGUAGES) == codes.split()
  groups = [language.group for language in languages.LANGUAGES.values()]
  assert {group: groups.count(group) for group in set(groups)} == {"english": 1, "web": 30, "low_resource": 5}


def test_trained_are_all_but_quechua():
  assert len(languages.TRAINED) == 35
  assert set(languages.LANGUAGES) - set(languages.TRAINED) == {"quz"}


def test_scripts_and_directions():
  rtl = {code for code, language in languages.LANGUAGES.items() if language.direction == "rtl"}
  assert rtl == {"ar", "fa", "he"}
  unspaced = {code for code, language in languages.LANGUAGES.items() if not language.spaces}
  assert unspaced == {"ja", "th", "zh"}
  assert languages.get("el").script == "Grek" and languages.get("uk").script == "Cyrl"


@pytest.mark.parametrize(
  "text, message", [("iw", "unknown language 'iw'"), ("en,en", "named twice"), ("", "unknown")]
)
def test_invalid_language_codes_are_one_line(text, message):
  with pytest.raises(UsageError, match=message) as error:
    languages.parse(text)
  assert "\n" not in str(error.value)


def test_unlike_language_code_has_no_suggestion():
  with pytest.raises(UsageError) as error:
    languages.get("xz")
  assert "did you mean" not in str(error.value)


def test_languages_named_with_many_brackets_is_none():
  assert languages.named("a (" * 20_000 + "fa" + ")" * 20_000) is None
  assert languages.named("(" * 100_000) is None


def test_languages_parse():
  assert languages.parse("en, th,ar") == ("en", "th", "ar")
  assert len(languages.parse("all")) == 36 and "quz" not in languages.parse("trained")


@pytest.mark.parametrize(
  ("tag", "script", "direction", "spaces"),
  [
    ("pt-BR", "Latn", "ltr", True),
    ("zh-Hant", "Hant", "ltr", False),
    ("ur", "Arab", "rtl", True),
    ("lo", "Laoo", "ltr", False),
  ],
)
def test_further_language_by_bcp47_tag(tag, script, direction, spaces):
  language = languages.get(tag)
  assert (language.script, language.direction, language.spaces) == (script, direction, spaces)
  assert not language.trained and languages.is_known(tag)


@pytest.mark.parametrize(
  ("tag", "meant"),
  [
    *(("tl", "fil"), ("iw", "he"), ("qu", "quz"), ("nb", "no"), ("IW", "he"), ("cmn", "zh"), ("eng", "en")),
    *(("cz", "cs"), ("dk", "da"), ("gr", "el"), ("ua", "uk"), ("vn", "vi"), ("jp", "ja")),  # countries
    *(("pt-br", "pt-BR"), ("en-XX", "")),
  ],
)
def test_codes_of_other_software_suggest_ours(tag, meant):
  assert not languages.is_known(tag)
  with pytest.raises(UsageError, match=f"did you mean '{meant}'" if meant else "unknown language"):
    languages.get(tag)


@pytest.mark.parametrize("tag", ["und", "mul", "zxx", "qaa", "mean", "36", "", "x-mine", "english"])
def test_invalid_language_tags_are_unknown(tag):
  assert not languages.is_known(tag)


def test_languages_ordered():
  assert languages.ordered(["pt-BR", "th", "ca", "en", "th"]) == ["en", "th", "ca", "pt-BR"]


@pytest.mark.parametrize(
  ("text", "codes"),
  [
    ("Describe it in one sentence, no more: a polished one.", []),
    ("Caption in Traditional Chinese", ["zh-Hant"]),
    ("Chinese (Traditional), please", ["zh-Hant"]),
    ("用繁體中文描述图片", ["zh-Hant"]),
    ("日本語で説明してください", ["ja"]),
    ("한국어로 설명해 주세요", ["ko"]),
    ("Briefly describe the image in Ukranian.", ["uk"]),
    ("in german (one sentence)", ["de"]),
    ("German (French)", ["de", "fr"]),
    ("Persian (fa) or فارسی", ["fa"]),
    ("from Greek to Brazilian Portuguese", ["el", "pt-BR"]),
  ],
)
def test_languages_mentioned_in_running_text(text, codes):
  assert languages.mentioned(text) == codes


def test_names_of_the_table_are_mentioned():
  for language in languages.LANGUAGES.values():
    for name in (language.english_name, language.native_name):
      assert languages.mentioned(f"Caption in {name}: ") == [language.code]
