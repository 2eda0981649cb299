"""The report in Chromium: filters, sorting, charts, heat map, URL state. The fixture `page` fails on console errors."""

import pytest
from playwright.sync_api import expect

from tests.make import images
from tests.pages.report.values import signed
from xmcap.pages import output, report
from xmcap.pages.report import elements
from xmcap.scoring import compare


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


def test_report_escapes_html_in_captions_and_marks_empty_ones(opened, corpus, ours):
  cards = opened({"ours": ours}).locator(".card")
  assert cards.nth(4).locator(".caption").inner_text() == "empty caption"
  card = cards.nth(5)
  assert card.locator(".caption").text_content() == f"{corpus.hostile} more"
  assert card.locator(".references li").text_content() == corpus.hostile
  assert card.locator("b, script").count() == 0


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


def test_report_without_health_and_slices_has_no_fault_filter_and_heat_map(opened, shown, bare):
  page = opened({"bare": bare})
  shown("30 images in English. Mean CIDEr-D per image")
  assert page.locator("#captions [name=fault]").is_hidden() and page.locator("#heat").count() == 0
  texts = page.evaluate("[0.0004, -0.0006].map((value) => formatDifference(metricNamed('cider_d'), value))")
  assert texts == ["0.000", "\u22120.001"]  # signed unless zero


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
  _choose(page, "metric", "2")  # exact
  assert _keys(page)[0] == "k07" and page.locator(".card .score").first.inner_text() == "100.0%"


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


def test_report_legend_uses_system_names_not_titles(page, tmp_path, ours, theirs):
  output.write(ours, tmp_path / "out", baselines={"theirs": theirs.table})
  page.goto((tmp_path / "out" / "report.html").as_uri())
  names = page.locator("#languages .legend .named").all_inner_texts()
  assert names[:2] == ["these captions", "theirs"]
  assert page.locator("h1").inner_text() == "Captions of ours"


def test_comparison_report_leads_with_the_compared_system(opened, ours, theirs):
  held = compare({"ours": ours, "theirs": theirs}, resamples=20)
  page = opened({"ours": ours, "theirs": theirs}, comparison=held)
  mean, base = (table.means["3 languages"]["cider_d"] for table in (theirs.table, ours.table))
  tile = page.locator(".tile.primary")
  assert tile.locator(".tile-score").inner_text() == f"{mean:.3f}"
  assert set(page.locator(".tile-name .named").all_inner_texts()) == {"theirs"}
  rows = tile.locator("dl div").all_inner_texts()
  assert [row.replace("\n", " ") for row in rows] == [
    f"ours {base:.3f}", f"difference to ours {signed(mean - base)}"
  ]  # fmt: skip
  card = page.locator(".card").nth(3)
  assert card.locator(".system-name").all_inner_texts() == ["theirs", "ours"]


def test_report_tiles_compare_means(opened, ours, theirs):
  page = opened({"ours": ours, "theirs": theirs})
  mean, other = (table.means["3 languages"]["cider_d"] for table in (ours.table, theirs.table))
  assert page.locator(".tile-name").all_inner_texts() == ["CIDEr-D \nours", "CIDEr \nours", "Exact \nours"]
  tile = page.locator(".tile.primary").inner_text()
  assert f"{mean:.3f}" in tile and signed(mean - other) in tile and "95% interval" in tile


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
  assert page.locator("#about-equal dd").is_visible()
  assert "at most 7.5" in page.locator("#about-equal").inner_text()


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


def test_chart_axis_ticks_are_round_and_have_short_labels(page):
  page.add_script_tag(content=elements.resource("drawing.js"))
  for lowest, highest, expected in (
    (0, 9.3, [0, 2, 4, 6, 8, 10]),
    (0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
    (0, 0.031, [0, 0.01, 0.02, 0.03, 0.04]),
    (0, 0.0, [0, 1]),
    (7.2, 9.1, [7, 7.5, 8, 8.5, 9, 9.5]),
    (-3, 5, [-4, -2, 0, 2, 4, 6]),
    (2.0, 2.0, [2, 3]),
  ):
    assert page.evaluate("([a, b]) => ticks(a, b)", [lowest, highest]) == pytest.approx(expected)
  values = [0, 0.25, 0.002, 2.5e-5, 900, 1200, 20000, 2.5e6]
  texts = ["0", "0.25", "2e-3", "2.5e-5", "900", "1.2k", "20k", "2.5M"]
  assert page.evaluate("values => values.map((value) => tickText(value))", values) == texts
  assert page.evaluate("tickText(0.125, true)") == "12.5%"


def test_heat_map_has_a_cell_per_region_and_language(opened, ours, theirs):
  page = opened({"ours": ours, "theirs": theirs})
  cells = page.locator("#heat tbody td")
  assert cells.count() == 4 * 4  # "all" and three regions, three languages and the mean
  cell = page.locator("#heat td[data-row='2'][data-column='1']")
  score = ours.slices.regions["mi"]["de"]["cider_d"]
  assert cell.get_attribute("aria-label") == f"{score:.3f}"
  cell.hover()
  page.locator("#tip").wait_for()
  tip = page.locator("#tip").inner_text().split("\n")
  assert tip[:2] == ["German (de) captions", "region Maori (mi), 10 images"]
  page.locator("[name=heat-view]").select_option("pair-0")
  difference = score - theirs.slices.regions["mi"]["de"]["cider_d"]
  assert cell.get_attribute("aria-label") == signed(difference)


def test_comparison_heat_map_shows_system_minus_baseline(opened, ours, theirs):
  comparison = compare({"ours": ours, "theirs": theirs}, resamples=20)
  page = opened({"ours": ours, "theirs": theirs}, comparison=comparison)
  page.locator("[name=heat-view]").select_option(label="difference of theirs to ours")
  scores = [result.slices.regions["mi"]["de"]["cider_d"] for result in (theirs, ours)]
  cell = page.locator("#heat td[data-row='2'][data-column='1']")
  text = signed(scores[0] - scores[1])
  assert cell.get_attribute("aria-label") == text
  cell.hover()
  page.locator("#tip", has_text=f"{text} theirs against ours").wait_for()


def test_heat_map_keyboard_navigation_leads_to_captions(opened, shown, ours):
  page = opened({"ours": ours})
  page.locator("#heat td[tabindex='0']").focus()
  for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
    page.keyboard.press(key)
  focused = "[document.activeElement.dataset.row, document.activeElement.dataset.column]"
  assert page.evaluate(focused) == ["2", "1"]
  assert "region Maori (mi)" in page.locator("#tip").inner_text()
  page.keyboard.press("Enter")
  shown("10 of 30 images in German")


def test_report_differences_chart_metric_is_selectable(opened, ours, theirs):
  comparison = compare({"ours": ours, "theirs": theirs}, ["cider", "cider_d"], resamples=20)
  page = opened({"ours": ours, "theirs": theirs}, comparison=comparison)
  page.locator("[name=difference-pair]").select_option("1")
  title = page.locator("#differences .panel:visible .panel-title").inner_text()
  assert title.startswith("CIDEr-D: theirs minus ours.")


@pytest.mark.parametrize("mode", ["embed", "link"])
def test_report_shows_images_from_disk(opened, tmp_path, ours, mode):
  names = [f"k{i:02}.jpg" for i in range(30) if i not in (1, 2)]
  folder = images.files(tmp_path / "pictures 100%", *names, size=(64, 48))
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


def test_truncated_report_file_shows_an_error(page, tmp_path, ours):
  report.write_report(tmp_path / "r.html", {"ours": ours})
  text = (tmp_path / "r.html").read_text(encoding="utf-8")
  place = text.index('id="captions-en">') + 400
  (tmp_path / "torn.html").write_text(text[:place], encoding="utf-8")
  page.goto((tmp_path / "torn.html").as_uri())
  page.locator("#shown", has_text="could not be decompressed").wait_for()
  assert page.errors
  page.errors.clear()


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
