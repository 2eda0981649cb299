import csv
import dataclasses
import json

import numpy as np
import pytest

from tests.make.refusals import refusal
from xmcap.ranked.tags import score_tags
from xmcap.scoring import Difference, compare
from xmcap.scoring.comparing import significance
from xmcap.scoring.statistics.sufficient import Statistics
from xmcap.scoring.system import System
from xmcap.scoring.tables import score_table

_SIGNATURE = "metric.cider:n=4|tokenizer:default-1[all]|languages:en th|xmcap:0.1.0"


def _system(values, signature=_SIGNATURE, references=2):
  """A system from language -> scores of images."""
  scores = {
    code: Statistics(
      tuple(f"k{i:03}" for i in range(len(of_language))),
      {"cider": np.array(of_language, float)[:, None]},
      references * len(of_language),
    )
    for code, of_language in values.items()
  }
  rows = {code: of_language.row() for code, of_language in scores.items()}
  return System(score_table.Table.of_rows(signature, rows), scores)


def _row_of(name, p):
  return Difference("b", "cider", name, 0.0, 1.0, 0.5, 1.5, p, p, p, False, -0.5, 0.5, 0.5, 1.5)


_RNG = np.random.default_rng(0)
_BASE = {"en": _RNG.normal(5, 1, 300), "th": _RNG.normal(5, 1, 300)}
_BETTER = {"en": _BASE["en"] + _RNG.normal(0.3, 1, 300), "th": _BASE["th"] + _RNG.normal(0, 1, 300)}


def _compare(other=None, *arguments, base=None, **options):
  """Compares systems `a` and `b`, of _BASE and _BETTER if not given."""
  systems = {"a": base or _system(_BASE), "b": other or _system(_BETTER)}
  return compare(systems, *arguments, **options)


@pytest.fixture(scope="module")
def comparison():
  return _compare(resamples=2000)


def _row(comparison, name):
  (row,) = (row for row in comparison.rows if row.name == name)
  return row


def test_differences_are_of_scores(comparison):
  row = _row(comparison, "en")
  assert row.difference == pytest.approx(np.mean(_BETTER["en"] - _BASE["en"]))
  assert row.low < row.difference < row.high


def test_p_and_interval_are_those_of_scipy(comparison):
  scipy_stats = pytest.importorskip("scipy.stats")  # 1.17.1
  more = {"n_resamples": 5000, "rng": np.random.default_rng(1)}
  differences = {code: _BETTER[code] - _BASE[code] for code in _BASE}
  p = scipy_stats.permutation_test((differences["th"],), np.mean, permutation_type="samples", **more).pvalue
  assert _row(comparison, "th").p_randomization == pytest.approx(p, abs=0.04)
  sampled = scipy_stats.bootstrap((differences["en"],), np.mean, method="percentile", **more)
  ends, row = sampled.confidence_interval, _row(comparison, "en")
  assert (row.low, row.high) == pytest.approx((ends.low, ends.high), abs=0.02)


def test_intervals_of_scores_are_those_of_the_tables_or_else_drawn(comparison):
  ends = {name: {"cider": (4.0, 6.0)} for name in ("en", "th", "2 languages")}
  base = _system(_BASE)
  base = dataclasses.replace(base, table=dataclasses.replace(base.table, intervals=ends))
  row = _row(_compare(base=base, resamples=2000, scale=100), "th")
  assert (row.baseline_low, row.baseline_high) == (4.0, 6.0)
  # The interval of the mean of normal scores: 1.96 standard errors to each side.
  error = 1.96 * np.std(_BETTER["th"]) / np.sqrt(300)
  assert row.score - row.score_low == pytest.approx(error, rel=0.1)
  assert row.score_high - row.score == pytest.approx(error, rel=0.1)
  assert _row(comparison, "th").baseline_low == pytest.approx(row.baseline - error, abs=0.1)


def test_holm_is_that_of_statsmodels():
  # statsmodels 0.15.0, multipletests([0.01, 0.04, 0.03, 0.005], method="holm").
  rows = [
    _row_of(name, p) for name, p in zip(("en", "th", "de", "fr"), (0.01, 0.04, 0.03, 0.005), strict=True)
  ]
  corrected = significance.corrected([*rows, _row_of("4 languages", 0.04)])
  assert [row.p_holm for row in corrected] == pytest.approx([0.03, 0.06, 0.06, 0.02, 0.04])


def test_comparison_marks_significant_languages(comparison):
  assert _row(comparison, "en").significant and not _row(comparison, "th").significant


def test_comparison_of_equal_captions_has_no_difference():
  row = _compare(_system(_BASE), resamples=50).rows[0]
  assert (row.difference, row.low, row.high, row.p_bootstrap, row.p_randomization) == (0, 0, 0, 1, 1)


def test_languages_with_few_references_are_flagged():
  base = _system(_BASE, references=1)
  few = _compare(_system(_BETTER, references=1), base=base, resamples=20)
  assert [row.few_references for row in few.rows] == [True, True, False]
  assert "few: fewer than 1.5 references" in few.terminal()


@pytest.mark.parametrize("resamples, told", [(39, True), (40, False)])
def test_too_few_resamples_for_significance_are_noted(resamples, told):
  far = {code: values + 9 for code, values in _BASE.items()}
  held = _compare(_system(far), resamples=resamples)
  text = "With 39 resamples none of 2 languages can be significant: use at least 40."
  assert (text in held.terminal()) == told
  assert [row.significant for row in held.rows if row.name in ("en", "th")] == [not told] * 2


def test_notes_of_the_tables_are_carried(tmp_path):
  noted = _system(_BETTER)
  noted = dataclasses.replace(
    noted, table=dataclasses.replace(noted.table, notes=("3 missing", "columns x: y"))
  )
  held = _compare(noted, resamples=20)
  assert held.notes == ("b: 3 missing",)
  assert "note: b: 3 missing" in held.terminal() and "note: b: 3 missing" in held.as_markdown()
  assert json.loads(held.as_json())["notes"] == ["b: 3 missing"]
  assert _compare(noted, base=noted, resamples=20).notes == ("a, b: 3 missing",)


def test_compare_parses_a_text_of_metrics():
  assert _compare(None, "cider", resamples=20) == _compare(None, ["cider"], resamples=20)


def test_compare_refuses_other_systems_and_options():
  english, thai = _system({"en": _BASE["en"]}), _system({"th": _BETTER["th"]})
  other = _system(_BETTER, _SIGNATURE.replace("default-1", "whitespace-1"))
  message = refusal(_compare, other)
  assert "a and b cannot be compared" in message
  assert "tokenizer: default-1[all] against whitespace" in message
  message = refusal(_compare, thai)
  assert "a has 2 languages, b 1, not the same: " in message and message.endswith(" --languages=th")
  assert "no language in common" in refusal(_compare, thai, base=english)
  assert "a was not scored with chrf" in refusal(_compare, None, ["chrf"])
  assert "needs two or more systems" in refusal(compare, {"a": _system(_BASE)})
  assert "--seed: must be a whole number from 0 to" in refusal(_compare, seed=-1)


def test_comparison_csv_has_median_ranks(comparison):
  medians = {"t2i_median_rank": {"en": {"a": 2.0, "b": 3.5}}}
  *_, row = csv.DictReader(dataclasses.replace(comparison, medians=medians).as_csv().splitlines())
  filled = {name: value for name, value in row.items() if value}
  assert filled == {
    "system": "b", "metric": "t2i_median_rank", "name": "en", "baseline": "2.0", "score": "3.5", "difference": "1.5",
  }  # fmt: skip


def test_compare_refuses_scores_of_different_kinds():
  tags = score_tags({"en": {"p": ["dog"]}}, {"en": {"p": {"dog": 1.0}}}, (1,))
  message = "a has tags_p1, tags_r1, tags_f1, b "
  assert message in refusal(_compare, _system(_BASE), base=tags)
  assert "scores of different kinds" in refusal(_compare, tags)


def test_comparison_is_determined_by_the_seed(comparison):
  assert _compare(resamples=2000) == comparison
  assert _compare(resamples=2000, seed=9).rows != comparison.rows


def test_comparison_is_written_as_csv_json_markdown_and_latex(comparison, tmp_path):
  comparison.write(tmp_path)
  assert {path.suffix for path in tmp_path.glob("comparison.*")} == {".csv", ".json", ".md", ".tex"}
  value = json.loads((tmp_path / "comparison.json").read_text())
  assert value["baseline"] == "a" and value["resamples"] == 2000
  first = value["differences"][0]
  assert (
    first["name"] == "en" and first["significant"] and first["difference"] == comparison.rows[0].difference
  )
  header, *lines = (tmp_path / "comparison.csv").read_text().splitlines()
  ends = {"baseline_low", "baseline_high", "score_low", "score_high"}
  assert len(lines) == len(comparison.rows) and ends <= {*header.split(",")} and ends <= first.keys()
  assert "CIDEr: b against a" in (tmp_path / "comparison.md").read_text()
