"""Correlation of metric differences with delta SxS: Table 6 of XM3600, and a user's comparisons."""

import json

import numpy as np
import pytest

from tests.make import files
from xmcap.errors import UsageError
from xmcap.human import rated_pairs

# shared/paper/VERIFICATION.md: scipy 1.17 on Tables 5 and 7; columns XM600, XM3600, COCO-dev.
_RECOMPUTED = {
  ("pearson", "ALL"): (0.8781, 0.8807, 0.6819),
  ("spearman", "ALL"): (0.8741, 0.9158, 0.2988),
  ("kendall", "ALL"): (0.6953, 0.7602, 0.2095),
  ("pearson", "EXT"): (0.7207, 0.8424, -0.4359),
  ("spearman", "EXT"): (0.7561, 0.8389, -0.5219),
  ("kendall", "EXT"): (0.5402, 0.6562, -0.3159),
  ("pearson", "CORE"): (0.8985, 0.8951, 0.8889),
  ("spearman", "CORE"): (0.9495, 0.9544, 0.8629),
  ("kendall", "CORE"): (0.8043, 0.8082, 0.6631),
}
_HEADER = "m1,m2,lang,delta_sxs,delta_cider\n"


@pytest.fixture(scope="module")
def table6():
  return rated_pairs.correlate(rated_pairs.read_published(), resamples=0)


def _read(tmp_path, *contents):
  groups = {}
  for number, content in enumerate(contents):
    groups[f"G{number}"] = files.text(tmp_path / f"{number}.csv", content)
  return rated_pairs.read(groups)


@pytest.mark.parametrize("coefficient, group", _RECOMPUTED)
def test_xm3600_table_6_is_recomputed_from_tables_5_and_7(table6, coefficient, group):
  values = [cell.value for cell in table6.cells[group][coefficient].values()]
  assert values == pytest.approx(_RECOMPUTED[coefficient, group], abs=5.1e-5)


def test_xm3600_table_6_counts_points_as_the_paper(table6):
  assert table6.points == {"ALL": 130, "EXT": 82, "CORE": 48}


def test_rated_pairs_correlation_is_independent_of_pair_order():
  def of(sign):
    return rated_pairs.correlate(
      [rated_pairs.RatedPair("a", "b", "en", sign[i] * sxs, {"x": sign[i] * cider})
       for i, (sxs, cider) in enumerate([(-3.0, 0.1), (5.0, 0.2), (0.0, -0.3), (7.5, 0.0)])],
      resamples=0,
    ).cells  # fmt: skip

  assert of([1, 1, 1, 1]) == of([-1, 1, -1, 1])


def test_rated_pairs_bootstrap_draws_both_directions_together():
  # Drawn apart, a resample would not be symmetric and its Pearson coefficient would depend on a mean.
  rng = np.random.default_rng(0)
  deltas = rng.normal(size=(12, 2))
  pairs = [rated_pairs.RatedPair("a", "b", "en", s, {"x": d}) for s, d in deltas]
  cell = rated_pairs.correlate(pairs, resamples=500, seed=4).cells["ALL"]["pearson"]["x"]
  drawn = np.random.default_rng(4).integers(12, size=(500, 12))
  s, d = deltas[drawn].transpose(2, 0, 1)
  through_origin = (s * d).sum(1) / np.sqrt((s**2).sum(1) * (d**2).sum(1))
  assert (cell.low, cell.high) == pytest.approx(tuple(np.quantile(through_origin, [0.025, 0.975])), abs=1e-12)


def test_rated_pairs_directions_once_counts_each_comparison_once():
  pairs = [rated_pairs.RatedPair("a", "b", "en", s, {"x": d})
           for s, d in [(-3.0, 0.1), (5.0, 0.2), (0.0, -0.3), (7.5, 0.0), (1.0, 0.4)]]  # fmt: skip
  found = rated_pairs.correlate(pairs, resamples=0, directions="once")
  assert found.points == {"ALL": 5} and "each comparison once" in found.terminal()
  cells = {name: of_delta["x"].value for name, of_delta in found.cells["ALL"].items()}
  # scipy 1.17; scikit-learn 1.9.1: matthews_corrcoef of what is above zero.
  assert cells == pytest.approx(
    {"pearson": 0.0603744, "spearman": 0.1, "kendall": 0.0, "matthews": 0.1666667}, abs=1e-6
  )
  assert rated_pairs.correlate(pairs, resamples=0).points == {"ALL": 10}


def test_rated_pairs_files_are_read_and_grouped(tmp_path):
  pairs = _read(tmp_path, _HEADER + "A,B,en,-1.5,.2\r\n\r\n", "\ufeff" + _HEADER + '"A, 2",B,en,3,-1e-3\n')
  assert [(c.m1, c.group, c.delta_sxs, c.deltas) for c in pairs] == [
    ("A", "G0", -1.5, {"cider": 0.2}),
    ("A, 2", "G1", 3.0, {"cider": -0.001}),
  ]


@pytest.mark.parametrize("count", [1, 2, 4, 5])
def test_rated_pairs_of_fewer_than_five_comparisons_have_no_correlation(tmp_path, count):
  lines = [
    f"A,B,{code},{number},{number**2}\n" for number, code in enumerate(["en", "de", "fr", "it", "th"], 1)
  ]
  result = rated_pairs.correlate(_read(tmp_path, _HEADER + "".join(lines[:count])))
  few = count < 5
  assert (result.cells["G0"]["pearson"]["cider"].value is None) == few
  assert ("no coefficient (-) for 4 cells" in result.terminal()) == few


def test_rated_pairs_single_group_is_not_repeated_as_all(tmp_path):
  result = rated_pairs.correlate(_read(tmp_path, _HEADER + "A,B,en,1,2\nA,B,de,2,2.5\n"), resamples=0)
  assert list(result.points) == ["G0"]


@pytest.mark.parametrize(
  "content, message",
  [
    ("m1,m2,lang\n", "0.csv, line 1: 0 columns are named 'delta_sxs'"),
    ("", "0.csv, line 1: 0 columns are named 'm1'"),
    ("m1,m2,lang,delta_sxs\nA,B,en,1\n", "difference columns: none; give one or more"),
    ("m1,m2,lang,delta_sxs,delta_x,delta_x\n", "2 columns are named 'delta_x'"),
    (_HEADER, "no comparison below the header"),
    (_HEADER + "A,B,en,1\n", "cells under 5 headings"),
    (_HEADER + "A,B,en,1,nan\n", "line 2: 'delta_cider' is 'nan'"),
    (_HEADER + "A,B,en,1,1_0\n", "line 2: 'delta_cider' is '1_0'"),
    (_HEADER + "A,B,en,1,\n", "line 2: 'delta_cider' is ''"),
    (_HEADER + "A,B,en,1,1e999\n", "line 2: 'delta_cider' is not a finite number"),
    (_HEADER + "A,B,en,101,0\n", "line 2: 'delta_sxs' is 101"),
    (_HEADER + "A,B,xx,1,0\n", "line 2: unknown language 'xx'"),
    (_HEADER + "A,A,en,1,0\n", "line 2: 'A' is compared with itself"),
    (_HEADER + ",B,en,1,0\n", "line 2: 'm1' is empty"),
    (_HEADER + "A,B,en,1,0\nB,A,en,1,0\n", "line 3: 'B' and 'A' in en were compared before"),
    (_HEADER + '"A,B,en,1,0\n', "broken CSV"),
    (_HEADER.encode() + b"A,B,en,1,0\n\xff,B,en,1,0\n", "0xff at line 3"),
    (_HEADER + "A" * 200_000 + ",B,en,1,0\n", "line 2: 'm1' has 200,000 characters"),
  ],
)
def test_rated_pairs_malformed_csv_is_refused(tmp_path, content, message):
  with pytest.raises(UsageError) as caught:
    _read(tmp_path, content)
  assert message in str(caught.value) and str(caught.value).isprintable()


@pytest.mark.parametrize(
  "second, message",
  [
    (
      "m1,m2,lang,delta_sxs,delta_b\nA,B,de,1,0\n",
      "1.csv, line 1: difference columns: delta_b; give those of",
    ),
    (_HEADER + "A,B,en,1,0\n", "1.csv, line 2: .* were compared before"),
  ],
)
def test_rated_pairs_files_that_do_not_fit_each_other_are_refused(tmp_path, second, message):
  with pytest.raises(UsageError, match=message):
    _read(tmp_path, _HEADER + "A,B,en,1,0\n", second)


def test_rated_pairs_output_is_reproducible(tmp_path):
  for out in ("a", "b"):
    rated_pairs.correlate(rated_pairs.read_published(), resamples=20).write(tmp_path / out)
  names = sorted(path.name for path in (tmp_path / "a").iterdir())
  assert names == ["correlations.csv", "correlations.json", "correlations.md", "correlations.tex"]
  assert [(tmp_path / "a" / n).read_bytes() for n in names] == [
    (tmp_path / "b" / n).read_bytes() for n in names
  ]
  cell = json.loads((tmp_path / "a/correlations.json").read_text())["cells"]["ALL"]["pearson"]["cider_xm600"]
  assert cell["low"] < cell["score"] < cell["high"]


# Scores read back from table.json

_SIGNATURE = "metric.cider:n=4|metric.chrf:n=3|tokenizer:x|subset:all"


def _read_scores(tmp_path, content):
  files.text(tmp_path / "table.json", content if isinstance(content, bytes) else json.dumps(content))
  return rated_pairs.read_scores({"a": tmp_path}, "cider")["a"]


def test_read_scores_with_and_without_intervals(tmp_path):
  rows = {"en": {"images": 2, "cider": 1}, "de": {"cider": {"score": 0.5, "low": 0.4, "high": 0.6}}}
  assert _read_scores(tmp_path, {"signature": _SIGNATURE, "languages": rows}) == {"en": 1.0, "de": 0.5}


@pytest.mark.parametrize(
  "content, message",
  [
    (b"{", "broken JSON"),
    (b"\xff", "not UTF-8"),
    (b"[" * 100_000, "nested too deeply"),
    ([], "not a table of xmcap score"),
    ({"languages": {}}, "not a table of xmcap score"),
    ({"languages": {"xx": {}}}, "unknown language 'xx'"),
    ({"languages": {"en": 1.0}}, "not a table of xmcap score"),
    ({"languages": {"en": {"cider": True}}}, "not a table of xmcap score"),
    ({"languages": {"en": {"cider": float("nan")}}}, "NaN is not valid JSON"),
    ({"languages": {"en": {"cider": {"low": 1}}}}, "not a table of xmcap score"),
    ({"languages": {"en": {"cider": 1}}}, "is not a signature of xmcap"),
    ({"languages": {"en": {"cider": 1}}, "signature": "x"}, "'x' is not a signature of xmcap"),
    (
      {"signature": _SIGNATURE, "languages": {"en": {"bleu_4": 1.0}}},
      "was not scored with 'cider'; name another --metric",
    ),
  ],
)
def test_read_scores_refuses_malformed_tables(tmp_path, content, message):
  with pytest.raises(UsageError) as caught:
    _read_scores(tmp_path, content)
  assert message in str(caught.value) and str(tmp_path) in str(caught.value)
  assert str(caught.value).isprintable()


def test_read_scores_names_a_missing_folder(tmp_path):
  with pytest.raises(UsageError, match="absent/table.json: cannot be read"):
    rated_pairs.read_scores({"a": tmp_path / "absent"}, "cider")


@pytest.mark.parametrize(
  "signature, message",
  [
    (_SIGNATURE, None),
    (_SIGNATURE.replace("n=3", "n=5"), None),  # of another metric
    (_SIGNATURE.replace("n=4", "n=5"), "signatures differ in metric.cider: n=4 against n=5: score both"),
    (_SIGNATURE.replace("all", "xm600:1"), "signatures differ in subset: all against xm600:1"),
  ],
)
def test_read_scores_refuses_systems_with_different_signatures(tmp_path, signature, message):
  folders = {}
  for name, of_system in (("a", _SIGNATURE), ("b", _SIGNATURE), ("c", signature)):
    table = {"languages": {"en": {"cider": 1.0}}, "signature": of_system}
    folders[name] = files.json(tmp_path / name / "table.json", table).parent
  if message is None:
    assert rated_pairs.read_scores(folders, "cider") == dict.fromkeys("abc", {"en": 1.0})
  else:
    with pytest.raises(UsageError, match=message):
      rated_pairs.read_scores(folders, "cider")
