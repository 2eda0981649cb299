"""Correlation of metrics with THumB ratings: the CIDEr row of Table 4, and a user's ratings."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
import scipy.stats

from tests.make import files
from xmcap.errors import UsageError
from xmcap.human import thumb, thumb_correlations, thumb_ratings

_THUMB = pathlib.Path(__file__).parents[3] / "shared" / "thumb"


@pytest.fixture(scope="module")
def released():
  if not _THUMB.is_dir():
    pytest.skip("the released ratings are not beside this checkout (../shared/thumb)")
  ratings = thumb_ratings.read(_THUMB / "mscoco_THumB-1.0.jsonl")
  return ratings, thumb_ratings.read_references(_THUMB / "mscoco_references.json", ratings.keys)


@pytest.fixture
def small(tmp_path):
  rng = np.random.default_rng(0)
  texts = ["a dog runs on grass", "two cats sit", "a red car on a road", "the dog and the cat", "a road"]
  rows = [
    {"SYS": system, "seg_id": str(key), "hyp": str(rng.choice(texts)), "P": int(rng.integers(1, 6)),
     "R": int(rng.integers(1, 6)), "Fl": 0, "Inc": 0, "Con": 0}
    for system in ("model", "Human") for key in range(12)
  ]  # fmt: skip
  path = files.jsonl(tmp_path / "ratings.jsonl", *rows)
  references = {str(key): [texts[key % 5], "a dog on a road"] for key in range(12)}
  return thumb_ratings.read(path), references


def _row(result, pool, digits=2):
  return [f"{cell.value:.{digits}f}" for cell in result.correlations[pool]["pearson"].values()]


@pytest.mark.parametrize("tokenizer", ["default", pytest.param("ptb", marks=pytest.mark.full)])
def test_thumb_table_4_cider_without_human_equals_the_paper(released, tokenizer):
  (result,) = _correlate(released, tokenizer, resamples=0)
  assert _row(result, "without human") == ["0.27", "0.18", "0.33"]


@pytest.mark.full
def test_thumb_cider_scores_and_correlations_equal_pycocoevalcap(released):
  # shared/thumb/README.md: PTB tokenizer and CIDEr-D of pycocoevalcap 1.2, each system on its own.
  (result,) = _correlate(released, "ptb", resamples=0)
  assert {system: f"{100 * score:.1f}" for system, score in result.scores.items()} == {
    "Human": "111.5", "VinVL-large": "141.8", "VinVL-base": "138.4", "Unified-VLP": "128.5", "Up-Down": "110.7",
  }  # fmt: skip
  assert _row(result, "without human", 4) == ["0.2741", "0.1847", "0.3339"]
  assert _row(result, "all systems", 4) == ["0.2087", "0.1107", "0.2285"]


def test_thumb_correlation_intervals_are_near_the_paper(released):
  (result,) = _correlate(released, "default", resamples=100)
  cell = result.correlations["all systems"]["pearson"]["total"]
  # The paper prints +0.04 and -0.05; it does not say whether captions or, as here, images are drawn.
  assert (cell.high - cell.value, cell.value - cell.low) == pytest.approx((0.045, 0.045), abs=0.02)


def _correlate(released, tokenizer, **options):
  if tokenizer == "ptb":
    pytest.importorskip("pycocoevalcap")
    if shutil.which("java") is None:
      pytest.skip("the ptb tokeniser needs Java")
  return thumb_correlations.correlate(*released, tokenizer=tokenizer, human="Human", **options)


def test_thumb_correlations_pool_captions_of_all_systems(small):
  ratings, references = small
  (result,) = thumb_correlations.correlate(ratings, references, ["exact"], human="Human", resamples=0)
  exact = [
    [float(ratings.captions[system, key].text in references[key]) for key in ratings.keys]
    for system in ratings.systems
  ]
  for name, reference in (("pearson", scipy.stats.pearsonr), ("kendall", scipy.stats.kendalltau)):
    expected = reference(np.ravel(exact), ratings.measures["R"].ravel()).statistic
    assert result.correlations["all systems"][name]["R"].value == pytest.approx(expected, abs=1e-12)
    expected = reference(exact[0], ratings.measures["R"][0]).statistic
    assert result.correlations["without human"][name]["R"].value == pytest.approx(expected, abs=1e-12)
  assert result.captions == {"without human": 12, "all systems": 24}


def test_thumb_correlations_metrics_are_in_table_order(small):
  results = thumb_correlations.correlate(*small, ["rouge_l", "cider"], resamples=0)
  assert [result.name for result in results] == ["cider", "rouge_l"]
  assert all(list(result.correlations) == ["all systems"] for result in results)


def test_thumb_correlations_tokenizer_per_metric(small):
  given = thumb_correlations.correlate(*small, ["rouge_l:char,cider", "bleu:13a"], resamples=0)
  words = {result.name: result.signature.split("|tok:")[1].partition("(")[0] for result in given}
  assert words == {"cider": "default", **{f"bleu_{n}": "13a" for n in (1, 2, 3, 4)}, "rouge_l": "char"}
  alone = thumb_correlations.correlate(*small, ["rouge_l"], tokenizer="char", resamples=0)[0]
  assert given[-1].scores == alone.scores and given[-1].signature == alone.signature


def test_thumb_correlations_of_processed_text_do_not_depend_on_how_systems_write(small):
  ratings, references = small
  sloppy = {key: dataclasses.replace(one, text=f" {one.text} .") for key, one in ratings.captions.items()}
  other = dataclasses.replace(ratings, captions=sloppy)
  capital = {key: [text.capitalize() for text in texts] for key, texts in references.items()}
  options = {"tokenizer": "13a", "resamples": 0}
  plain, clean = (
    [thumb_correlations.correlate(one, capital, ["sentence_bleu"], **how)[0] for one in (ratings, other)]
    for how in (options, {**options, "normalize": "sentence"})
  )
  assert plain[0].scores != plain[1].scores and clean[0].scores == clean[1].scores
  assert "+sentence-1" in clean[0].signature


@pytest.mark.parametrize(
  "options, message",
  [
    ({"names": ["bertscore"]}, "unknown metric 'bertscore'"),
    ({"names": ["cider", "cider"]}, "named twice"),
    ({"names": ["cider:char", "cider:13a"]}, "named twice"),
    ({"names": ["cider:moses"]}, "unknown tokeniser 'moses'"),
    ({"tokenizer": "moses"}, "unknown tokeniser 'moses'"),
    ({"human": "people"}, "--human=people: no ratings of this system; there are: model, Human"),
    ({"normalize": "sentences"}, "unknown normalisation 'sentences'"),
  ],
)
def test_thumb_correlations_refuse_invalid_options(small, options, message):
  with pytest.raises(UsageError, match=message):
    thumb_correlations.correlate(*small, **options)


def test_thumb_correlations_are_shown_beside_the_ratings(small, tmp_path):
  ratings, references = small
  metrics = thumb_correlations.correlate(ratings, references, ["cider_d"], human="Human", resamples=20)
  result = thumb.evaluate(ratings, metrics, resamples=20)
  result.write(tmp_path / "out")
  assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
    "thumb.json", "thumb.md", "thumb.tex", "thumb_best.csv", "thumb_correlations.csv",
    "thumb_histograms.csv", "thumb_histograms.svg", "thumb_means.csv", "thumb_scores.csv",
  ]  # fmt: skip
  value = json.loads((tmp_path / "out/thumb.json").read_text())
  total = value["metrics"][0]["correlations"]["all systems"]["pearson"]["total"]
  assert total["low"] <= total["score"] <= total["high"]
  assert "signature: cider_d(n=4,sigma=6" in result.terminal()
