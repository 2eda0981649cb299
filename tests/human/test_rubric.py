"""Evaluation of ratings by a rubric: means, judged tags, agreement."""

import json
import random

import pytest

from tests.make import files
from xmcap.errors import UsageError
from xmcap.human import rubric
from xmcap.ranked.tags import score_tags


@pytest.fixture
def evaluate(tmp_path):
  """Writes rows to a file; returns its figures."""

  def run(rows):
    return rubric.evaluate(rubric.read(files.jsonl(tmp_path / "joined.jsonl", *rows)))

  return run


def _row(system, key, rater, relevance, fluency=5, caption="a dog", **more):
  return {
    "protocol": "coco_cn_captions", "image/key": key, "language": "en", "rater": rater, "system": system,
    "caption": caption, "relevance": relevance, "fluency": fluency, **more,
  }  # fmt: skip


_ROWS = [
  _row("A", "1", "x", 4), _row("A", "1", "y", 5), _row("A", "2", "x", 2, 3), _row("A", "2", "y", 3, 4),
  _row("B", "1", "x", 4), _row("B", "1", "y", 5), _row("B", "2", "x", 1, 1, "b"), _row("B", "2", "y", 1, 2, "b"),
]  # fmt: skip


def test_rubric_means_and_deviations(evaluate):
  found = evaluate(_ROWS)
  a, b = found.systems
  assert (a.system, a.pictures, a.ratings, b.system) == ("A", 2, 4, "B")
  assert a.means == {"relevance": 3.5, "fluency": 4.25}
  # numpy 2.4, std(ddof=1).
  assert a.deviations["relevance"] == pytest.approx(1.2909944487358056)
  assert b.deviations["fluency"] == pytest.approx(2.0615528128088303)
  assert found.tags == ()


def test_rubric_agreement_counts_a_shared_caption_once(evaluate):
  relevance, fluency = evaluate(_ROWS).agreement
  # Captions: (4, 5), (2, 3), (1, 1); and (5, 5), (3, 4), (1, 2).
  assert (relevance.rated, relevance.equal) == (3, pytest.approx(1 / 3))
  assert (fluency.rated, fluency.equal) == (3, pytest.approx(1 / 3))
  # By hand: mean squared differences of 4 / 6 within captions, and of 160 / 30 of any two ratings.
  assert relevance.alpha_interval == pytest.approx(1 - (4 / 6) / (160 / 30))


def test_rubric_judged_tags_are_scored_as_tags(evaluate):
  rng = random.Random(0)
  tags = [f"t{number}" for number in range(12)]
  systems = {name: {f"k{k}": rng.sample(tags, 3) for k in range(9)} for name in "AB"}
  judged = {
    (f"k{k}", tag, rater): rng.choice([1, 1, 0, -1]) for k in range(9) for tag in tags for rater in "xy"
  }
  found = evaluate(
    {
      "protocol": "coco_cn_tags", "image/key": key, "language": "zh", "rater": rater, "system": name, "tag": tag,
      "relevance": judged[key, tag, rater],
    }
    for name, of_system in systems.items()
    for key, given in of_system.items()
    for tag in given
    for rater in "xy"
  )  # fmt: skip
  for by, least in (("all", 2), ("any", 1)):
    pooled = {key: {*systems["A"][key], *systems["B"][key]} for key in systems["A"]}
    truth = {
      key: [tag for tag in given if sum(judged[key, tag, rater] > 0 for rater in "xy") >= least]
      for key, given in pooled.items()
    }
    for name, of_system in systems.items():
      scores = {
        key: {tag: 1.0 - place for place, tag in enumerate(given)} for key, given in of_system.items()
      }
      row = score_tags({"zh": truth}, {"zh": scores}, depths=(3,)).table.rows["zh"]
      (own,) = [each for each in found.tags if (each.system, each.by) == (name, by)]
      expected = [row["tags_p3"], row["tags_r3"], row["tags_f3"]]
      assert [own.precision, own.recall, own.f] == pytest.approx(expected)
      assert own.without == sum(not of_picture for of_picture in truth.values())


def test_rubric_system_with_missing_ratings_is_refused(evaluate):
  with pytest.raises(UsageError, match=r"'en': 'B' lacks 1 of 4 rated pictures that others have \(2 by y\)"):
    evaluate(_ROWS[:-1])


def test_rubric_tag_scores_without_a_relevant_tag_are_none(evaluate, tmp_path):
  row = {"protocol": "p", "image/key": "1", "language": "zh", "rater": "x"}
  found = evaluate([{**row, "system": "A", "tag": "t", "relevance": 0}])
  assert found.tags[0].precision is None and found.tags[0].without == 1
  found.write(tmp_path / "out")
  assert json.loads((tmp_path / "out/rubric.json").read_text())["tags"][0]["f"] is None
  assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
    "rubric.json", "rubric.md", "rubric.tex", "rubric_agreement.csv", "rubric_means.csv", "rubric_tags.csv",
  ]  # fmt: skip


@pytest.mark.parametrize(
  "rows, message",
  [
    ([], "joined.jsonl: contains no ratings; each line must have language"),
    ([{**_ROWS[0], "relevance": "4"}], "line 1: 'relevance' is \"4\"; it must be a number"),
    ([{**_ROWS[0], "language": "xx"}], "line 1: unknown language 'xx'"),
    ([_ROWS[0], {**_ROWS[1], "protocol": "other"}], "line 2: another protocol, or other criteria"),
    ([_ROWS[0], {**_ROWS[1], "tone": 1}], "line 2: another protocol, or other criteria"),
    *(
      ([{**_ROWS[0], name: 1}], f"line 1: criterion '{name}': its name clashes with {other}")
      for name, other in (
        ("ratings", "the column 'ratings'"),
        ("relevance_sd", "criterion 'relevance'"),
        ("\uff2canguage", "the column 'language'"),
        ("Fluency", "criterion 'fluency'"),
      )
    ),
    ([_ROWS[0], _ROWS[0]], "line 2: 'a dog' of 'A' was rated by 'x' before"),
    (
      [{key: value for key, value in _ROWS[0].items() if key not in ("relevance", "fluency")}],
      "no criterion",
    ),
  ],
)
def test_rubric_malformed_rows_are_refused(evaluate, rows, message):
  with pytest.raises(UsageError, match=message) as error:
    evaluate(rows)
  assert "\n" not in str(error.value)
