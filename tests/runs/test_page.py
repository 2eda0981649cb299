"""The page as it is written; test_in_browser.py has it as a reader uses it."""

import json
import re

import pytest

from tests import policies
from tests.runs import synthetic
from tests.runs.test_summary import counted
from xmcap.runs import history, page


@pytest.fixture(scope="module")
def written(tmp_path_factory):
  folder = tmp_path_factory.mktemp("runs")
  now = synthetic.four(folder)
  runs, _ = history.read_runs([str(folder)], now)
  page.write(folder / "page.html", runs, ["cider_d", "validation/loss"], ["old: no metrics.jsonl"])
  page.write(folder / "again.html", runs, ["cider_d", "validation/loss"], ["old: no metrics.jsonl"])
  return folder


def test_the_same_runs_give_the_same_bytes(written):
  assert (written / "page.html").read_bytes() == (written / "again.html").read_bytes()


def test_nothing_is_loaded_from_anywhere(written):
  text = (written / "page.html").read_text()
  assert f"content=\"default-src 'none'; img-src 'none'; {policies.by_hash(text)}\"" in text
  assert not re.findall(r'(?:src|href)="(?!#)', text) and "@import" not in text and "url(" not in text


def test_the_page_holds_the_table_and_what_the_script_draws(written):
  text = (written / "page.html").read_text()
  assert "old: no metrics.jsonl" in text and "<b>bb-lr1e-3</b> failed: step 7200" in text
  (data,) = re.findall(r'id="runs-data">(.*?)</script>', text, flags=re.S)
  data = json.loads(data)
  assert data["table"]["rows"][0][2] == {"text": "20,000", "value": 20000}
  assert [len(charts) for charts in data["charts"].values()] == [3, 2, 7]
  assert len(data["norms"]) == 5 and len(data["shares"]) == 4
  assert [run for run, _, _ in data["curves"]["train/loss"]] == [0, 1, 2, 3]


def test_names_are_text_whatever_they_hold(tmp_path):
  name = "<img src=x onerror=alert(1)> \"'&"
  synthetic.captioner(tmp_path / name, 0, 300, 300, ends="failed")
  runs, _ = history.read_runs([str(tmp_path / name)], synthetic.START)
  runs[0].reason = "</script><b>"
  page.write(tmp_path / "page.html", runs, [])
  text = (tmp_path / "page.html").read_text()
  assert "<img" not in text and "</script><b>" not in text


def test_a_run_that_has_only_started_is_shown(tmp_path):
  synthetic.Writer(tmp_path / "a").event(0, "started", total_steps=10)
  runs, _ = history.read_runs([str(tmp_path / "a")], synthetic.START)
  page.write(tmp_path / "page.html", runs, [])
  text = (tmp_path / "page.html").read_text()
  assert "0 of 10" in text and '<div class="plots">' not in text


def test_the_time_of_each_run_is_a_table(tmp_path):
  page.write(tmp_path / "page.html", [counted(tmp_path / "a")], [])
  text = (tmp_path / "page.html").read_text()
  (data,) = re.findall(r'id="runs-data">(.*?)</script>', text, flags=re.S)
  table = json.loads(data)["goodput"]
  assert [cell["text"] for cell in table["rows"][0]][:4] == ["a", "8.0", "2", "75.0%"]
  assert 'id="goodput-table"' in text and '<a href="#goodput">Goodput</a>' in text
