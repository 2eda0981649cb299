"""What counts as a translation, and placeholders that survive a translator."""

import pytest

from xmcap.endpoint import placeholders, translations

_TEXT = "a dog runs over the green grass"


@pytest.mark.parametrize(
  ("answer", "language", "text"),
  [
    ("Ein Hund rennt über das Gras", "de", "Ein Hund rennt über das Gras"),
    ("<think>dog is Hund</think>\n\n**Ein Hund rennt**", "de", "Ein Hund rennt"),
    ('"Ein Hund rennt."', "de", "Ein Hund rennt."),
    ("„Ein Hund rennt“", "de", "Ein Hund rennt"),
    ("「犬が走る」", "ja", "犬が走る"),
    ("klo 10:30 koira juoksee", "fi", "klo 10:30 koira juoksee"),
  ],
)
def test_translations_without_residue(answer, language, text):
  assert translations.judge([_TEXT], [answer], language)[:2] == ([text], [""])


@pytest.mark.parametrize(
  ("answer", "language", "why"),
  [
    ("<think>dog is Hund</think>", "de", "empty"),
    ("A dog runs  over the green grass", "de", "equal to the text"),
    ("I'm sorry, but I can't assist with that.", "de", "no answer (a refusal)"),
    ("Es tut mir leid, das kann ich nicht.", "de", "no answer (a refusal)"),
    ("Ein Hund rennt\n\n(This is German.)", "de", "several lines"),
    ("Here is the translation: Ein Hund rennt", "de", "an introduction, which ends in a colon"),
    ("翻译：一只狗在跑", "zh", "an introduction, which ends in a colon"),
    ("Ein Hund rennt" * 30, "de", "too long for a translation"),
    ("the dog is running on grass", "th", "no letter of the script of 'th'"),
  ],
)
def test_what_is_no_translation(answer, language, why):
  assert translations.judge([_TEXT], [answer], language)[:2] == ([""], [why])


def test_a_name_may_be_the_same_and_is_said():
  assert translations.judge(["Pizza"], ["pizza"], "de")[:2] == (["pizza"], [translations.EQUAL])


def test_what_the_text_has_too_is_no_fault():
  texts = ['"a quote"', "menu: soup", "1984"]
  answers = ['"ein Zitat"', "Karte: Suppe", "1984"]
  assert translations.judge(texts, answers, "de").texts == answers


@pytest.mark.parametrize(
  ("answer", "language", "is_one"),
  [
    ("وێنەیەکی خراپ", "ku", True),  # as NLLB writes Kurdish, which CLDR expects in Latin letters
    ("շատերի լուսանկարները:", "hy", True),  # a colon for Armenian's full stop
    ("Art of a dog .", "bg", False),
    ("Je suis désolé. Merci", "fr", False),
  ],
)
def test_what_nllb_wrote(answer, language, is_one):
  """Of data/nllb_dist13b_prompts.json of gregor-ge/Babel-ImageNet (317c498)."""
  assert bool(translations.judge(["art of a dog."], [answer], language).texts[0]) == is_one


def test_cleaned_kinds_are_counted():
  cleaned = translations.judge([_TEXT] * 3, ["**Ein Hund**", "'Ein Hund'", "Ein Hund"], "de").cleaned
  assert cleaned == {"markdown": 1, "quotes": 1}


@pytest.mark.parametrize("form", placeholders.FORMS)
def test_a_placeholder_in_each_form(form):
  sent = placeholders.put("a photo of a {}.", form)
  assert placeholders.restored(sent.replace("a photo of a", "ein Foto von"), form) == "ein Foto von {} ."
  assert placeholders.restored("ein Foto von", form) == ""


def test_a_placeholder_counts_once_and_not_among_thoughts():
  assert placeholders.restored("# oder #", "#") == "{} oder"
  assert placeholders.restored("<think>keep {c}</think>ein Foto", "{c}") == ""
  assert placeholders.appended("<think>keep {c}</think>ein {} Foto") == "ein Foto {}"


@pytest.mark.parametrize("template", ["a photo of a {}.", "{}", "itap of my {}.", "a {} in a video game."])
def test_templates_are_no_residue(template):
  assert translations.judge([template], [f"x {template}"], "de").texts == [f"x {template}"]


def test_a_template_that_lost_its_placeholder_is_no_translation():
  assert translations.judge(["a photo of a {}."], ["ein Foto von etwas"], "de").whys == [
    "without the placeholder"
  ]
