"""METEOR against pycocoevalcap 1.2's wrapper, which starts the same program in another way."""

import shutil

import numpy as np
import pytest

from xmcap.errors import UsageError, XmcapError
from xmcap.scoring import score
from xmcap.scoring.metrics import METRICS, Corpus, parse

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="Java is not on this machine")

_HYPOTHESES = [
  "a dog on a beach",
  "two cats sleep on a couch",
  "",
  "a dog",
  "the man rides quickly down streets",
]
_REFERENCES = [
  ["a dog on the beach", "a dog runs on the sand"],
  ["two cats on couch"],
  ["a dog"],
  ["a dog"],
  ["a man is riding his bicycle down the street", "someone on a bike"],
]


def _corpus():
  references = [[text.split() for text in texts] for texts in _REFERENCES]
  return Corpus([text.split() for text in _HYPOTHESES], references)


@pytest.fixture(scope="module")
def statistics():
  """Of `_corpus`; Java takes seconds to start."""
  pytest.importorskip("pycocoevalcap")
  return METRICS["meteor"].statistics(_corpus())


@needs_java
def test_equals_pycocoevalcap(statistics):
  meteor = pytest.importorskip("pycocoevalcap.meteor.meteor")
  hypotheses = {place: [text] for place, text in enumerate(_HYPOTHESES)}
  wanted, of_images = meteor.Meteor().compute_score(dict(enumerate(_REFERENCES)), hypotheses)
  metric = METRICS["meteor"]
  np.testing.assert_allclose(metric.image_scores(statistics), of_images, rtol=1e-12)
  total = metric.aggregate(statistics.sum(axis=0), np.float64(len(of_images)))
  np.testing.assert_allclose(total, wanted, rtol=1e-12)


@needs_java
def test_marked_in_table_and_signature(statistics, monkeypatch):
  of_equal_words = statistics[3:4]
  monkeypatch.setattr(type(METRICS["meteor"]), "statistics", lambda self, corpus: of_equal_words)
  table = score({"1": {"en": ["a dog"]}}, {"1": {"en": "A dog."}}, metrics="exact,meteor", bootstrap=2).table
  assert table.rows["en"]["meteor"] == 1 and "METEOR (pycocoevalcap)" in table.terminal()
  assert "|metric.meteor:meteor-1.5,pycocoevalcap-" in table.signature


def test_english_only_and_not_among_all():
  assert "meteor" not in parse("all")
  with pytest.raises(
    UsageError, match="metric 'meteor' is for en only, not for th; score only --languages=en"
  ):
    score({"1": {"en": ["a"], "th": ["a"]}}, {"1": {"en": "a", "th": "a"}}, metrics="meteor")


@needs_java
@pytest.mark.full  # starts Java twice; the options that it checks are those of every call
def test_meteor_does_not_depend_on_the_system_locale(monkeypatch):
  pytest.importorskip("pycocoevalcap")
  corpus = Corpus([["IT", "IS", "A", "PIG"]], [[["it", "is", "a", "pig"]]])
  expected = METRICS["meteor"].statistics(corpus)
  monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Duser.language=tr")  # where the small letter of I has no dot
  assert METRICS["meteor"].statistics(corpus).tolist() == expected.tolist()


def test_missing_java_says_what_to_install(monkeypatch):
  pytest.importorskip("pycocoevalcap")
  monkeypatch.setenv("PATH", "")
  with pytest.raises(XmcapError, match="metric 'meteor' needs Java, which does not start"):
    METRICS["meteor"].statistics(_corpus())


def test_missing_package_says_what_to_install(monkeypatch):
  monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
  with pytest.raises(UsageError, match=r"pip install '\.\[ptb\]'"):
    METRICS["meteor"].statistics(_corpus())
