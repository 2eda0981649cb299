"""`xmcap score tags` against scikit-learn, from files to tables, and what it refuses."""

import itertools

import numpy as np
import pytest

from tests import lazily
from tests.make import files
from tests.make.command import xmcap
from tests.ranked.tables import table
from xmcap.ranked import tags
from xmcap.reading import tag_files

metrics = lazily.Module("sklearn.metrics")

_VOCABULARY = [f"t{i}" for i in range(12)]


def _made(count=40, seed=0):
  """True tags of pictures, one to six each, and a score for each tag of the vocabulary."""
  rng = np.random.default_rng(seed)
  truth = {f"p{i}": list(rng.choice(_VOCABULARY, 1 + i % 6, replace=False)) for i in range(count)}
  scores = {
    key: {tag: float(rng.normal() + (tag in held)) for tag in _VOCABULARY} for key, held in truth.items()
  }
  return truth, scores


def _ranked(scores):
  return sorted(scores, key=lambda tag: -scores[tag])


def _write(path, code, rows):
  return files.jsonl(
    path, *({"image/key": key, "language": code, "tags": tags} for key, tags in rows.items())
  )


def _run(folder, *more):
  files = [f"--references={folder / 'true.jsonl'}", f"--predictions={folder / 'ours.jsonl'}"]
  return xmcap("score", "tags", *files, f"--out={folder / 'out'}", *more)


@pytest.mark.parametrize("k", [1, 3, 5, 10])
def test_tag_metrics_equal_scikit_learn(k):
  truth, scores = _made()
  result = tags.score_tags({"zh": truth}, {"zh": scores}, (k,))
  rows = [
    [[tag in held for tag in _VOCABULARY] for held in of_pictures]
    for of_pictures in (truth.values(), [_ranked(held)[:k] for held in scores.values()])
  ]
  true, predicted = np.array(rows, int)
  p = np.array(
    [metrics.precision_score(*pair, zero_division=0) for pair in zip(true, predicted, strict=True)]
  )
  r = np.array([metrics.recall_score(*pair, zero_division=0) for pair in zip(true, predicted, strict=True)])
  f = np.divide(2 * p * r, p + r, out=np.zeros_like(p), where=p + r > 0)
  row = result.table.rows["zh"]
  assert row[f"tags_p{k}"] == pytest.approx(
    metrics.precision_score(true, predicted, average="samples"), abs=1e-12
  )
  assert row[f"tags_r{k}"] == pytest.approx(
    metrics.recall_score(true, predicted, average="samples"), abs=1e-12
  )
  assert row[f"tags_f{k}"] == pytest.approx(f.mean(), abs=1e-12)
  assert row["images"] == 40 and row["tags"] == true.sum()


def test_tag_metrics_with_ties_are_the_mean_over_orders():
  scores = {"a": 2.0, "b": 1.0, "c": 1.0, "d": 1.0, "e": 0.0}
  truth = {"p": ["a", "c", "e"]}
  row = tags.score_tags({"zh": truth}, {"zh": {"p": scores}}, (3,)).table.rows["zh"]
  found = []
  for order in itertools.permutations("bcd"):
    ranked = {tag: -float(place) for place, tag in enumerate(["a", *order, "e"])}
    found.append(tags.score_tags({"zh": truth}, {"zh": {"p": ranked}}, (3,)).table.rows["zh"])
  for name in ("tags_p3", "tags_r3", "tags_f3"):
    assert row[name] == pytest.approx(np.mean([one[name] for one in found]))


def test_images_without_true_tags_are_omitted_and_counted(tmp_path):
  truth, scores = _made(6)
  _write(tmp_path / "true.jsonl", "zh", {**truth, "without": []})
  _write(tmp_path / "ours.jsonl", "zh", {**scores, "without": scores["p0"]})
  _run(tmp_path).succeeded("P@5")
  written = table(tmp_path / "out")
  assert written["languages"]["zh"]["images"] == 6
  assert written["notes"] == ["pictures without a true tag are left out: zh 1"]
  assert "without_tags:left_out" in written["signature"] and "k=5" in written["signature"]


def test_tag_files_of_lists_mappings_and_text_are_equal(tmp_path):
  truth, scores = _made()
  (tmp_path / "true.jsonl").write_text("".join(f"{key} {' '.join(held)}\n" for key, held in truth.items()))
  tables = []
  for held in (scores, {key: _ranked(of) for key, of in scores.items()}):
    _write(tmp_path / "ours.jsonl", "zh", held)
    _run(tmp_path, "--language=zh", "--k=1,5").succeeded()
    tables.append((tmp_path / "out/table.json").read_bytes())
  assert tables[0] == tables[1]


_VOTES = "p 狗 0.9 椅 0.4 沙发 1e-05\nq 100 0.5 猫 .25 船 0\n"  # as `id.tagvotes.txt`: "%s %g" after the id


def test_tag_scores_in_text_are_recognized(tmp_path):
  (tmp_path / "true.jsonl").write_text("p 椅 狗\nq 船 猫\nr\n")
  (tmp_path / "ours.jsonl").write_text(_VOTES)
  assert tag_files.read(tmp_path / "ours.jsonl", "zh") == {
    "zh": {"p": {"狗": 0.9, "椅": 0.4, "沙发": 1e-5}, "q": {"100": 0.5, "猫": 0.25, "船": 0.0}}
  }
  result = _run(tmp_path, "--language=zh", "--k=1,3").succeeded()
  assert result.err.splitlines() == [f"{tmp_path / 'ours.jsonl'}: read as `ID tag score tag score ...`"]
  row = table(tmp_path / "out")["languages"]["zh"]
  assert (row["tags_p1"], row["tags_p3"]) == (0.5, pytest.approx(2 / 3))


def test_tag_file_number_in_a_json_list_is_a_tag(tmp_path):
  _write(tmp_path / "true.jsonl", "zh", {"p": ["百", "100"]})
  assert tag_files.read(tmp_path / "true.jsonl") == {"zh": {"p": {"百": 0, "100": -1}}}


def test_tag_score_intervals_comparison_and_report(tmp_path):
  for name, seed in (("a", 0), ("b", 1)):
    folder = tmp_path / name
    folder.mkdir()
    truth, _ = _made()
    _write(folder / "true.jsonl", "zh", truth)
    rng = np.random.default_rng(seed)
    _write(folder / "ours.jsonl", "zh", {key: list(rng.permutation(_VOCABULARY)) for key in truth})
    _run(folder, "--bootstrap=50").succeeded()
  cell = table(tmp_path / "a/out")["languages"]["zh"]["tags_f5"]
  assert cell["low"] < cell["score"] < cell["high"]
  assert {file.name for file in (tmp_path / "a/out").iterdir()} >= {"table.tex", "table.csv", "table.md"}
  report = (tmp_path / "a/out/report.html").read_text()
  assert "<h1>Tags</h1>" in report and "P, R, F@k" in report
  folders = [f"{name}={tmp_path / name / 'out'}" for name in "ab"]
  xmcap("compare", *folders, "--metrics=tags_p5,tags_f5", "--resamples=50").succeeded("F@5: b against a")


def _five(tags):
  """The row of _FIVE with other tags: a text of JSON."""
  return f'{{"image/key": "p", "language": "zh", "tags": {tags}}}\n'


_FIVE = _five('["a", "b", "c", "d", "e"]')


@pytest.mark.parametrize(
  "true, ours, more, message",
  [
    (_FIVE, _FIVE.replace(', "e"', ""), [], "image 'p': 4 predicted tags, and P@5 needs 5"),
    (_FIVE, _FIVE.replace('"e"', '"z"'), ["--labels=LABELS"], "predicted tag 'z' is none of --labels"),
    (_FIVE.replace('"e"', '"z"'), _FIVE, ["--labels=LABELS"], "true tag 'z' is none of --labels"),
    (_FIVE, _FIVE, ["--labels=LABELS", "--k=10"], "P@10 needs 10 tags or more, and the vocabulary has 5"),
    (_FIVE, _FIVE * 2, [], "line 2: 'p' is given twice in 'zh'"),
    ("p a b\nq c\np d\n", _FIVE, ["--language=zh"], "line 3: 'p' is given twice in 'zh'"),
    ("p#0 a\np#0 b\n", _FIVE, ["--language=zh"], "line 2: 'p#0' is given twice in 'zh'"),
    ("p a b\n", _FIVE, [], "text names no language"),
    (_FIVE, "p a 0.5 b\n", ["--language=zh"], "line 1: 0.5 is a number, no tag; a line is `ID tag tag"),
    (_FIVE, "p a b\nq 狗 2\n", ["--language=zh"], "line 2: 2 is a number, no tag"),
    (_FIVE, "p a 2\nq\nr a b\n", ["--language=zh"], "line 3: no score after each tag, which line 1 has"),
    (_FIVE, "p a 1 a 2\n", ["--language=zh"], "line 1: the tag 'a' is given twice"),
    (_FIVE, _five('["a", "0.5"]'), [], "every second tag is a number"),
    (_FIVE, _FIVE.replace('"e"', '"a"'), [], "line 1: the tag 'a' is given twice"),
    (_FIVE, _five('{"a": NaN}'), [], "line 1"),
    (_FIVE, _five('{"a": "1"}'), [], "score of 'a' is no finite number"),
    (_FIVE, _five(f'{{"a": 1{"0" * 400}}}'), [], "score of 'a' is no finite"),
    (_FIVE, _five('"a"'), [], "line 1: 'tags' is missing or no list"),
    (_FIVE, _FIVE.replace('"p"', '"q"'), [], "1 picture of 1 without predicted tags (p)"),
    (_FIVE, _FIVE + _FIVE.replace('"p"', '"q"'), [], "1 predicted picture without a line in the references"),
    (_FIVE, _FIVE + _FIVE.replace('"zh"', '"th"'), [], "true.jsonl: no tags in th, which the other file has"),
    (_FIVE, _FIVE.replace('"zh"', '"qq"'), [], "unknown language 'qq'"),
    (_five("[]"), _FIVE, [], "no picture has a true tag"),
    (_FIVE, _FIVE, ["--k=4"], "--k=4: name some of 1, 3, 5, 10"),
  ],
)
def test_tag_score_input_errors_are_one_line(tmp_path, true, ours, more, message):
  files.text(tmp_path / "true.jsonl", true)
  (tmp_path / "ours.jsonl").write_text(ours)
  (tmp_path / "labels.txt").write_text("a\nb\nc\nd\ne\n")
  _run(tmp_path, *(word.replace("LABELS", str(tmp_path / "labels.txt")) for word in more)).refused(message)
