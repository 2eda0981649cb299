"""Layout of the report at 1300 and 400 pixels in any font: no overflow, sticky headings."""

import dataclasses

import pytest

from tests import browser
from xmcap import languages
from xmcap.scoring import compare
from xmcap.scoring.score import score

_WIDTHS = (1300, 400)

# Elements whose own text is wider than they are, or that end beyond the page; what lies in a box that scrolls may.
_OVERFLOWING = """() => {
  const wide = document.documentElement.clientWidth, found = [];
  for (const one of document.body.querySelectorAll('*')) {
    const box = one.getBoundingClientRect();
    if (!box.width || one.closest('.skip, svg, script, select, .key')) continue;
    const scrolls = one.closest('.scroll');
    if (!scrolls && box.right > wide + 1) found.unshift(['beyond the page', one.outerHTML.slice(0, 120)]);
    const hides = getComputedStyle(one).overflowX !== 'visible';
    const inline = getComputedStyle(one).display === 'inline';
    if (!hides && !inline && one.scrollWidth > one.clientWidth + 1 && one.clientWidth)
      found.push(['text beyond its box', one.outerHTML.slice(0, 120)]);
  }
  if (document.documentElement.scrollWidth > wide) found.push(['the page', document.documentElement.scrollWidth]);
  return found;
}"""

# Pairs of headings, of a table or of the page, whose texts cover each other.
_OVERLAPPING = """() => {
  const textBox = (one) => {
    const range = document.createRange();
    range.selectNodeContents(one);
    return range.getBoundingClientRect();
  };
  const found = [];
  const groups = [...document.querySelectorAll('thead tr')].map((row) => [...row.children]);
  groups.push([...document.querySelectorAll('h1, h2, .note, .legend .named, .controls > *, .tile, .contents a')]);
  for (const group of groups) {
    const boxes = group.map((one) => [one.textContent, textBox(one)]).filter(([, box]) => box.width && box.height);
    boxes.forEach(([a, one], i) => boxes.slice(i + 1).forEach(([b, other]) => {
      const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
      if (wide > 1 && high > 1 && !a.includes(b) && !b.includes(a)) found.push([a, b, wide]);
    }));
  }
  return found;
}"""

# Tables with a cell in front of a round corner of their box.
_SQUARE = """() => [...document.querySelectorAll('.sheet:has(> .sortable)')].flatMap((sheet) => {
  sheet.scrollIntoView({ block: 'center' });
  const { left, right, top, bottom } = sheet.getBoundingClientRect();
  return [left + 2, right - 2].flatMap((x) => [top + 2, bottom - 2].map((y) => [x, y]))
    .filter(([x, y]) => document.elementFromPoint(x, y).closest('th, td')).map((place) => [sheet.id, ...place]);
})"""

# Whether a cell, once it is in sight, is in front of all others.
_ON_TOP = """(cell) => {
  cell.scrollIntoView({ block: 'center' });
  const at = cell.getBoundingClientRect();
  return cell.contains(document.elementFromPoint(at.x + at.width / 2, at.y + at.height / 2));
}"""


def _renamed(result, title):
  return dataclasses.replace(result, table=dataclasses.replace(result.table, title=title))


@pytest.fixture(scope="session")
def many():
  """A result in all 36 languages."""
  references = {
    f"k{i}": {code: [f"{code} word{i} and more"] for code in languages.LANGUAGES} for i in range(3)
  }
  predictions = {key: {code: f"{texts[0]}s" for code, texts in of.items()} for key, of in references.items()}
  metrics = ("cider", "cider_d", "exact")
  return score(references, predictions, metrics=metrics, keep=("words",), health=True, title="t" * 70)


def _at_widths(page):
  for width in _WIDTHS:
    page.set_viewport_size({"width": width, "height": 900})
    yield width


def _check(page):
  for width in _at_widths(page):
    for family in browser.FAMILIES:
      browser.set_font(page, family)
      for fault in (_OVERFLOWING, _OVERLAPPING):
        assert page.evaluate(fault) == [], (width, family)


def test_report_layout_with_baselines_has_no_overflow(opened, many):
  others = {name: many.table for name in ("most frequent caption", "nearest picture")}
  beside = {"an earlier run with a long title (CIDEr-D)": {"en": 0.5}}
  held = dataclasses.replace(many, table=dataclasses.replace(many.table, beside=beside))
  _check(opened({"these captions": held}, baselines=others))


def test_report_tables_have_rounded_corners(opened, bare):
  page = opened({"these captions": bare}, baselines={"nearest picture": bare.table})
  for _ in _at_widths(page):
    assert page.locator(".sheet > .sortable").count() == 2 and page.evaluate(_SQUARE) == []


def test_report_question_marks_stay_on_the_line_of_their_label(opened, ours):
  page = opened({"these captions": ours}, baselines={"nearest picture": ours.table})
  for _ in _at_widths(page):
    assert page.locator(".tile .about").count() == 3
    for mark in page.locator(".tile .about").all():
      name, link = mark.locator("xpath=..").locator("bdi").bounding_box(), mark.bounding_box()
      assert abs(name["y"] + name["height"] / 2 - link["y"] - link["height"] / 2) < 8


def test_report_layout_with_long_system_names_has_no_overflow(opened, ours, theirs):
  systems = {
    "a-run-with-an-unbroken-name-of-many-characters": ours,
    "runs/2026/another run, with words": theirs,
  }
  _check(opened(systems, comparison=compare(systems, resamples=20)))


def test_report_of_36_languages_fits_a_wide_screen_and_keeps_its_headings_in_view(page, opened, many):
  page.set_viewport_size({"width": 1300, "height": 900})
  opened(
    {"these captions": many}, baselines={"most frequent caption": many.table, "nearest picture": many.table}
  )
  for family in browser.FAMILIES:
    browser.set_font(page, family)
    box = page.locator("#scores")
    assert box.evaluate("(box) => box.scrollWidth - box.clientWidth") == 0, family
  page.locator("#scores tbody tr:nth-child(20)").evaluate("(row) => row.scrollIntoView()")
  contents = page.locator(".contents").bounding_box()
  heading = page.locator("#scores thead th:last-child").bounding_box()
  assert heading["y"] == pytest.approx(contents["y"] + contents["height"], abs=2)
  # What scrolls passes under it.
  place = [heading["x"] + heading["width"] / 2, heading["y"] + heading["height"] / 2]
  assert page.evaluate("([x, y]) => document.elementFromPoint(x, y).closest('thead') !== null", place)
  # On a phone the table scrolls sideways, and its first row goes with the page.
  page.set_viewport_size({"width": 400, "height": 900})
  page.locator("#scores").evaluate("(box) => { box.scrollLeft = 300; }")
  box = page.locator("#scores").bounding_box()
  for selector in ("thead th:first-child", "tbody tr:nth-child(20) > :first-child"):
    cell = page.locator(f"#scores {selector}")
    assert cell.bounding_box()["x"] == pytest.approx(box["x"] + 1, abs=1)
    assert cell.evaluate(_ON_TOP)  # what scrolls passes under it
