"""METEOR against pycocoevalcap 1.2's wrapper, which starts the same program in another way."""

import shutil

import numpy as np
import pytest

from tests.scoring import coco_files
from tests.scoring.replayed_java import goldens
from xmcap.errors import UsageError, XmcapError
from xmcap.scoring import score
from xmcap.scoring.metrics import METRICS, Corpus, parse

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="Java is not on this machine")


@pytest.fixture
def statistics(replayed_java):
  pytest.importorskip("pycocoevalcap")
  return METRICS["meteor"].statistics(coco_files.meteor_corpus())


def test_meteor_equals_recorded_pycocoevalcap(statistics):
  metric, meteor = METRICS["meteor"], goldens()["meteor"]
  np.testing.assert_allclose(metric.image_scores(statistics), meteor["scores"], rtol=1e-12)
  total = metric.aggregate(statistics.sum(axis=0), np.float64(len(statistics)))
  np.testing.assert_allclose(total, meteor["score"], rtol=1e-12)


def test_meteor_is_marked_in_table_and_signature(statistics, monkeypatch):
  of_equal_words = statistics[3:4]
  monkeypatch.setattr(type(METRICS["meteor"]), "statistics", lambda self, corpus: of_equal_words)
  table = score({"1": {"en": ["a dog"]}}, {"1": {"en": "A dog."}}, metrics="exact,meteor", bootstrap=2).table
  assert table.rows["en"]["meteor"] == 1 and "METEOR (pycocoevalcap)" in table.terminal()
  assert "|metric.meteor:meteor-1.5,pycocoevalcap-" in table.signature


def test_meteor_is_not_among_all():
  assert "meteor" not in parse("all")


@needs_java
@pytest.mark.full  # starts Java's METEOR three times
def test_meteor_statistics_are_recorded_ones_in_any_system_locale(statistics, monkeypatch):
  monkeypatch.undo()  # from here on Java itself
  recorded = statistics.tolist()
  assert METRICS["meteor"].statistics(coco_files.meteor_corpus()).tolist() == recorded
  corpus = Corpus([["IT", "IS", "A", "PIG"]], [[["it", "is", "a", "pig"]]])
  expected = METRICS["meteor"].statistics(corpus)
  monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Duser.language=tr")  # where the small letter of I has no dot
  assert METRICS["meteor"].statistics(corpus).tolist() == expected.tolist()


def test_missing_java_says_what_to_install(monkeypatch):
  pytest.importorskip("pycocoevalcap")
  monkeypatch.setenv("PATH", "")
  with pytest.raises(XmcapError, match="metric 'meteor' needs Java, which does not start"):
    METRICS["meteor"].statistics(coco_files.meteor_corpus())


def test_missing_package_says_what_to_install(monkeypatch):
  monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
  with pytest.raises(UsageError, match=r"pip install '\.\[ptb\]'"):
    METRICS["meteor"].statistics(coco_files.meteor_corpus())
