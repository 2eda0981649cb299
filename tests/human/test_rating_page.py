"""The rating page in Chromium: keyboard, mouse, rubrics, languages and images."""

import json

import pytest
from playwright.sync_api import expect

from tests import browser
from tests.human import rating_pages
from tests.human.rating_pages import press, reload, save
from tests.make import files
from xmcap.human import rating_join, rating_protocols, sxs, thumb_ratings


@pytest.mark.full
def test_rating_page_csp_blocks_inserted_scripts_and_styles(rate):
  page, _ = rate()
  page.evaluate("""() => {
    for (const [name, text] of [["script", "document.title = 'run'"], ["style", "body { width: 3px }"]]) {
      const element = document.createElement(name);
      element.textContent = text;
      document.head.append(element);
    }
    document.body.setAttribute("style", "width: 3px");
    document.body.setAttribute("onclick", "document.title = 'run'");
  }""")
  page.locator("body").dispatch_event("click")
  assert page.title() != "run" and page.evaluate("document.body.clientWidth") > 3
  assert len(page.errors) == 4 and all("Content Security Policy" in text for text in page.errors)
  page.errors.clear()


def test_rating_page_sxs_from_first_key_to_joined_ratings(rate, tmp_path, images):
  page, items = rate("sxs", images_dir=images)
  press(page, "1 Enter 7 Enter 4 Enter 2 3 Enter 5 ArrowLeft 6 End 5")
  saved = save(page, tmp_path)
  ratings = [-3, 3, 0, 2, 1, 1]
  assert saved == [
    {"item": item["id"], "protocol": "sxs", "rater": "anna", "rating": rating}
    for item, rating in zip(items, ratings, strict=True)
  ]
  joined = rating_join.join(tmp_path / "page.key.jsonl", [tmp_path / "saved.jsonl"])
  rating_join.write_rows(tmp_path / "joined.jsonl", joined.rows)
  for item, rating in zip(items, sxs.read(tmp_path / "joined.jsonl"), strict=True):
    shown = tuple(
      rating_pages.SYSTEMS[system][rating.key][rating.language] for system in (rating.left, rating.right)
    )
    assert shown == tuple(item["captions"])
  assert joined.unrated == 0 and [row["rating"] for row in joined.rows] == ratings


def test_rating_page_thumb_from_first_key_to_joined_ratings(rate, tmp_path):
  page, items = rate("thumb", languages=["en"])
  # All captions of a picture are on its screen; k2 has one and the same caption by both systems.
  counts = [1, 2] if items[0]["picture"] != items[1]["picture"] else [2, 1]
  assert page.locator("#place").inner_text().startswith("Item 1 of 2")
  for count in counts:
    assert page.locator(".card").count() == count
    press(page, "5 4 Enter" if count == 1 else "3 2 1 1 2 4 4 3 ArrowUp ArrowUp 2 Enter")
  saved = save(page, tmp_path)
  ratings = [[line[name] for name in ("P", "R", "Fl", "Con", "Inc")] for line in saved]
  of_two = [[3, 2, -0.1, -0.5, -2], [4, 2, -0.3, 0, 0]]
  assert ratings == ([[5, 4, 0, 0, 0], *of_two] if counts[0] == 1 else [*of_two, [5, 4, 0, 0, 0]])
  joined = rating_join.join(tmp_path / "page.key.jsonl", [tmp_path / "saved.jsonl"])
  rating_join.write_rows(tmp_path / "joined.jsonl", joined.rows)
  found = thumb_ratings.read(tmp_path / "joined.jsonl")
  totals = {4.5, -0.1, 2.7}
  assert len(joined.rows) == 4 and {round(t, 6) for t in found.measures["total"].ravel()} == totals


_TAGS = {
  "system-secret-1": {"k1": {"zh": ["猫", "狗", "船"]}},
  "system-secret-2": {"k1": {"zh": ["猫", "海", "船"]}},
}


def test_rating_page_shows_all_tags_of_an_image_on_a_single_screen(rate, tmp_path):
  page, items = rate("coco_cn_tags", systems=_TAGS)
  assert page.locator(".caption p").all_inner_texts() == [item["captions"][0] for item in items]
  assert len(items) == 4 and page.locator("#place").inner_text().startswith("第 1 项，共 1 项")
  assert page.locator(".brand").inner_text() == "判断标签"
  assert page.locator("html").get_attribute("lang") == "zh"
  assert page.get_by_role("group", name=f"相关性: {items[2]['captions'][0]}").is_visible()
  assert page.locator(".choice .meaning").all_inner_texts()[:3] == ["不相关", "不确定", "相关"]
  press(page, "1 3 2 Enter")
  expect(page.locator("#message")).to_contain_text("“相关性”尚未评分：请选择 1 到 3")
  press(page, "1 Enter")
  assert [line["relevance"] for line in save(page, tmp_path)] == [-1, 1, 0, -1]


def test_rating_page_of_a_custom_rubric(rate, tmp_path):
  rubric = {
    "name": "style", "title": "Style <b>", "task": "Rate.", "rules": [["One", "rule"]], "total": {"tone": 2, "wit": 1},
    "criteria": [
      {"name": "tone", "heading": "Tone", "question": "?", "choices": [[1, "no"], [2.5, "yes"]]},
      {
        "name": "wit", "heading": "Wit", "question": "?", "choices": [[0, "no"], [3, "yes"]], "default": 0,
        "first_key": 0,
      },
    ],
  }  # fmt: skip
  (tmp_path / "style.json").write_text(json.dumps(rubric))
  page, items = rate(str(tmp_path / "style.json"), languages=["th"])
  assert page.locator(".brand").inner_text() == "Style <b>"
  for _ in range(2):
    press(page, "2 1 2 Enter")
  assert page.locator(".total output").first.inner_text() == "8.00"
  saved = save(page, tmp_path)
  assert [(line["tone"], line["wit"]) for line in saved] == [(2.5, 3), (2.5, 0)] * 2
  joined = rating_join.join(tmp_path / "page.key.jsonl", [tmp_path / "saved.jsonl"])
  assert {row["system"] for row in joined.rows} == set(rating_pages.SYSTEMS) and joined.rows[0][
    "protocol"
  ] == "style"


def test_rating_page_works_by_mouse(rate, tmp_path):
  page, items = rate("sxs", languages=["th"], rater="")
  page.get_by_label("Your name or number").fill("Ana María / 3")
  page.get_by_role("button", name="Start").click()
  page.get_by_role("button", name="7 Right is much better").click()
  page.get_by_role("button", name="Next Enter").click()
  page.locator("#back").click()
  page.keyboard.press("Enter")  # acts on the item, not on the button
  page.get_by_role("button", name="4 About the same").click()
  with page.expect_download() as download:
    page.get_by_role("button", name="Save").click()
  assert download.value.suggested_filename.endswith("-Ana-María-3.jsonl")
  lines = files.rows(download.value.path())
  assert [(line["rater"], line["rating"]) for line in lines] == [("Ana María / 3", 3), ("Ana María / 3", 0)]


def test_rating_page_caption_language_text_direction_and_equality(rate):
  page, items = rate("sxs")
  for item in items:
    equal = page.get_by_text("The two captions are the same.")
    assert equal.is_visible() == (item["captions"] == ["a", "a"])
    for side, text in enumerate(item["captions"]):
      caption = page.locator(".caption > p").nth(side)
      if text:
        assert caption.text_content() == text
        assert caption.get_attribute("lang") == item["language"]
        assert caption.get_attribute("dir") == ("rtl" if item["language"] == "ar" else "ltr")
      else:
        assert caption.text_content() == "The caption is empty." and caption.get_attribute("lang") == "en"
    page.keyboard.press("ArrowRight")
  assert page.locator("b").count() == 0


@pytest.mark.parametrize("link", [False, True])
def test_rating_page_shows_embedded_and_linked_images(rate, images, link):
  page, items = rate("thumb", images_dir=images, link=link, languages=["th"])
  sources = set()
  for _ in range(2):
    expect(page.locator("#picture")).to_have_js_property("naturalWidth", 60)
    sources.add(page.locator("#picture").get_attribute("src"))
    page.keyboard.press("ArrowRight")
  assert len(sources) == 2


def test_rating_page_shows_rules_questions_and_the_key_of_an_absent_image(rate):
  page, _ = rate("thumb", systems={"s": {"k<i>": {"en": "a"}}})
  assert page.locator("#no-picture").inner_text() == "Picture k<i>"
  rules = page.locator("#rules")
  rules.get_by_text("Rules").click()
  assert rules.get_by_text("Correct in your mind what you took off for precision").is_visible()
  assert page.locator("#asked").inner_text().startswith("Precision\nIs what the caption says true")
  press(page, "4")
  assert page.locator("#asked").inner_text().startswith("Recall\n")


def test_rating_page_references_unfold(rate):
  page, items = rate("thumb", references=rating_pages.REFERENCES, languages=["ar"])
  place = next(place for place, item in enumerate(items) if item["references"])
  press(page, "ArrowLeft " * place + "r")  # the arrow in the direction of reading
  reference = page.get_by_text("سيارات", exact=True)
  assert reference.is_visible() and reference.get_attribute("dir") == "rtl"
  page.keyboard.press("r")
  assert not reference.is_visible()


def test_rating_page_does_not_leave_or_save_unfinished_items(rate, tmp_path):
  page, _ = rate("thumb", systems={"s": rating_pages.SYSTEMS["system-secret-2"]})
  press(page, "5 Enter")
  assert page.locator("#place").inner_text().startswith("Item 1 of")
  assert page.get_by_role("status").filter(has_text="Recall is not rated: choose 1 to 5").is_visible()
  press(page, "4 Enter")
  assert page.locator("#place").inner_text().startswith("Item 2 of")
  press(page, "3")
  assert len(save(page, tmp_path)) == 1
  assert "Begun but not finished, and left out: 1." in page.locator("#message").inner_text()


def test_rating_page_keys_delete_and_go_to_the_next_unrated_item(rate):
  page, _ = rate("sxs")
  press(page, "4 Delete")
  assert page.locator("#rated").inner_text() == "0 of 6 rated"
  assert page.locator(".choice[aria-pressed=true]").count() == 0
  page.keyboard.press("s")
  assert page.locator("#message").inner_text() == "Nothing is rated yet."
  press(page, "4 Enter 4 ArrowRight ArrowRight 4 Enter 4 Enter 4 Enter")
  assert page.locator("#place").inner_text().startswith("Item 3 of 6")
  press(page, "4 u")
  assert page.locator("#message").inner_text() == "All items are rated. Press Save."


def test_rating_page_keys_of_other_keyboard_layouts(rate):
  page, _ = rate("sxs")
  page.evaluate("""() => {
    const press = (key, code) => document.body.dispatchEvent(
      new KeyboardEvent("keydown", { key, code, bubbles: true, cancelable: true }));
    press("(", "Digit5");     // French
    press("Enter", "Enter");
    press("٦", "Digit6");     // Arabic
    press("ArrowLeft", "Numpad4");
  }""")
  assert page.locator("#place").inner_text().startswith("Item 1 of 6")
  assert page.locator(".choice[aria-pressed=true]").get_attribute("data-key") == "5"
  page.keyboard.press("ArrowRight")
  assert page.locator(".choice[aria-pressed=true]").get_attribute("data-key") == "6"


def test_rating_page_help_lists_the_keys_and_ignores_ratings(rate):
  page, _ = rate("sxs")
  page.keyboard.press("?")
  assert page.get_by_role("dialog", name="Help").is_visible()
  assert page.evaluate("document.querySelector('#help-dialog').scrollTop") == 0
  press(page, "4 Escape")
  assert not page.get_by_role("dialog").is_visible()
  assert page.locator("#rated").inner_text() == "0 of 6 rated"


@pytest.mark.parametrize(
  "protocol",
  ["sxs", "thumb", *(pytest.param(name, marks=pytest.mark.full)
                     for name in ("coco_cn_captions", "coco_cn_tags", "xm3600_quality"))],
)  # fmt: skip
def test_rating_page_fits_the_width_of_a_phone(page, rate, images, protocol):
  page.set_viewport_size({"width": 360, "height": 740})
  wide = "fits?" * 60
  systems = {
    name: {"k1": {"en": wide + name, "ar": rating_pages.ARABIC, "th": rating_pages.THAI}} for name in "AB"
  }
  _, items = rate(protocol, systems=systems, images_dir=images, references={"k1": {"en": [wide]}}, rater="")
  width = "document.documentElement.scrollWidth"
  assert page.evaluate(width) <= 360
  page.keyboard.type("a rater with quite a long name, who has another one too")
  page.keyboard.press("Enter")
  page.keyboard.press("r")
  for _ in items:
    assert page.evaluate(width) <= 360
    page.keyboard.press("ArrowRight")


def test_rating_page_instructions_follow_the_selected_language(rate, tmp_path):
  page, items = rate(rater="")
  task = page.locator("#start .task")
  assert task.inner_text().startswith("You see a picture and two captions")
  page.locator("#language").select_option("ar")
  arabic_sxs = rating_protocols.translated(rating_protocols.get("sxs"), "ar")
  assert task.inner_text() == arabic_sxs.task
  root = page.locator("html")
  assert (root.get_attribute("lang"), root.get_attribute("dir")) == ("ar", "rtl")
  page.locator("#rater").fill("anna")
  page.keyboard.press("Enter")
  arabic = [item["id"] for item in items if item["language"] == "ar"]
  assert page.locator("#rating").is_visible()
  meanings = [meaning for _, meaning in arabic_sxs.criteria[0].choices]
  assert page.locator(".choice .meaning").all_inner_texts() == meanings
  press(page, "1 Enter 7")
  assert [line["item"] for line in save(page, tmp_path)] == arabic
  reload(page)
  expect(page.locator("#progress")).to_have_js_property("value", len(arabic))
  # Another language takes nothing away of what was rated.
  page.locator("#rater-shown").click()
  page.locator("#language").select_option("th")
  page.keyboard.press("Tab")
  page.locator("#start-form button").click()
  press(page, "1")
  thai = next(item["id"] for item in items if item["language"] == "th")
  assert {line["item"] for line in save(page, tmp_path)} == {*arabic, thai}


def test_rating_page_quality_levels_fit_their_buttons(page, rate):
  page.set_viewport_size({"width": 400, "height": 800})
  rate("xm3600_quality")
  assert page.locator("body.has-lines").count() == 0  # a line beside the caption is for tags, which are short
  too_wide = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).length"
  for family in browser.FAMILIES:
    browser.set_font(page, family)
    assert page.locator(".choice").evaluate_all(too_wide) == 0, family
