"""The annotation page: suggestions, its source, and annotation in Chromium."""

import json

import msgspec
import pytest
from playwright.sync_api import expect

from tests import browser, policies
from tests.make import files, images
from xmcap.errors import UsageError
from xmcap.human import annotation_page, annotation_procedures, annotations, page_texts
from xmcap.human.annotation_page import AnnotationItem
from xmcap.human.annotation_procedures import PROCEDURES

_JPEG = images.plain("red", (60, 40), "JPEG")
_HOSTILE = "He said \"hi\" </script><script>alert(1)</script> & 'bye' <!-- <b>x</b>"
_TEXTS = {
  "en": (["A dog on a chair.", _HOSTILE], ["dog", "<i>chair</i>"], "A dog sleeps.", "sofa"),
  "zh": (["一只狗在椅子上。", "一只猫"], ["狗", "椅子"], "一只狗在睡觉。", "沙发"),
  "ar": (["كلب على كرسي.", "قطة"], ["كلب", "كرسي"], "كلب نائم.", "أريكة"),
}


def _items(language, count=3):
  sentences, tags, *_ = _TEXTS[language]
  return [AnnotationItem(f"k{i}", f"sub/k{i}.jpg", lambda: _JPEG, sentences, tags) for i in range(count)]


def _items_to_rate(count):
  return [
    AnnotationItem(f"k{i}", f"sub/k{i}.jpg", lambda: _JPEG, rated=f"A dog on chair {i}.")
    for i in range(count)
  ]


@pytest.fixture
def annotate(page, tmp_path):
  """Opens a page as an annotator."""

  def run(language="en", name="anna", procedure=PROCEDURES["coco-cn"], count=3):
    items = _items_to_rate(count) if procedure.ratings else _items(language, count)
    annotation_page.write_annotation_page(tmp_path, language, items, procedure)
    page.goto((tmp_path / "annotate.html").as_uri())
    if name:
      page.keyboard.type(name)
      page.keyboard.press("Enter")
    return page

  return run


def _save(page, tmp_path):
  with page.expect_download() as download:
    page.keyboard.press("Control+s")
  download.value.save_as(tmp_path / "saved.jsonl")
  return annotations.read([tmp_path / "saved.jsonl"])[0]


# Suggestions


def _row(key, language="en", **more):
  return {"image/key": key, "language": language, **more}


def test_annotation_page_sentences_of_several_files_alternate(tmp_path):
  first = files.jsonl(tmp_path / "1.jsonl", *(_row("a", caption=f"first {i}") for i in range(4)))
  rows = [_row("a", caption="second\n 0"), _row("a", caption="first 0"), _row("b", "zh", caption="二")]
  second = files.jsonl(tmp_path / "2.jsonl", *rows)
  found = annotation_page.read_sentences([first, second], "en")
  assert found == {"a": ["first 0", "second 0", "first 1", "first 2", "first 3"]}


def test_annotation_page_suggests_at_most_five_distinct_tags(tmp_path):
  rows = [
    _row("a", tags=list("xyzuvw")),
    _row("b", "zh", tags=["二"]),
    _row("c", tags=[]),
    _row("d", tags={"x": 0.1, "y": 0.9}),
  ]
  found = annotation_page.read_tags([files.jsonl(tmp_path / "t.jsonl", *rows)], "en")
  assert found == {"a": list("xyzuv"), "d": ["y", "x"]}


@pytest.mark.parametrize(
  "row, error",
  [
    (_row("a", "zh", tags=["x"]), "t.jsonl: no tag in en"),
    (_row("a", "xx1", tags=["x"]), "t.jsonl, line 1: unknown language 'xx1'"),
    (_row("a", tags="x"), "t.jsonl, line 1: 'tags' is missing or no list"),
    ({"language": "en", "tags": ["x"]}, "t.jsonl, line 1: 'image/key' is missing"),
  ],
)
def test_annotation_page_refuses_invalid_tags(tmp_path, row, error):
  with pytest.raises(UsageError, match=error):
    annotation_page.read_tags([files.jsonl(tmp_path / "t.jsonl", row)], "en")


# The source


def test_annotation_page_texts_do_not_end_the_script(annotate, tmp_path):
  page = annotate(name="")
  text = (tmp_path / "annotate.html").read_text(encoding="utf-8")
  assert f"content=\"default-src 'none'; img-src data:; {policies.by_hash(text)}\"" in text
  assert page.locator("script").count() == 2
  assert _HOSTILE in json.loads(page.locator("#data").text_content())["items"][0]["sentences"]


def test_annotation_page_refuses_unreadable_images(tmp_path):
  items = [*_items("en", 1), AnnotationItem("k", "bad.jpg", lambda: b"no picture")]
  with pytest.raises(UsageError, match=r"1 of 2 pictures cannot be read \(bad.jpg: damaged, no picture"):
    annotation_page.write_annotation_page(tmp_path, "en", items, PROCEDURES["coco-cn"])


def test_annotation_page_stores_many_images_beside_it(annotate, tmp_path, monkeypatch):
  monkeypatch.setattr(annotation_page, "MOST_EMBEDDED", 2)
  page = annotate(count=3)
  expect(page.locator("#picture")).to_have_js_property("naturalWidth", 60)
  assert len(list((tmp_path / "pictures").iterdir())) == 3


def test_annotation_page_bytes_are_reproducible(tmp_path):
  for name in ("one", "two"):
    annotation_page.write_annotation_page(tmp_path / name, "ar", _items("ar"), PROCEDURES["coco-cn"])
  assert (tmp_path / "one/annotate.html").read_bytes() == (tmp_path / "two/annotate.html").read_bytes()


# In a browser


@pytest.mark.parametrize(
  "language", ["ar", *(pytest.param(name, marks=pytest.mark.full) for name in ("en", "zh"))]
)
def test_annotation_from_first_click_to_saved_file(annotate, page, tmp_path, language):
  sentences, tags, typed, own_tag = _TEXTS[language]
  annotate(language)
  page.on("dialog", lambda dialog: dialog.accept())
  page.locator("#sentences .suggestion").nth(0).click()
  page.locator("#sentence").press("End")
  page.keyboard.type("!")
  for place in (0, 1):
    page.locator("#suggested-tags .suggestion").nth(place).click()
  page.locator("#new-tag").fill(own_tag)
  page.keyboard.press("Enter")
  page.locator(".chip button").first.click()
  browser.reload(page)
  expect(page.locator("#sentence")).to_have_value(f"{sentences[0]}!")
  assert [field.input_value() for field in page.locator("#tags input").all()] == [tags[1], own_tag]
  page.locator("#tags input").nth(0).fill(f"{tags[1]} 2")
  page.keyboard.press("Control+Enter")
  expect(page.locator("#sentence")).to_have_value("")
  page.keyboard.type(typed)
  first, second = _save(page, tmp_path)
  assert (first.key, first.image, first.language, first.annotator) == ("k0", "sub/k0.jpg", language, "anna")
  assert (first.caption, first.tags) == (f"{sentences[0]}!", [f"{tags[1]} 2", own_tag])
  assert (first.suggested.sentences, first.suggested.tags) == (sentences, tags)
  assert [(event.event, event.text) for event in first.events] == [
    ("open", ""),
    ("copy_sentence", sentences[0]),
    ("edit_sentence", f"{sentences[0]}!"),
    ("copy_tag", tags[0]),
    ("copy_tag", tags[1]),
    ("add_tag", own_tag),
    ("remove_tag", tags[0]),
    ("open", ""),
    ("edit_tag", f"{tags[1]} 2"),
    ("done", ""),
  ]
  assert (second.caption, second.tags, second.skipped) == (typed, [], "")


@pytest.mark.parametrize("language, direction", [("en", "ltr"), ("ar", "rtl")])
def test_annotation_page_text_direction_and_no_overflow(annotate, page, language, direction):
  annotate(language)
  page.locator("#sentences .suggestion").nth(1).click()
  for place in (0, 1):
    page.locator("#suggested-tags .suggestion").nth(place).click()
  assert [page.locator("html").get_attribute(name) for name in ("lang", "dir")] == [language, direction]
  for selector in ("#sentence", "#new-tag", "#tags input", "#sentences .suggestion span"):
    element = page.locator(selector).first
    assert (element.get_attribute("lang"), element.get_attribute("dir")) == (language, direction)
  beyond = """() => [...document.querySelectorAll("main *")].filter((one) => {
    const { left, right } = one.getBoundingClientRect();
    return left < -1 || right > document.documentElement.clientWidth + 1;
  }).map((one) => one.outerHTML.slice(0, 80))"""
  for width in (360, 1300):
    page.set_viewport_size({"width": width, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(beyond) == []
  figure, work = (page.locator(part).bounding_box() for part in ("#figure", ".work"))
  assert (figure["x"] > work["x"]) == (direction == "rtl")


def test_annotation_page_escapes_html_in_suggestions_and_input(annotate, page, tmp_path):
  annotate()
  page.locator("#sentences .suggestion").nth(1).click()
  page.locator("#suggested-tags .suggestion").nth(1).click()
  page.locator("#new-tag").fill("<b>tag</b>")
  page.keyboard.press("Enter")
  assert page.locator("#sentence").input_value() == _HOSTILE
  assert page.locator("main b, main i").count() == 0
  (saved,) = _save(page, tmp_path)
  assert (saved.caption, saved.tags) == (_HOSTILE, ["<i>chair</i>", "<b>tag</b>"])


def test_annotation_page_works_by_keyboard_alone(annotate, page, tmp_path):
  annotate()
  page.keyboard.press("Alt+1")
  page.keyboard.press("Alt+Shift+1")
  page.keyboard.press("Enter")
  page.keyboard.type("red, wooden")
  page.keyboard.press("Enter")
  page.keyboard.press("Backspace")
  assert page.locator("#new-tag").input_value() == "wooden"
  page.keyboard.press("Enter")
  page.keyboard.press("Enter")
  expect(page.locator("#place")).to_contain_text("Picture 2 of 3")
  (saved,) = _save(page, tmp_path)
  assert (saved.caption, saved.tags) == ("A dog on a chair.", ["dog", "red", "wooden"])


def test_annotation_page_copy_over_typed_text_is_undone(annotate, page):
  annotate()
  page.keyboard.type("My own.")
  page.keyboard.press("Alt+1")
  assert page.locator("#sentence").input_value() == "A dog on a chair."
  page.keyboard.press("Control+z")
  assert page.locator("#sentence").input_value() == "My own."


def test_annotation_page_skips_an_image_with_a_reason(annotate, page, tmp_path):
  annotate()
  page.keyboard.press("Control+s")
  assert page.locator("#message").inner_text() == "Nothing is written yet."
  page.keyboard.press("Control+Enter")
  assert "skip the picture with a reason" in page.locator("#message").inner_text()
  page.locator("#skip").click()
  page.get_by_role("button", name="It cannot be seen well").click()
  expect(page.locator("#place")).to_contain_text("Picture 2 of 3")
  page.locator("#skip").click()
  page.get_by_label("Another reason").fill("my own face")
  page.keyboard.press("Enter")
  expect(page.locator("#described")).to_have_text("2 of 3 done")
  page.locator("#skip").click()
  page.keyboard.press("Escape")
  assert [each.skipped for each in _save(page, tmp_path)] == ["cannot be seen well", "my own face"]
  page.locator("#back").click()
  assert page.locator("#skipped").is_visible()
  page.keyboard.type("A face.")
  assert [each.skipped for each in _save(page, tmp_path)] == ["cannot be seen well", ""]


def test_annotation_page_keeps_a_state_per_annotator(annotate, page):
  annotate()
  page.keyboard.type("A dog.")
  page.locator("#annotator-shown").click()
  page.keyboard.type("bo")
  page.keyboard.press("Enter")
  assert page.locator("#sentence").input_value() == ""
  page.locator("#annotator-shown").click()
  page.keyboard.type("anna")
  page.keyboard.press("Enter")
  assert page.locator("#sentence").input_value() == "A dog."


def test_annotation_page_ignores_invalid_local_storage(annotate, page):
  annotate()
  name = "Object.keys(localStorage).find((key) => key.endsWith('-0-anna'))"
  for stored in ("{", "null", '{"caption": 3}', '{"caption": "x", "tags": [1]}'):
    page.evaluate(f"(text) => localStorage.setItem({name}, text)", stored)
    browser.reload(page)
    expect(page.locator("#sentence")).to_have_value("")
    expect(page.locator("#described")).to_have_text("0 of 3 done")


def test_annotation_page_saves_what_was_taken_back_and_ends_a_tag_at_a_comma(annotate, page, tmp_path):
  annotate()
  page.keyboard.type("A dog.")
  page.locator("#new-tag").fill("old")
  page.keyboard.press("Enter")
  page.locator("#tags input").fill("old, red")
  page.keyboard.press("Enter")
  first = _save(page, tmp_path)
  assert [(each.caption, each.tags) for each in first] == [("A dog.", ["old", "red"])]
  page.locator("#sentence").fill("")
  for tag in ("old", "red"):
    page.get_by_role("button", name=f"Remove {tag}").click()
  (back,) = _save(page, tmp_path)
  assert back.is_empty and back.continues(first[0]) and back.last_time > first[0].last_time


def test_annotation_page_writes_no_more_than_the_reader_takes(annotate, page, tmp_path, monkeypatch):
  limits = {"sentence": 20, "tag": 5, "tags": 3, "reason": 9, "events": 8, "log": 100}
  monkeypatch.setattr(annotation_page, "LIMITS", limits)
  # A clock that goes back with each look at it, from before 1970.
  page.add_init_script("let time = -1; Date.now = () => (time -= 1000);")
  annotate(name="all")
  assert page.locator("#start").is_visible()
  page.locator("#annotator").fill("constructor")
  page.keyboard.press("Enter")
  page.locator("#sentence").fill("")
  page.keyboard.type("0123456789" * 3)
  for text in ("\ud83d", "a,b,c,d", "eeeeeeee"):
    page.evaluate("(text) => { document.getElementById('new-tag').value = text; }", text)
    page.locator("#new-tag").dispatch_event("change")
  expect(page.locator("#message")).to_have_text("A picture has at most 3 tags.")
  (saved,) = _save(page, tmp_path)
  assert (saved.annotator, saved.caption, saved.tags) == ("constructor", "0123456789" * 2, ["a", "b", "c"])
  times = [event.time for event in saved.events]
  assert times == sorted(set(times)) and len(times) <= 8


# The two screens of Crossmodal-3600


def _rated(count, batch=2, **more):
  return {"procedure": msgspec.structs.replace(PROCEDURES["xm3600"], batch=batch, **more), "count": count}


def test_annotation_page_batch_is_rated_before_it_is_described(annotate, page, tmp_path):
  annotate("fa", **_rated(3))  # whose page is in English
  place = page.locator("#place")
  expect(place).to_contain_text("Batch 1 of 2: rate")
  # All pictures of the batch with their captions on one screen.
  expect(page.locator("#cards .rated")).to_have_text(["A dog on chair 0.", "A dog on chair 1."])
  assert page.locator("#cards img").count() == 2 and not page.locator("#figure").is_visible()
  assert [page.locator(".rated").first.get_attribute(name) for name in ("lang", "dir")] == ["en", "ltr"]
  assert not page.locator("#sentence").is_visible() and not page.locator("#skip").is_visible()
  page.keyboard.press("1")
  page.keyboard.press("Enter")
  expect(page.locator("#message")).to_have_text("Rate every caption first.")
  assert page.locator(".card.current").get_attribute("data-number") == "1"
  page.locator(".card").nth(1).get_by_role("button", name="Good").click()
  page.keyboard.press("ArrowUp")
  page.keyboard.press("2")
  page.keyboard.press("1")
  page.keyboard.press("Enter")
  expect(place).to_contain_text("Batch 1 of 2: describe 1 of 2")
  assert "A dog" not in page.locator("main").inner_text()
  for hidden in ("#cards", "#levels", "#new-tag", "#sentences .suggestion"):
    assert not page.locator(hidden).first.is_visible()
  page.keyboard.press("Alt+1")
  assert page.locator("#sentence").input_value() == ""
  assert page.locator("#back").is_disabled()
  page.keyboard.type("Mine.")
  page.keyboard.press("Enter")
  page.keyboard.type("Mine too.")
  page.keyboard.press("Control+Enter")
  expect(place).to_contain_text("Batch 2 of 2: rate")
  page.locator("#back").click()
  expect(place).to_contain_text("Batch 1 of 2: describe 2 of 2")
  page.locator("#back").click()
  assert page.locator("#back").is_disabled()
  saved = _save(page, tmp_path)
  assert [(each.language, each.caption) for each in saved] == [("fa", "Mine."), ("fa", "Mine too.")]
  assert [each.rated for each in saved] == [
    annotations.Rated("en", "A dog on chair 0.", "BAD"), annotations.Rated("en", "A dog on chair 1.", "GOOD"),
  ]  # fmt: skip
  assert [event.event for event in saved[0].events] == [
    "open_rating", "rate", "done", "open_rating", "rate", "done", "rate", "done",
    "open", "edit_sentence", "done", "open",
  ]  # fmt: skip
  assert saved[0].begun_from is None


def test_annotation_page_reload_hides_rated_captions(annotate, page):
  annotate(**_rated(2))
  for key in ("1", "1", "Enter"):
    page.keyboard.press(key)
  expect(page.locator("#place")).to_contain_text("describe 1 of 2")
  at_rating = """() => { const name = Object.keys(localStorage).find((key) => key.endsWith("-place-anna"));
    localStorage.setItem(name, '{"place": 0, "unsaved": true}'); }"""
  page.evaluate(at_rating)
  browser.reload(page)
  expect(page.locator("#place")).to_contain_text("describe 1 of 2")


def test_annotation_page_with_a_given_annotator_asks_for_no_name(page, tmp_path):
  annotation_page.write_annotation_page(tmp_path, "en", _items("en", 1), PROCEDURES["coco-cn"], "anna")
  page.goto((tmp_path / "annotate.html").as_uri())
  assert page.locator("#annotator").input_value() == "anna" and not page.locator("#annotator").is_editable()
  page.keyboard.press("Enter")
  page.keyboard.type("A dog.")
  assert _save(page, tmp_path)[0].annotator == "anna"


def test_annotation_page_shows_the_task_in_its_language_or_guidelines_from_a_file(annotate, page, tmp_path):
  annotate("zh", name="")
  task = page.locator("#start .guidelines")
  assert task.inner_text() == page_texts.catalogue("zh")["procedures"]["coco-cn"]["guidelines"][0]
  (tmp_path / "own.txt").write_text("# Wie\n\nSchreibe <b>einen</b> Satz.\n", encoding="utf-8")
  own = annotation_procedures.read_guidelines(tmp_path / "own.txt")
  annotate("zh", name="", procedure=msgspec.structs.replace(PROCEDURES["coco-cn"], guidelines=own))
  assert task.inner_text().split("\n\n") == ["Wie", "Schreibe <b>einen</b> Satz."]
  page.keyboard.type("anna")
  page.keyboard.press("Enter")
  page.locator("summary").click()
  assert page.locator("main .guidelines h3").inner_text() == "Wie"
