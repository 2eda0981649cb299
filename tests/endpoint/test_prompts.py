"""Prompts as their public code has them: fetched and compared on 2026-11-29."""

import pytest

from tests.make.refusals import refusal
from xmcap import languages
from xmcap.endpoint import prompts


@pytest.mark.parametrize("name", prompts.names())
def test_every_prompt_asks_in_its_languages(name):
  prompt = prompts.get(name)
  codes = list(languages.LANGUAGES) if prompt.text else list(prompt.texts)
  texts = [prompt.of(code) for code in codes]
  assert len(set(texts)) == len(codes)
  assert not [text for text in texts if "{" in text]
  assert prompt.max_tokens > 0


@pytest.mark.parametrize(
  ("name", "language", "text"),
  [
    ("centurio", "fa", "Briefly describe the image in Farsi in one sentence."),
    ("centurio", "quz", "Briefly describe the image in Quechua in one sentence."),
    ("mblip", "uk", "Caption in Ukranian: "),
    ("mblip", "pt", "Caption in Portugese: "),
    ("paligemma", "quz", "caption quz"),
    ("xm100", "en", "Provide a one-sentence caption for the provided image."),
    ("xm100", "fa", "Provide a one-sentence caption for the provided image in Persian."),
    ("megaverse", "de", "Generate a **brief** coco style caption for the given image in **German**"),
  ],
)
def test_texts(name, language, text):
  assert prompts.get(name).of(language) == text


def test_centurio_has_two_decoders():
  own, others = prompts.get("centurio"), prompts.get("centurio-baselines")
  assert (own.max_tokens, own.parameters) == (128, {"temperature": 0, "repetition_penalty": 1.1})
  assert (others.max_tokens, others.parameters) == (512, {"temperature": 0})


def test_a_prompt_of_other_languages_refuses():
  assert refusal(prompts.get("vlmevalkit").of, "de") == (
    "--prompt=vlmevalkit has no text for 'de': add it to `texts`, or ask other languages"
  )


def test_signature_names_all_that_is_asked(tmp_path):
  path = tmp_path / "mine.toml"
  path.write_text('text = "In {language}:"\nmax_tokens = 9\n', encoding="utf-8")
  first = prompts.get(str(path))
  path.write_text('text = "In {language}:"\nmax_tokens = 10\n', encoding="utf-8")
  second = prompts.get(str(path))
  assert first.name == second.name == "mine"
  assert first.signature != second.signature


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("max_tokens = 9", "no `text`, `texts` or `translation`"),
    ('text = "Caption:"\nmax_tokens = 9', "does not say which language"),
    ('text = "In {language}"', "missing required field `max_tokens`"),
    ('text = "In {language}"\nmax_tokens = 9\ntemperature = 0', "unknown field `temperature`"),
    ("text = ", "Invalid value"),
  ],
)
def test_wrong_files(tmp_path, text, message):
  path = tmp_path / "mine.toml"
  path.write_text(text, encoding="utf-8")
  assert message in refusal(prompts.get, str(path))


@pytest.mark.parametrize("name", ["centuri", "/nowhere/mine.toml", "mine.txt"])
def test_absent(name):
  assert refusal(prompts.get, name)
