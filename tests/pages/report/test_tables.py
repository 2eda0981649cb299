"""The report's tables in the browser: rows, differences and intervals; and the report in print."""

import dataclasses

from playwright.sync_api import expect

from tests import browser
from tests.pages.report.values import signed
from xmcap.pages import output, report
from xmcap.scoring import baselines, compare

_SCROLLING = (
  "(boxes) => boxes.filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.id || box.outerHTML)"
)


def test_printed_report_tables_fit_the_paper_in_any_font(opened, ours, theirs):
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
  page.emulate_media(media="print")
  assert page.locator("#health thead th").last.inner_text() == "Over-long, references"
  assert page.locator(".scroll:visible").count() == 5
  for family in browser.FAMILIES:
    browser.set_font(page, family)
    for width in (703, 1032):  # upright and lying A4 without its margins, in CSS pixels
      page.set_viewport_size({"width": width, "height": 900})
      assert page.locator(".scroll").evaluate_all(_SCROLLING) == [], (family, width)


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


def test_report_scroll_shadow_and_differences_in_view(opened, page, ours, theirs):
  page.set_viewport_size({"width": 400, "height": 900})
  systems = {"ours": ours, "theirs": theirs}
  opened(systems, comparison=compare(systems, resamples=20))
  drawn = "(box) => box.scrollWidth > box.clientWidth ? getComputedStyle(box).backgroundImage : ''"
  for scheme in ("light", "dark"):
    page.emulate_media(color_scheme=scheme)
    assert page.locator("#scores").evaluate(drawn).count("linear-gradient") == 4
  for family in browser.FAMILIES:
    browser.set_font(page, family)
    box = page.locator("#differences-0").bounding_box()
    for drawn in page.locator("#differences-0 .forest").all():
      at = drawn.bounding_box()
      assert at["x"] + at["width"] <= box["x"] + box["width"], family


def _cells(page, code):
  return page.locator(f"#scores tbody tr:has(code:text-is('{code}')) > *").all_inner_texts()


def test_report_table_is_sorted_by_its_headings(opened, ours):
  page = opened({"ours": ours})
  codes = page.locator("#scores tbody code")
  heading = page.locator("#scores th", has_text="CIDEr-D")
  heading.locator("button").press("Enter")
  rows = ours.table.rows
  assert codes.all_inner_texts() == sorted(rows, key=lambda code: -rows[code]["cider_d"])
  assert heading.get_attribute("aria-sort") == "descending"
  page.locator("#scores th", has_text="Language").locator("button").click()
  assert codes.all_inner_texts() == ["ar", "en", "de"]  # Arabic, English, German


def test_report_baseline_appears_once_with_its_difference(page, tmp_path, ours, theirs):
  headings = {name: baselines.heading(name, "cider_d") for name in ("first", "second", "other")}
  column = {code: row["cider_d"] for code, row in theirs.table.rows.items()}
  held = baselines.with_beside(ours, {heading: column for heading in headings.values()})
  output.write(held, tmp_path / "out", baselines={"first": theirs.table, "second": theirs.table})
  page.goto((tmp_path / "out" / "report.html").as_uri())
  assert page.locator("#scores thead th").all_text_contents()[2:9] == [
    "these captions CIDEr-D", "first CIDEr-D", "difference to first", "second CIDEr-D", "difference to second",
    "other (CIDEr-D)", "difference to other (CIDEr-D)",
  ]  # fmt: skip
  own, other = (table.rows["de"]["cider_d"] for table in (ours.table, theirs.table))
  assert [_cells(page, "de")[place] for place in (4, 6, 8)] == 3 * [signed(own - other)]


def test_report_table_shows_intervals_and_differences(opened, ours, theirs):
  first = dataclasses.replace(
    ours, table=dataclasses.replace(ours.table, beside={"BB (paper)": {"en": 0.25}})
  )
  page = opened({"ours": first, "theirs": theirs})
  headings = page.locator("#scores thead th").all_text_contents()
  assert headings[2:6] == [
    "ours CIDEr-D", "theirs CIDEr-D", "difference to theirs", "BB (paper)",
  ]  # fmt: skip
  low, high = ours.table.intervals["en"]["cider_d"]
  own, other = (table.rows["en"]["cider_d"] for table in (ours.table, theirs.table))
  cells = _cells(page, "en")
  assert cells[2] == f"{own:.3f}{low:.3f} \u2013 {high:.3f}"
  assert cells[4] == signed(own - other)
  assert (cells[5], _cells(page, "de")[5]) == ("0.250", "\u2013")
  assert page.locator("#scores tfoot tr").last.inner_text().startswith("Mean, 3 languages")
  page.locator("[name=intervals]").uncheck()
  assert _cells(page, "en")[2] == f"{own:.3f}"


def test_comparison_report_differences_are_system_minus_baseline(opened, ours, theirs):
  held = compare({"ours": ours, "theirs": theirs}, ["cider_d"], resamples=50)
  page = opened({"ours": ours, "theirs": theirs}, comparison=held)
  row = next(row for row in held.rows if row.name == "de")
  expected = signed(row.difference)
  assert page.locator("#scores thead th").all_text_contents()[3] == "difference to ours"
  assert _cells(page, "de")[3] == expected
  cells = page.locator("#differences-0 tr:has(code:text-is('de')) > *").all_inner_texts()
  assert cells[2] == expected
  assert cells[4] == " to ".join(signed(end) for end in (row.low, row.high))
  assert page.locator("#differences-0 .forest circle").count() == 4  # three languages and their mean


def _cut(page):
  """The boxes that hide a part of their content below."""
  return page.evaluate(
    "[...document.querySelectorAll('.scroll')].filter((x) => x.scrollHeight > x.clientHeight + 1).length"
  )


def test_report_screenshot_has_all_rows_in_a_low_window(opened, page, ours, theirs):
  comparison = compare({"theirs": theirs, "ours": ours}, resamples=20)
  opened({"theirs": theirs, "ours": ours}, comparison=comparison)
  for width in (1300, 400):
    page.set_viewport_size({"width": width, "height": 300})
    assert _cut(page) == 0
    foot = page.locator("#scores tfoot tr").last
    assert foot.evaluate("(row) => getComputedStyle(row.cells[0]).bottom") == "auto"


def test_report_print_has_all_rows_and_pairs(opened, page, corpus, ours, theirs):
  systems = {"theirs": theirs, "ours": ours, "again": ours}
  opened(systems, comparison=compare(systems, resamples=20))
  page.emulate_media(media="print")
  assert _cut(page) == 0
  expect(page.locator("#differences-0")).to_be_visible()
  expect(page.locator("#differences-1")).to_be_visible()
  expect(page.locator("#captions .controls")).to_be_hidden()
  assert (
    page.locator("#scores thead th").first.evaluate("(cell) => getComputedStyle(cell).position") == "static"
  )
