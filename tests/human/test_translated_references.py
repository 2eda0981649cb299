"""Footnote 15 of the XM3600 paper: how CIDEr against translated references of a language agrees with people."""

import csv
import itertools

import pytest
from scipy import stats

from tests.make import files
from tests.make.command import xmcap

COLOURS = ("red", "green", "blue", "black", "white", "brown")
OF = {
  "en": "a {} dog runs over the {} grass",
  "de": "ein {} Hund läuft über das {} Gras",
  "es": "un perro {} corre sobre la hierba {}",
}
# What a translator makes of the English references: the same words in another order, and a wrong one.
TRANSLATED = {"de": "ein {} Hund rennt auf dem {} Gras", "es": "un {} perro corre por la {} hierba"}
KEYS = {f"{number}": pair for number, pair in enumerate(itertools.permutations(COLOURS, 2))}


def _captions(of_language, wrong):
  """The captions of a system that errs in the second colour of every picture whose number `wrong` divides."""
  return {
    key: {
      language: template.format(first, COLOURS[0] if int(key) % wrong == 0 else second)
      for language, template in of_language.items()
    }
    for key, (first, second) in KEYS.items()
  }


def _references(path, of_language):
  exact = _captions(of_language, len(KEYS) + 1)
  return files.release(
    path, {key: {language: [text] for language, text in of_key.items()} for key, of_key in exact.items()}
  )


def test_delta_sxs_is_correlated_with_cider_against_translated_references(tmp_path):
  references = {
    "people": _references(tmp_path / "people.jsonl", OF),
    "en": _references(tmp_path / "en.jsonl", TRANSLATED),
  }
  systems = {"a": 2, "b": 3, "c": 7}
  for system, wrong in systems.items():
    files.captions(tmp_path / f"{system}.jsonl", _captions(OF, wrong))
  ratings = [("image/key", "language", "rater", "left", "right", "rating")]
  for language, strength in (("de", 1), ("es", 3)):
    for (left, wrong_left), (right, wrong_right) in itertools.combinations(systems.items(), 2):
      for key in itertools.islice(KEYS, 10 * strength):
        better = (int(key) % wrong_left == 0) - (int(key) % wrong_right == 0)
        ratings += [(key, language, rater, left, right, better) for rater in ("x", "y", "z")]
  files.csv(tmp_path / "ratings.csv", *ratings)
  found = {}
  for name, path in references.items():
    folders = {system: tmp_path / name / system for system in systems}
    for system, folder in folders.items():
      xmcap(
        "score", f"--predictions={tmp_path / system}.jsonl", f"--references={path}", "--languages=de,es",
        f"--out={folder}", "--metrics=cider", "--only_tables", "--no_health",
      ).succeeded()  # fmt: skip
    scores = [f"{system}={folder}" for system, folder in folders.items()]
    out = tmp_path / f"study-{name}"
    xmcap(
      "human", "sxs", f"--ratings={tmp_path / 'ratings.csv'}", "--scores", *scores, f"--out={out}",
      "--resamples=0",
    ).succeeded()  # fmt: skip
    cider = {system: _table(folder / "table.csv", "language") for system, folder in folders.items()}
    points = []
    for row in csv.DictReader((out / "sxs.csv").read_text().splitlines()):
      own, other = (float(cider[row[side]][row["language"]]["cider"]) for side in ("system", "against"))
      points += [(float(row["delta_sxs"]), own - other), (-float(row["delta_sxs"]), other - own)]
    found[name] = {
      coefficient: float(row["cider"])
      for coefficient, row in _table(out / "correlations.csv", "coefficient").items()
    }
    assert len(points) == 12
    assert found[name]["Pearson"] == pytest.approx(stats.pearsonr(*zip(*points, strict=True))[0])
    assert found[name]["Kendall"] == pytest.approx(stats.kendalltau(*zip(*points, strict=True))[0])
  assert found["en"]["Pearson"] != found["people"]["Pearson"]


def _table(path, column):
  return {row[column]: row for row in csv.DictReader(path.read_text().splitlines())}
