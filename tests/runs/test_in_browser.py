"""The page in a real Chromium. The fixture `page` fails on errors in the console."""

import re

import pytest
from playwright.sync_api import expect

from tests.runs import synthetic
from xmcap.runs import history
from xmcap.runs import page as page_lib


@pytest.fixture(scope="module")
def written(tmp_path_factory):
  folder = tmp_path_factory.mktemp("runs")
  now = synthetic.four(folder)
  runs, _ = history.read_runs([str(folder)], now)
  page_lib.write(folder / "page.html", runs, ["cider_d", "validation/loss"])
  return folder / "page.html"


@pytest.fixture
def opened(page, written):
  page.set_viewport_size({"width": 1300, "height": 900})
  page.goto(written.as_uri())
  page.locator("[data-curve^='param_norm/vit'] svg").wait_for()
  return page


LOSS = "[data-curve='train/loss']"


def tick_texts(page, figure):
  return page.locator(f"{figure} .tick").all_text_contents()


def test_each_chart_is_drawn(opened):
  assert opened.locator("figure").count() == 3 + 2 + 7 + 4 + 15
  assert opened.locator(f"{LOSS} .run").count() == 4
  label = opened.locator(f"{LOSS} svg").get_attribute("aria-label")
  assert label.startswith("Loss mean since the last report. Last values: bb-cc3m-k1 ")
  assert opened.locator("#norms h3").all_inner_texts() == [
    "decoder", "encoder", "projection", "token_embedder", "vit",
  ]  # fmt: skip
  assert opened.locator("#table .line-key svg .mark").count() == 4


def test_what_was_not_finite_is_a_gap(opened):
  path = opened.evaluate("path([1, 2, 3, 4], [1, null, 3, 4], (x) => x, (y) => y)")
  assert path == "M1.0 1.0M3.0 3.0L4.0 4.0"


def test_a_run_that_is_switched_off_leaves_and_the_axis_fits_the_others(opened):
  validation = "[data-curve='eval/validation/loss']"
  assert float(tick_texts(opened, validation)[-1]) > 6
  opened.locator("[name=run]").nth(2).uncheck()
  assert opened.locator(f"{LOSS} .run").count() == 3
  assert opened.locator("[data-shares]:visible").count() == 3
  assert float(tick_texts(opened, validation)[-1]) < 4
  for number in (0, 1, 3):
    opened.locator("[name=run]").nth(number).uncheck()
  assert opened.locator(f"{LOSS} .empty").text_content() == "no values of these runs"
  opened.locator("[name=run]").nth(2).check()
  assert opened.locator(f"{LOSS} .run").count() == 1


def test_the_loss_on_a_logarithmic_axis(opened):
  opened.locator("#learning label", has_text="Log").click()
  assert tick_texts(opened, LOSS) == ["2", "5", "10"]
  assert tick_texts(opened, "[data-curve='train/accuracy']")[0] == "0%"


def test_smoothing_keeps_the_raw_line_behind(opened):
  assert opened.locator(f"{LOSS} .raw").count() == 0
  opened.locator("#switches label", has_text="Much").click()
  assert opened.locator(f"{LOSS} .raw").count() == 4
  # The average of a constant is that constant from its first value on.
  assert opened.evaluate("smooth([2, 2, null, 2], 0.9)") == pytest.approx([2, 2, None, 2])


def test_values_under_the_pointer(opened):
  box = opened.locator(f"{LOSS} .drawn")
  box.scroll_into_view_if_needed()
  box.hover(position={"x": 300, "y": 80})
  text = opened.locator("#tip").inner_text()
  assert text.startswith("step ") and "bb-cc3m-k1" in text and "bb-cc3m-k8" in text
  # That run has ended long before.
  assert "bb-lr1e-3" not in text
  assert opened.locator(f"{LOSS} .cross").count() == 1
  opened.mouse.wheel(0, 40)  # a page that scrolls takes the values away
  opened.locator("#tip").wait_for(state="hidden")
  opened.locator("h1").hover()
  assert opened.locator("#tip").is_hidden() and opened.locator(f"{LOSS} .cross").count() == 0


def test_the_keys_walk_along_a_chart(opened):
  opened.locator(f"{LOSS} svg").focus()
  # The focus scrolls, which takes values away: two frames later that is over.
  opened.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
  opened.keyboard.press("ArrowRight")
  assert opened.locator("#tip").inner_text().startswith("step 100\n")
  opened.keyboard.press("ArrowRight")
  assert opened.locator("#tip").inner_text().startswith("step 200\n")


def test_shares_under_the_pointer(opened):
  box = opened.locator("[data-shares='0'] .drawn")
  box.scroll_into_view_if_needed()
  box.hover(position={"x": 200, "y": 60})
  text = opened.locator("#tip").inner_text()
  assert "waiting for data" in text and "training" in text and "%" in text


def test_one_language_can_be_chosen(opened, written):
  opened.locator("[name=language]").select_option("th")
  run, _ = history.read_runs([str(written.parent / "bb-cc3m-k1")])
  label = opened.locator("[data-curve='eval/cider_d'] svg").get_attribute("aria-label")
  assert f"bb-cc3m-k1 {run[0].last('eval/cider_d/th'):.4f}" in label
  assert opened.locator("[data-curve='eval/validation/loss'] .empty").count() == 1


def test_runs_can_be_laid_over_each_other_by_time(opened):
  opened.locator("#switches label", has_text="Hours").click()
  assert opened.locator(f"{LOSS} .axis").text_content() == "hours of running"
  # 20,000 steps of 0.53 s, and the evaluations.
  assert 3 < float(opened.locator(f"{LOSS} .step-tick").last.text_content()) < 6


def test_headings_sort_the_table(opened):
  opened.locator("#table th", has_text="captions/s").locator("button").click()
  assert opened.locator("#table tbody bdi").all_inner_texts()[0] == "bb-cc3m-k8"


def test_a_phone_shows_everything_without_scrolling_the_page_sideways(opened):
  opened.set_viewport_size({"width": 360, "height": 740})
  # The page draws anew two frames after it was resized.
  expect(opened.locator(f"{LOSS} svg")).to_have_attribute("viewBox", re.compile(r"^0 0 [23]\d\d "))
  assert opened.evaluate("document.documentElement.scrollWidth") <= 360
