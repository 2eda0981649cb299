"""The catalogue of texts of the rating and annotation pages: whole in nine languages besides English."""

import re

import pytest

from tests.human import rating_pages
from tests.make import images
from tests.pages.markup import Markup
from xmcap import languages
from xmcap.human import annotation_page, page_texts, rating_protocols
from xmcap.human.annotation_procedures import PROCEDURES
from xmcap.pages.report import elements

_OTHERS = [language for language in page_texts.LANGUAGES if language != page_texts.ENGLISH]
_SCRIPTS = {
  "ar": "\u0600-\u06ff",
  "bn": "\u0980-\u09ff",
  "hi": "\u0900-\u097f",
  "ru": "\u0400-\u04ff",
  "zh": "\u4e00-\u9fff",
}
# Words of a Latin language that are the English ones too.
_SAME = {"Total", "Concise", "Tag"}
_FILES = {
  "rate": ("rating_page.html", "page.js", "rating_page.js", "rating_show.js"),
  "annotate": ("annotation_page.html", "page.js", "annotation_page.js", "annotation_show.js"),
}


def _flat(value, path=""):
  """Yields (path, text) of all texts of a part of the catalogue."""
  if isinstance(value, str):
    yield path, value
  else:
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
      yield from _flat(part, f"{path}/{key}")


def _texts(language):
  return dict(_flat(page_texts.catalogue(language)))


def _is_untranslated(language, text):
  if language in _SCRIPTS:
    return not re.search(f"[{_SCRIPTS[language]}]", text)
  return text in _texts("en").values() and text not in _SAME


@pytest.mark.parametrize("language", _OTHERS)
def test_page_texts_are_whole_in_a_language(language):
  english, texts = _texts("en"), _texts(language)
  assert texts.keys() == english.keys()
  assert [path for path, text in texts.items() if bool(text) != bool(english[path])] == []
  worded = {path: text for path, text in texts.items() if text and text != "{levels}"}
  assert [path for path, text in worded.items() if _is_untranslated(language, text)] == []


@pytest.mark.parametrize("language", _OTHERS)
def test_page_texts_have_the_placeholders_of_the_english_text(language):
  english = _texts("en")
  for path, text in _texts(language).items():
    assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", english[path])), path


@pytest.mark.parametrize("language", page_texts.LANGUAGES)
def test_page_texts_name_each_level_otherwise(language):
  for name in rating_protocols.PROTOCOLS:
    for criterion in rating_protocols.translated(rating_protocols.get(name), language).criteria:
      words = [word for _, word in criterion.choices if word]
      assert len(set(words)) == len(words) >= 2, (name, criterion.name)
  levels = PROCEDURES["xm3600"].levels(language)
  assert list(levels) == list(PROCEDURES["xm3600"].levels("en")) and all(map(all, levels.values()))


@pytest.mark.parametrize("section", _FILES)
def test_page_texts_are_those_that_the_pages_name(section):
  catalogue = page_texts.catalogue("en")
  html, *scripts = (elements.resource(file, "xmcap.human") for file in _FILES[section])
  script = "\n".join(scripts)
  named = set(re.findall(r'data-(?:text|title|label|alt|placeholder)="(\w+)"', html))
  for one in re.findall(r'\b(?:phrase|say)\((?:[^"`()]*\? )?"(\w+)"(?: : "(\w+)")?', script):
    named |= {*one} - {""}
  assert named - catalogue["common"].keys() - catalogue[section].keys() == set()
  prefixes = tuple(re.findall(r"`(\w+_)\$\{", script))
  quoted = named | set(re.findall(r'"(\w+)"', script))
  assert {key for key in catalogue[section] if key not in quoted and not key.startswith(prefixes)} == set()


@pytest.mark.parametrize("section", _FILES)
def test_pages_have_no_words_of_their_own(section, tmp_path):
  template, *scripts = _FILES[section]
  path = tmp_path / template
  html = elements.resource(template, "xmcap.human").replace("$no_script", "").replace("$data$script", "")
  path.write_text(f"<html><body>{html}")
  page = Markup(path)
  words = re.sub(r"\s+", " ", page.text)
  # Names of keys.
  for key in (
    "Ctrl Enter",
    "Shift Alt 1",
    "Alt 1",
    "Ctrl S",
    "Ctrl Z",
    "Backspace",
    "Enter",
    "Delete",
    "Home",
    "End",
  ):
    words = words.replace(key, "")
  assert re.findall(r"[^\W\d]{2,}", words) == []
  assert [
    attrs for _, attrs in page.tags if {"title", "aria-label", "placeholder", "alt"} & attrs.keys()
  ] == []
  for file in scripts:
    code = re.sub(r"(^|\s)//.*", "", elements.resource(file, "xmcap.human"), flags=re.MULTILINE)
    texts = re.findall(r'"([^"\n]*)"|`([^`]*)`', code)
    assert [
      text for pair in texts for text in pair if re.search(r"[A-Z][a-z]+ [a-z]|[a-z]+ [a-z]+ [a-z]+", text)
    ] == []


# Every text as letters of one kind, so that letters of another kind that a page shows are none of the catalogue's.
_SHOWN = """() => [...document.querySelectorAll("*:not(script, style, kbd, code, noscript)")].flatMap((one) => [
  ...[...one.childNodes].filter(({ nodeType }) => nodeType === Node.TEXT_NODE).map(({ data }) => data),
  one.title, one.ariaLabel, one.placeholder, one.alt,
]).filter((text) => /[a-z]/i.test((text ?? "").replace(/\\S+[.]jsonl/, "")))"""


def _masked(value):
  if isinstance(value, str):
    return re.sub(r"(?<!\{)\b[^\W\d_]\w*\b(?!\})", "жж", value)
  if isinstance(value, dict):
    return {key: _masked(part) for key, part in value.items()}
  return list(map(_masked, value))


@pytest.fixture
def masked(monkeypatch):
  """Shows only the letter ж in the place of all texts of the catalogue."""
  texts = _masked(page_texts.catalogue("en"))
  monkeypatch.setattr(page_texts, "catalogue", lambda language: texts)
  monkeypatch.setattr(rating_protocols, "_own", rating_protocols._own.__wrapped__)


def _press_and_check(page, keys):
  assert page.evaluate(_SHOWN) == []
  for key in keys.split():
    page.keyboard.press(key)
    assert page.evaluate(_SHOWN) == [], key


@pytest.mark.parametrize("protocol", ["sxs", "thumb", "coco_cn_tags"])
def test_rating_page_shows_only_texts_of_the_catalogue(masked, page, tmp_path, protocol):
  texts = ["ж", "жж"] if protocol == "coco_cn_tags" else "ж"
  systems = {name: {key: {"ru": texts} for key in ("ж1", "ж2")} for name in "AB"}
  rating_pages.write(tmp_path / "page.html", protocol, systems, references={"ж1": {"ru": ["ж"]}}, rater="ж")
  page.goto((tmp_path / "page.html").as_uri())
  _press_and_check(page, "Enter ArrowLeft Enter 1 ? Escape s 3 1 1 1 s End ArrowRight u 1 Delete s")
  (tmp_path / "bad.jsonl").write_text("{}\n")
  page.locator("#rater-shown").click()
  page.locator("#first").set_input_files(tmp_path / "bad.jsonl")
  page.locator("#first-read:not(:empty)").wait_for(state="attached")
  assert page.evaluate(_SHOWN) == []


@pytest.mark.parametrize("name", PROCEDURES)
def test_annotation_page_shows_only_texts_of_the_catalogue(masked, page, tmp_path, name):
  picture = images.plain("red", (60, 40), "JPEG")
  procedure = PROCEDURES[name]
  rated = "ж" if procedure.ratings else ""
  items = [
    annotation_page.AnnotationItem(f"k{i}", f"k{i}.jpg", lambda: picture, ["ж"], ["жж"], rated)
    for i in range(2)
  ]
  annotation_page.write_annotation_page(tmp_path, "ru", items, procedure, annotator="ж")
  page.goto((tmp_path / "annotate.html").as_uri())
  page.evaluate("() => { data.rated_language = data.language; }")
  _press_and_check(
    page, "Enter Control+s Enter Control+Enter 1 1 Enter Alt+1 Alt+Shift+1 Control+Enter Control+s"
  )
  page.locator("#skip").click()
  page.locator(".reasons button").first.click()
  assert page.evaluate(_SHOWN) == []


@pytest.mark.parametrize("language", ["ar", "fa", "zh", "pt-BR", "zh-TW", "quz"])
def test_pages_are_in_the_language_of_the_captions_or_english(page, tmp_path, language):
  systems = {name: {"k1": {language: name}} for name in "AB"}
  rating_pages.write(tmp_path / "page.html", "xm3600_quality", {"A": systems["A"]})
  root = page.locator("html")
  spoken = {"ar": "ar", "zh": "zh", "pt-BR": "pt"}.get(language, "en")
  direction = languages.get(spoken).direction
  for script in ("", "run"):
    if script:
      page.goto((tmp_path / "page.html").as_uri())
      assert (root.get_attribute("lang"), root.get_attribute("dir")) == (spoken, direction)
    else:
      tag = next(attrs for name, attrs in Markup(tmp_path / "page.html").tags if name == "html")
      assert (tag["lang"], tag.get("dir", "ltr")) == (spoken, direction)
  page.keyboard.type("anna")
  page.keyboard.press("Enter")
  caption = page.locator(".caption p")
  assert (caption.get_attribute("lang"), caption.get_attribute("dir")) == (
    language,
    languages.get(language).direction,
  )
  for part in ("legend", ".question", ".words", ".choice .meaning"):
    assert page.locator(part).first.evaluate("one => getComputedStyle(one).direction") == direction
    assert page.locator(part).first.evaluate("one => one.closest('[lang]').lang") == spoken
