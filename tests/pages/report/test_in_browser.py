"""The report in Chromium: filters, sorting, charts, heat map, URL state. The fixture `page` fails on console errors."""

import dataclasses

import pytest
from PIL import Image
from playwright.sync_api import expect

from xmcap.pages import output, report
from xmcap.pages.report import elements
from xmcap.scoring import baselines, compare


def _choose(page, name, value):
  """Chooses from a list, and waits until the captions are shown, after which the address says so."""
  page.locator(f"#captions [name={name}]").select_option(value)
  page.wait_for_url(lambda address: f"{name}={value}" in address.partition("#")[2])


def _keys(page):
  return page.locator("#cards .image-key").all_inner_texts()


def _scores(page):
  texts = page.locator("#cards .system:first-child .score").all_inner_texts()
  return [float(text.split()[0]) for text in texts]


@pytest.fixture
def axes(page):
  """A page with the functions of axes alone."""
  page.add_script_tag(content=elements.resource("drawing.js"))
  return page


@pytest.fixture
def shown(page):
  """Waits for the line that says what is shown to hold a text."""

  def run(text):
    page.locator("#shown", has_text=text).wait_for()

  return run


def test_report_captions_pagination(opened, shown, ours):
  page = opened({"ours": ours})
  assert _keys(page) == [f"k{i:02}" for i in range(24)]
  page.locator(".pager >> text=Next").first.click()
  shown("Showing 25 to 30.")
  assert _keys(page) == [f"k{i:02}" for i in range(24, 30)]
  assert "page=2" in page.url


def test_report_escapes_html_in_captions(opened, corpus, ours):
  card = opened({"ours": ours}).locator(".card").nth(5)
  assert card.locator(".caption").text_content() == f"{corpus.hostile} more"
  assert card.locator(".references li").text_content() == corpus.hostile
  assert card.locator("b, script").count() == 0


def test_report_marks_an_empty_caption(opened, ours):
  assert opened({"ours": ours}).locator(".card").nth(4).locator(".caption").inner_text() == "empty caption"


def test_report_filters_captions_by_fault(opened, shown, ours):
  page = opened({"ours": ours})
  _choose(page, "fault", "empty")
  shown("1 of 30 images in English")
  badges = page.get_by_role("list", name="Faults").get_by_role("button")
  assert _keys(page) == ["k04"] and badges.all_inner_texts() == ["Empty"]
  page.locator("#captions [name=fault]").select_option("")
  shown("30 images in English")
  assert "fault" not in page.url
  page.locator(".faults button", has_text="Empty").click()
  shown("1 of 30 images in English")
  assert page.locator("#captions [name=fault]").evaluate("(select) => select === document.activeElement")


def test_report_without_health_has_no_fault_filter(opened, bare):
  assert opened({"bare": bare}).locator("#captions [name=fault]").is_hidden()


def test_report_switches_language_and_text_direction(opened, shown, corpus, ours):
  page = opened({"ours": ours})
  _choose(page, "language", "ar")
  shown("27 images in Arabic")
  caption = page.locator(".card .caption").first
  assert caption.inner_text() == corpus.ours["k00"]["ar"]
  assert (caption.get_attribute("dir"), caption.get_attribute("lang")) == ("rtl", "ar")
  assert page.locator(".card .references li").first.get_attribute("dir") == "rtl"


def test_report_sorts_captions_by_lowest_and_highest_score(opened, ours):
  page = opened({"ours": ours})
  _choose(page, "order", "worst")
  assert _scores(page) == sorted(_scores(page)) and _scores(page)[0] == 0
  _choose(page, "order", "best")
  assert _scores(page) == sorted(_scores(page), reverse=True)
  assert _scores(page)[0] == pytest.approx(max(ours.statistics["en"].image_scores("cider_d")), abs=6e-4)


def test_report_shows_the_score_of_the_selected_metric(opened, ours):
  page = opened({"ours": ours})
  _choose(page, "metric", "2")
  assert page.locator(".card .score").nth(7).inner_text() == "100.0%"


def test_report_searches_captions_by_text_and_region(opened, shown, ours):
  page = opened({"ours": ours})
  page.locator("#captions [name=text]").fill("DOG beside CAT")
  shown("11 of 30 images in English")
  assert page.evaluate("CSS.highlights.get('found').size") >= 11
  _choose(page, "region", "mi")
  shown("3 of 30 images in English")
  assert _keys(page) == ["k14", "k20", "k29"]
  assert page.locator(".card .region").all_inner_texts() == ["region: Maori"] * 3
  page.locator("#captions [name=text]").fill("K20")
  shown("1 of 30 images")
  page.locator("#captions [name=text]").fill("zebra")
  shown("None of 30 images in English.")


def test_report_shows_two_systems_side_by_side(opened, corpus, ours, theirs):
  page = opened({"ours": ours, "theirs": theirs}, "#order=file")
  card = page.locator(".card").nth(3)
  assert card.locator(".system-name").all_inner_texts() == ["ours", "theirs"]
  assert card.locator(".caption").all_inner_texts() == [corpus.ours["k03"]["en"], corpus.theirs["k03"]["en"]]
  ours_at, theirs_at = (card.locator(".system").nth(i).bounding_box() for i in range(2))
  assert ours_at["y"] == theirs_at["y"] and ours_at["x"] + ours_at["width"] < theirs_at["x"]


def test_report_sorts_captions_by_difference_of_two_systems(opened, ours, theirs):
  page = opened({"ours": ours, "theirs": theirs})
  lead = dict(zip(ours.statistics["en"].keys, ours.statistics["en"].image_scores("cider_d"), strict=True))
  for key, score in zip(
    theirs.statistics["en"].keys, theirs.statistics["en"].image_scores("cider_d"), strict=True
  ):
    lead[key] -= score
  assert _keys(page)[0] == max(lead, key=lambda key: abs(lead[key]))
  _choose(page, "order", "ahead-1")
  assert _keys(page)[0] == max(lead, key=lead.get)
  _choose(page, "order", "behind-1")
  assert _keys(page)[0] == min(lead, key=lead.get)


def test_report_marks_words_that_are_in_references(opened, corpus, ours):
  page = opened({"ours": ours})
  page.locator("#captions [name=words]").check()
  card = page.locator(".card").nth(1)
  card.locator(".word").first.wait_for()
  assert card.locator(".caption .word").all_inner_texts() == ["cat", "beside", "house"]
  assert card.locator(".caption .word.shared").count() == 3
  assert page.locator(".card").nth(4).locator(".caption").inner_text() == "empty caption"


def test_report_url_fragment_keeps_the_view(opened, shown, ours):
  page = opened({"ours": ours}, "#language=de&order=best&page=2&words=1")
  shown("30 images in German")
  assert len(_keys(page)) == 6 and page.locator(".card .word").count() > 6
  assert page.locator("#captions [name=order]").input_value() == "best"
  page.reload()
  shown("30 images in German")
  page.evaluate("location.hash = 'language=xx&page=-3&order=none&region=zz'")
  shown("30 images in English")


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


def test_report_legend_uses_system_names_not_titles(page, tmp_path, ours, theirs):
  output.write(ours, tmp_path / "out", baselines={"theirs": theirs.table})
  page.goto((tmp_path / "out" / "report.html").as_uri())
  names = page.locator("#languages .legend .named").all_inner_texts()
  assert names[:2] == ["these captions", "theirs"]
  assert page.locator("h1").inner_text() == "Captions of ours"


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
  assert [_cells(page, "de")[place] for place in (4, 6, 8)] == 3 * [_signed(own - other)]


def test_comparison_report_leads_with_the_compared_system(opened, ours, theirs):
  held = compare({"ours": ours, "theirs": theirs}, resamples=20)
  page = opened({"ours": ours, "theirs": theirs}, comparison=held)
  mean, base = (table.means["3 languages"]["cider_d"] for table in (theirs.table, ours.table))
  tile = page.locator(".tile.primary")
  assert tile.locator(".tile-score").inner_text() == f"{mean:.3f}"
  assert set(page.locator(".tile-name .named").all_inner_texts()) == {"theirs"}
  rows = tile.locator("dl div").all_inner_texts()
  assert [row.replace("\n", " ") for row in rows] == [
    f"ours {base:.3f}", f"difference to ours {_signed(mean - base)}"
  ]  # fmt: skip
  card = page.locator(".card").nth(3)
  assert card.locator(".system-name").all_inner_texts() == ["theirs", "ours"]


def _signed(difference):
  return f"{difference:+.3f}".replace("-", "\u2212")


def test_report_tiles_compare_means(opened, ours, theirs):
  page = opened({"ours": ours, "theirs": theirs})
  mean, other = (table.means["3 languages"]["cider_d"] for table in (ours.table, theirs.table))
  assert page.locator(".tile-name").all_inner_texts() == ["CIDEr-D \nours", "CIDEr \nours", "Exact \nours"]
  tile = page.locator(".tile.primary").inner_text()
  assert f"{mean:.3f}" in tile and _signed(mean - other) in tile and "95% interval" in tile


def test_report_differences_are_signed_unless_zero(opened, bare):
  page = opened({"bare": bare})
  texts = page.evaluate("[0.0004, -0.0006].map((value) => formatDifference(metricNamed('cider_d'), value))")
  assert texts == ["0.000", "\u22120.001"]


def _cells(page, code):
  return page.locator(f"#scores tbody tr:has(code:text-is('{code}')) > *").all_inner_texts()


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
  assert cells[4] == _signed(own - other)
  assert (cells[5], _cells(page, "de")[5]) == ("0.250", "\u2013")
  assert page.locator("#scores tfoot tr").last.inner_text().startswith("Mean, 3 languages")
  page.locator("[name=intervals]").uncheck()
  assert _cells(page, "en")[2] == f"{own:.3f}"


def test_comparison_report_differences_are_system_minus_baseline(opened, ours, theirs):
  held = compare({"ours": ours, "theirs": theirs}, ["cider_d"], resamples=50)
  page = opened({"ours": ours, "theirs": theirs}, comparison=held)
  row = next(row for row in held.rows if row.name == "de")
  expected = _signed(row.difference)
  assert page.locator("#scores thead th").all_text_contents()[3] == "difference to ours"
  assert _cells(page, "de")[3] == expected
  cells = page.locator("#differences-0 tr:has(code:text-is('de')) > *").all_inner_texts()
  assert cells[2] == expected
  assert cells[4] == " to ".join(_signed(end) for end in (row.low, row.high))
  assert page.locator("#differences-0 .forest circle").count() == 4  # three languages and their mean


def test_report_shows_health_and_group_means(opened, ours):
  page = opened({"ours": ours})
  assert page.locator("#health-0 tbody tr").count() == 3
  page.locator("#regions summary").click()
  groups = page.locator("#group-means tbody").inner_text()
  assert "Arabic script (Arab)" in groups and "Languages used most on the web" in groups


def test_report_every_number_links_to_its_explanation(opened, ours):
  page = opened({"ours": ours})
  links = page.locator("a.about").evaluate_all("all => all.map((one) => one.hash.slice(1))")
  assert {"about-cider", "about-cider_d", "about-exact", "about-groups", "about-equal"} <= set(links)
  assert all(page.locator(f"[id='{name}'] dd").count() == 1 for name in set(links))
  page.locator("#health a.about").first.click()
  assert page.locator("#health dd").first.is_visible()


def test_report_explains_scores_of_equal_captions_below_10(opened, ours):
  page = opened({"ours": ours})
  page.locator("[name=text]").fill("k07")
  page.locator("#shown:has-text('1')").wait_for()
  page.locator("#cards a.about").click()
  assert (
    page.locator("#about-equal dd").is_visible()
    and "at most 7.5" in page.locator("#about-equal").inner_text()
  )


def test_report_chart_changes_metric_and_order(opened, ours, theirs):
  page = opened({"ours": ours, "theirs": theirs})
  columns = page.locator("#chart .column")
  assert columns.count() == 3 and page.locator("#chart .column .mark").count() == 3
  assert page.locator("#languages .legend .key svg").count() == 2
  low, high = ours.table.intervals["en"]["cider_d"]
  tip = f"English\nCIDEr-D of ours {ours.table.rows['en']['cider_d']:.3f} [{low:.3f}, {high:.3f}]"
  assert columns.nth(2).get_attribute("data-tip").startswith(tip)
  page.locator("#languages label", has_text="Exact").click()
  assert page.locator("#chart svg").get_attribute("data-metric") == "exact"
  assert page.locator("#chart .tick").last.text_content() == "12.5%"
  page.locator("#languages label", has_text="Score").click()
  # English, the only language with exact captions, is the first column from the left.
  assert columns.nth(2).evaluate("e => e.style.transform") == "translateX(46px)"
  page.locator("#languages label", has_text="Code").click()
  assert columns.nth(0).evaluate("e => e.style.transform") == "translateX(46px)"


@pytest.mark.parametrize(
  "lowest, highest, expected",
  [
    (0, 9.3, [0, 2, 4, 6, 8, 10]),
    (0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
    (0, 0.031, [0, 0.01, 0.02, 0.03, 0.04]),
    (0, 0.0, [0, 1]),
    (7.2, 9.1, [7, 7.5, 8, 8.5, 9, 9.5]),
    (-3, 5, [-4, -2, 0, 2, 4, 6]),
    (2.0, 2.0, [2, 3]),
  ],
)
def test_chart_axis_ticks_are_round_and_cover_the_range(axes, lowest, highest, expected):
  assert axes.evaluate("([a, b]) => ticks(a, b)", [lowest, highest]) == pytest.approx(expected)


def test_chart_tick_labels_are_short(axes):
  values = [0, 0.25, 0.002, 2.5e-5, 900, 1200, 20000, 2.5e6]
  texts = ["0", "0.25", "2e-3", "2.5e-5", "900", "1.2k", "20k", "2.5M"]
  assert axes.evaluate("values => values.map((value) => tickText(value))", values) == texts
  assert axes.evaluate("tickText(0.125, true)") == "12.5%"


def test_heat_map_has_a_cell_per_region_and_language(opened, ours, theirs):
  page = opened({"ours": ours, "theirs": theirs})
  cells = page.locator("#heat tbody td")
  assert cells.count() == 4 * 4  # "all" and three regions, three languages and the mean
  cell = page.locator("#heat td[data-row='2'][data-column='1']")
  score = ours.slices.regions["mi"]["de"]["cider_d"]
  assert cell.get_attribute("aria-label") == f"{score:.3f}"
  cell.hover()
  page.locator("#tip").wait_for()
  assert page.locator("#tip").inner_text().split("\n")[:2] == [
    "German (de) captions",
    "region Maori (mi), 10 images",
  ]
  page.locator("[name=heat-view]").select_option("pair-0")
  difference = score - theirs.slices.regions["mi"]["de"]["cider_d"]
  assert cell.get_attribute("aria-label") == f"{difference:+.3f}".replace("-", "\u2212")


def test_comparison_heat_map_shows_system_minus_baseline(opened, ours, theirs):
  comparison = compare({"ours": ours, "theirs": theirs}, resamples=20)
  page = opened({"ours": ours, "theirs": theirs}, comparison=comparison)
  page.locator("[name=heat-view]").select_option(label="difference of theirs to ours")
  scores = [result.slices.regions["mi"]["de"]["cider_d"] for result in (theirs, ours)]
  cell = page.locator("#heat td[data-row='2'][data-column='1']")
  text = f"{scores[0] - scores[1]:+.3f}".replace("-", "\u2212")
  assert cell.get_attribute("aria-label") == text
  cell.hover()
  page.locator("#tip", has_text=f"{text} theirs against ours").wait_for()


def test_heat_map_keyboard_navigation_leads_to_captions(opened, shown, ours):
  page = opened({"ours": ours})
  page.locator("#heat td[tabindex='0']").focus()
  for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
    page.keyboard.press(key)
  assert page.evaluate("[document.activeElement.dataset.row, document.activeElement.dataset.column]") == [
    "2",
    "1",
  ]
  assert "region Maori (mi)" in page.locator("#tip").inner_text()
  page.keyboard.press("Enter")
  shown("10 of 30 images in German")


def test_report_differences_chart_metric_is_selectable(opened, ours, theirs):
  comparison = compare({"ours": ours, "theirs": theirs}, ["cider", "cider_d"], resamples=20)
  page = opened({"ours": ours, "theirs": theirs}, comparison=comparison)
  page.locator("[name=difference-pair]").select_option("1")
  assert (
    page.locator("#differences .panel:visible .panel-title")
    .inner_text()
    .startswith("CIDEr-D: theirs minus ours.")
  )


@pytest.mark.parametrize("mode", ["embed", "link"])
def test_report_shows_images_from_disk(opened, tmp_path, ours, mode):
  folder = tmp_path / "pictures 100%"
  folder.mkdir()
  for i in range(30):
    if i not in (1, 2):
      Image.new("RGB", (64, 48), (8 * i, 90, 90)).save(folder / f"k{i:02}.jpg")
  (folder / "k01.jpg").write_bytes(b"no picture")
  page = opened({"ours": ours}, images_dir=folder, pictures=mode)
  pictures = page.locator("#cards img")
  expect(pictures).to_have_count(22)
  for i in range(22):
    expect(pictures.nth(i)).to_have_js_property("naturalWidth", 64)
  assert page.locator(".card .picture").nth(2).inner_text() == "no picture"
  said = page.locator(".card .picture").nth(1).inner_text()
  assert said == ("no picture" if mode == "embed" else "picture not found")
  assert "No readable picture in the folder" in page.locator("#captions .note").inner_text()


def test_report_without_slices_has_no_heat_map(opened, shown, bare):
  page = opened({"bare": bare})
  shown("30 images in English. Mean CIDEr-D per image")
  assert page.locator("#heat").count() == 0


def test_truncated_report_file_shows_an_error(page, tmp_path, ours):
  report.write_report(tmp_path / "r.html", {"ours": ours})
  text = (tmp_path / "r.html").read_text(encoding="utf-8")
  place = text.index('id="captions-en">') + 400
  (tmp_path / "torn.html").write_text(text[:place], encoding="utf-8")
  page.goto((tmp_path / "torn.html").as_uri())
  page.locator("#shown", has_text="could not be decompressed").wait_for()
  assert page.errors
  page.errors.clear()


def test_report_fits_a_phone_without_horizontal_scrolling(opened, page, ours, theirs):
  page.set_viewport_size({"width": 360, "height": 740})
  opened({"ours": ours, "theirs": theirs})
  assert page.evaluate("document.documentElement.scrollWidth") <= 360


def _cut(page):
  """The boxes that hide a part of their content below."""
  return page.evaluate(
    "[...document.querySelectorAll('.scroll')].filter((x) => x.scrollHeight > x.clientHeight + 1).length"
  )


@pytest.mark.parametrize("width", [1300, 400])
def test_report_screenshot_has_all_rows_in_a_low_window(opened, page, ours, theirs, width):
  page.set_viewport_size({"width": width, "height": 300})
  comparison = compare({"theirs": theirs, "ours": ours}, resamples=20)
  opened({"theirs": theirs, "ours": ours}, comparison=comparison)
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


def test_report_shows_selected_languages_side_by_side(opened, corpus, ours):
  page = opened({"ours": ours}, "#language=en&also=de,xx,ar")
  card = page.locator(".card").nth(1)
  assert card.locator(".language-name").all_inner_texts() == ["English", "German", "Arabic"]
  captions = card.locator(".caption")
  assert captions.all_inner_texts() == [corpus.ours["k01"][code] for code in ("en", "de", "ar")]
  assert captions.nth(2).get_attribute("lang") == "ar" and captions.nth(2).get_attribute("dir") == "rtl"
  assert card.locator(".references").nth(1).locator("li").all_inner_texts() == corpus.references["k01"]["de"]
  page.locator(".also summary").click()
  page.locator("[name=also][value=ar]").uncheck()
  expect(card.locator(".in-language")).to_have_count(2)
  assert "also=de&" in page.url
  page.locator("[data-also='']").click()
  expect(card.locator(".in-language")).to_have_count(1)
  expect(card.locator(".language-name")).to_be_hidden()
  page.locator("[data-also=all]").click()
  expect(card.locator(".in-language")).to_have_count(3)


def test_report_image_without_a_caption_in_an_added_language(opened, page, shown, ours):
  opened({"ours": ours}, "#language=en&also=ar&page=2")
  shown("Showing 25 to 30.")
  assert page.locator(".card").last.locator(".language-name").all_inner_texts() == ["English"]
