"""What the rating page keeps in Chromium: reloads, raters, other pages, checks of another rater's ratings."""

import json

from playwright.sync_api import expect

from tests import browser
from tests.human import rating_pages
from tests.human.rating_pages import press, reload, save
from xmcap.human import rating_join


def _reload_start(page):
  page.on("dialog", lambda dialog: dialog.accept())
  browser.reload(page)
  page.locator("#start").wait_for()


def test_rating_page_checks_the_ratings_of_another_rater(rate, tmp_path):
  page, items = rate("thumb", languages=["en"])
  many = 2 if items[0]["picture"] == items[1]["picture"] else 1
  for count in (many, 3 - many):
    press(page, "3 4 Enter " * count)
    if count == 2:
      press(page, "Enter" if page.locator("#rated").inner_text().startswith("0") else "")
  first = {line["item"]: line for line in save(page, tmp_path, "anna.jsonl")}
  assert len(first) == 3
  page.locator("#rater-shown").click()
  page.get_by_text("Check somebody's ratings").click()
  page.locator("#first").set_input_files(tmp_path / "anna.jsonl")
  expect(page.locator("#first-read")).to_have_text("Ratings of anna: 3")
  page.locator("#rater").fill("bo")
  page.locator("#start-form .primary").click()
  expect(page.locator("#message")).to_have_text(
    "The answers are by anna: change what is wrong, then press Next."
  )
  assert page.locator("#rated").inner_text() == "0 of 2 rated"
  assert page.locator(".choice.first[aria-pressed=true]").count() == 5 * many
  press(page, "5 Enter Enter")
  assert page.locator("#rated").inner_text() == "2 of 2 rated"
  saved = save(page, tmp_path, "bo.jsonl")
  assert {(line["rater"], line["checks"]) for line in saved} == {("bo", "anna")}
  changed = {line["item"]: line for line in saved}
  assert changed[items[0]["id"]]["P"] == 5 and changed[items[0]["id"]]["R"] == 4
  assert [changed[id]["P"] for id in first if id != items[0]["id"]] == [3, 3]
  joined = rating_join.join(tmp_path / "page.key.jsonl", [tmp_path / "anna.jsonl", tmp_path / "bo.jsonl"])
  assert joined.checked == {("bo", "anna"): (3, 1, 0)}
  assert {row["annotator"] for row in joined.rows} == {"bo"}


_CRITERION = {"heading": "H", "question": "Q", "choices": [[1, "no"], [2, "yes"]]}


def test_rating_page_asks_criteria_whose_names_objects_inherit(rate, tmp_path):
  names = ["constructor", "toString", "hasOwnProperty", "valueOf"]
  rubric = {
    "name": "toString",
    "title": "T",
    "task": "t",
    "criteria": [{"name": name, **_CRITERION} for name in names],
  }
  (tmp_path / "rubric.json").write_text(json.dumps(rubric))
  page, items = rate(
    str(tmp_path / "rubric.json"), systems={"__proto__": {"k1": {"en": "a"}}}, rater="language"
  )
  press(page, "1 2 1")
  assert page.locator("#rated").inner_text() == "0 of 1 rated"
  press(page, "2")
  reload(page)
  assert page.locator("#rated").inner_text() == "1 of 1 rated"
  save(page, tmp_path)
  joined = rating_join.join(tmp_path / "page.key.jsonl", [tmp_path / "saved.jsonl"])
  assert [[row[name] for name in names] for row in joined.rows] == [[1, 2, 1, 2]]
  assert joined.rated == {"language": 1} and joined.rows[0]["system"] == "__proto__"


def test_rating_page_saves_that_a_rating_was_taken_back(rate, tmp_path):
  page, _ = rate("sxs", languages=["en"])
  press(page, "7 Enter 6")
  first = save(page, tmp_path, "first.jsonl")
  press(page, "Delete")
  reload(page)
  later = save(page, tmp_path, "later.jsonl")
  assert [line.get("taken_back") for line in later] == [None, True] and later[1]["item"] == first[1]["item"]
  joined = rating_join.join(tmp_path / "page.key.jsonl", [tmp_path / "later.jsonl"])
  assert (len(joined.rows), joined.taken_back) == (1, 1)
  page.locator("#rater-shown").click()
  page.get_by_text("Check somebody's ratings").click()
  page.locator("#first").set_input_files(tmp_path / "later.jsonl")
  expect(page.locator("#first-read")).to_have_text("Ratings of anna: 1")
  both = (tmp_path / "first.jsonl").read_text() * 2
  (tmp_path / "both.jsonl").write_text(both)
  page.locator("#first").set_input_files(tmp_path / "both.jsonl")
  expect(page.locator("#first-read")).to_have_text("Line 3 rates an item again; keep one line of it.")
  (tmp_path / "nobody.jsonl").write_text(both.replace('"anna"', '""'))
  page.locator("#first").set_input_files(tmp_path / "nobody.jsonl")
  expect(page.locator("#first-read")).to_have_text("Line 1 is no rating of this page.")


def test_rating_page_refuses_to_check_files_of_other_pages(rate, tmp_path):
  page, _ = rate("thumb", rater="")
  page.get_by_text("Check somebody's ratings").click()
  for text, said in (
    ("{", "Line 1 is no rating of this page."),
    ('{"item": "x", "rater": "a"}', "Line 1 is no"),
    ("", "of 0 people"),
  ):
    (tmp_path / "other.jsonl").write_text(text)
    page.locator("#first").set_input_files(tmp_path / "other.jsonl")
    expect(page.locator("#first-read")).to_contain_text(said)


def test_rating_page_resumes_from_saved_ratings(rate, tmp_path):
  page, _ = rate("sxs", languages=["en"])
  press(page, "7")
  save(page, tmp_path)
  page.evaluate("localStorage.clear()")
  _reload_start(page)
  page.get_by_text("Check somebody's ratings").click()
  page.locator("#first").set_input_files(tmp_path / "saved.jsonl")
  expect(page.locator("#first-read")).to_have_text("Ratings of anna: 1")
  page.locator("#rater").fill("anna")
  page.locator("#start-form .primary").click()
  assert page.locator("#rated").inner_text() == "1 of 2 rated"
  assert "checks" not in save(page, tmp_path)[0]


def test_rating_page_reload_keeps_answers(rate, tmp_path):
  page, items = rate("thumb", systems={"s": rating_pages.SYSTEMS["system-secret-2"]})
  page.on("dialog", lambda dialog: dialog.accept())
  press(page, "5 4 1 Enter 2")
  reload(page)
  assert page.locator("#place").inner_text().startswith("Item 2 of")
  assert page.locator(".choice[aria-pressed=true] .value").all_inner_texts() == ["2", "0", "0", "0"]
  saved = save(page, tmp_path)
  assert [(line["item"], line["P"], line["R"], line["Fl"]) for line in saved] == [
    (items[0]["id"], 5, 4, -0.1)
  ]


def test_rating_page_state_is_separate_for_each_rater_and_page(rate, tmp_path):
  page, _ = rate("sxs")
  press(page, "4 Enter 4")
  page.get_by_role("button", name="anna", exact=True).click()
  press(page, "b o Enter")
  assert page.locator("#rated").inner_text() == "0 of 6 rated"
  page.get_by_role("button", name="bo", exact=True).click()
  page.keyboard.type("anna")
  page.keyboard.press("Enter")
  assert page.locator("#rated").inner_text() == "2 of 6 rated"
  page.on("dialog", lambda dialog: dialog.accept())
  rating_pages.write(tmp_path / "other.html", seed=1)
  page.goto((tmp_path / "other.html").as_uri())
  assert page.get_by_label("Your name or number").input_value() == ""
  rating_pages.write(tmp_path / "named.html", rater='r "1" <b>')
  page.goto((tmp_path / "named.html").as_uri())
  page.keyboard.press("Enter")
  assert page.locator("#rater-shown").inner_text() == 'r "1" <b>'


def test_rating_page_without_local_storage_warns_and_saves(page, rate, tmp_path):
  page.add_init_script(
    "Storage.prototype.setItem = Storage.prototype.getItem = () => { throw new Error(); };"
  )
  rate("sxs")
  press(page, "4 Enter 5")
  assert "cannot store answers" in page.get_by_role("alert").inner_text()
  assert [line["rating"] for line in save(page, tmp_path)] == [0, 1]


def test_rating_page_ignores_invalid_local_storage(page, rate):
  _, items = rate("sxs")
  answers = {"x": {"rating": 1}, items[0]["id"]: {"rating": 9}}
  for stored in ("{", "null", "[]", json.dumps({"answers": answers, "place": 99})):
    page.evaluate(
      "text => localStorage.setItem(Object.keys(localStorage).find(key => key.endsWith('-anna')), text)",
      stored,
    )
    reload(page)
    assert page.locator("#rated").inner_text() == "0 of 6 rated", stored
    assert page.locator("#place").inner_text().startswith("Item 1 of 6"), stored


def test_rating_page_asks_before_leaving_unsaved_answers(rate, tmp_path):
  page, _ = rate("sxs")
  asked = []
  page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
  page.keyboard.press("4")
  reload(page)
  assert asked == ["beforeunload"]
  page.keyboard.press("ArrowRight")
  save(page, tmp_path)
  reload(page)
  assert asked == ["beforeunload"]
