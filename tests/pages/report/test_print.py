"""The report in print, and rows of papers, fidelity and baselines in its table."""

import dataclasses

import pytest
from playwright.sync_api import expect

from tests import browser
from xmcap.pages import report
from xmcap.scoring import compare

_SCROLLING = (
  "(boxes) => boxes.filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.id || box.outerHTML)"
)


# The widths of upright and of lying A4 without its margins, in CSS pixels.
@pytest.mark.parametrize("family", browser.FAMILIES)
@pytest.mark.parametrize("width", [703, 1032])
def test_printed_report_tables_fit_the_paper_in_any_font(opened, ours, theirs, width, family):
  worst = {
    name: 1.0 if isinstance(value, float) else value for name, value in ours.health["en"].as_dict().items()
  }
  health = dict.fromkeys(("de", "en"), dataclasses.replace(ours.health["en"], **worst))
  rows = ({"model": "m", "paper": "p", "table": "rows", "en": 0.78},)
  table = dataclasses.replace(ours.table, published=rows, beside={"a_run_with_a_long_name": {"en": 0.5}})
  systems = {"ours": dataclasses.replace(ours, health=health, table=table), "theirs": theirs}
  page = opened(
    systems,
    comparison=compare(systems, resamples=20),
    baselines={name: theirs.table for name in ("most frequent caption", "nearest picture", "english")},
  )
  browser.set_font(page, family)
  page.set_viewport_size({"width": width, "height": 900})
  page.emulate_media(media="print")
  assert page.locator("#health thead th").last.inner_text() == "Over-long, references"
  assert page.locator(".scroll:visible").count() == 5
  assert page.locator(".scroll").evaluate_all(_SCROLLING) == []


def test_printed_report_hides_question_marks_and_keeps_headings(opened, ours, theirs):
  systems = {"ours": ours, "theirs": theirs}
  page = opened(systems, comparison=compare(systems, resamples=20))
  assert page.locator(".about.short:visible").count() > 5
  page.emulate_media(media="print")
  assert page.locator(".about.short:visible").count() == 0
  heads = page.locator(
    ".section-head, .panel-title, #captions .status-line:has(#shown), .sortable thead tr"
  ).all()
  assert {head.evaluate("(e) => getComputedStyle(e).breakAfter") for head in heads} == {"avoid"}


def test_printed_report_omits_captions_not_yet_loaded(opened, ours):
  page = opened({"ours": ours})
  page.emulate_media(media="print")
  expect(page.locator("#captions")).to_be_visible()
  page.locator("#cards").evaluate("(cards) => cards.setAttribute('aria-busy', 'true')")
  expect(page.locator("#captions")).to_be_hidden()


def test_report_captions_are_busy_before_scripts_run(tmp_path, ours):
  report.write_report(tmp_path / "r.html", {"ours": ours})
  text = (tmp_path / "r.html").read_text(encoding="utf-8")
  assert '<div id="cards" class="cards" tabindex="-1" aria-busy="true">' in text


def test_report_shows_published_rows_below_the_table(opened, ours):
  rows = ({"model": "m", "paper": "p", "table": "rows", "en": 0.78},)
  page = opened({"ours": dataclasses.replace(ours, table=dataclasses.replace(ours.table, published=rows))})
  own = f"{ours.table.rows['en']['cider_d']:.3f}"
  assert page.locator("#papers thead th").all_text_contents() == ["", "paper", "table", "CIDEr-D, en"]
  rows = page.locator("#papers tbody tr")
  assert rows.all_inner_texts() == [f"Captions of ours\t\t\t{own}", "m\tp\trows\t0.780"]


def test_report_table_shows_fidelity_and_baseline_intervals(opened, ours):
  table = dataclasses.replace(
    ours.table,
    shares={"fidelity": {"de": 0.957}, "fidelity of references": {"de": 1.0}},
    beside={"x (CIDEr-D)": {"de": 0.25}},
    beside_intervals={"x (CIDEr-D)": {"de": (0.125, 0.5)}},
    scale=100,
  )
  page = opened({"ours": dataclasses.replace(ours, table=table)})
  headings = page.locator("#scores thead th").all_text_contents()
  cells = page.locator("#scores tbody tr:has(code:text-is('de')) > *").all_inner_texts()
  assert cells[headings.index("fidelity references")] == "95.7%100.0%"
  assert cells[headings.index("x (CIDEr-D)")] == "25.012.5 \u2013 50.0"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_scroll_shadow_and_differences_in_view(opened, page, ours, theirs, scheme):
  page.set_viewport_size({"width": 400, "height": 900})
  page.emulate_media(color_scheme=scheme)
  systems = {"ours": ours, "theirs": theirs}
  opened(systems, comparison=compare(systems, resamples=20))
  drawn = "(box) => box.scrollWidth > box.clientWidth ? getComputedStyle(box).backgroundImage : ''"
  assert page.locator("#scores").evaluate(drawn).count("linear-gradient") == 4
  for family in browser.FAMILIES:
    browser.set_font(page, family)
    box = page.locator("#differences-0").bounding_box()
    for drawn in page.locator("#differences-0 .forest").all():
      at = drawn.bounding_box()
      assert at["x"] + at["width"] <= box["x"] + box["width"], family
