"""SPICE's program is run as pycocoevalcap 1.2 runs it; a stand-in for Java answers in the form that its wrapper reads.

The parser that the program needs is too large to be a part of the tests, so no score of the real one is compared.
"""

import sys

import numpy as np
import pytest

from tests.make.refusals import refusal
from xmcap.errors import XmcapError
from xmcap.scoring import score
from xmcap.scoring.metrics import METRICS, Corpus, parse

# Scores by the words that a caption and its references share; null where there is none, out of order.
_JAVA = """#!{python}
import json, sys
words = sys.argv[1:]
jar = next(place for place, word in enumerate(words) if word.endswith(".jar"))
items = json.load(open(words[jar + 1], encoding="utf-8"))
def f(item):
  test, refs = set(item["test"].split()), set(" ".join(item["refs"]).split())
  return 2 * len(test & refs) / (len(test) + len(refs)) if test & refs else None
found = [{{"image_id": item["image_id"], "scores": {{"All": {{"f": f(item)}}}}}} for item in items]
json.dump(found[::-1], open(words[words.index("-out") + 1], "w"))
{more}
"""


def _install(folder, monkeypatch, more=""):
  program = folder / "bin" / "java"
  program.parent.mkdir()
  program.write_text(_JAVA.format(python=sys.executable, more=more))
  program.chmod(0o755)
  package = folder / "pycocoevalcap"
  (package / "spice" / "lib").mkdir(parents=True)
  (package / "spice" / "lib" / "stanford-corenlp-3.6.0.jar").touch()
  monkeypatch.setenv("PATH", str(program.parent))
  monkeypatch.setattr("xmcap.scoring.tokenizers.java.pycocoevalcap", lambda name: package)


def _corpus(*pairs):
  return Corpus(
    [caption.split() for caption, _ in pairs], [[text.split() for text in texts] for _, texts in pairs]
  )


def test_spice_scores_of_each_image(tmp_path, monkeypatch):
  _install(tmp_path, monkeypatch)
  corpus = _corpus(("a dog", ["a dog"]), ("a cat", ["the dog"]), ("a", ["a dog", "a b c"]))
  statistics = METRICS["spice"].statistics(corpus)
  np.testing.assert_allclose(statistics, [[1], [0], [2 * 1 / (1 + 4)]])
  np.testing.assert_allclose(METRICS["spice"].aggregate(statistics.sum(axis=0), np.float64(3)), 1.4 / 3)


def test_marked_in_table_and_signature(tmp_path, monkeypatch):
  _install(tmp_path, monkeypatch)
  table = score({"1": {"en": ["a dog"]}}, {"1": {"en": "A dog."}}, metrics="exact,spice").table
  assert table.rows["en"]["spice"] == 1 and "SPICE (pycocoevalcap)" in table.terminal()
  assert "|metric.spice:spice-1.0,pycocoevalcap-" in table.signature


def test_spice_is_not_among_all():
  assert "spice" not in parse("all")


def test_missing_parser_says_how_to_fetch_it(tmp_path, monkeypatch):
  _install(tmp_path, monkeypatch)
  (tmp_path / "pycocoevalcap" / "spice" / "lib" / "stanford-corenlp-3.6.0.jar").unlink()
  message = refusal(METRICS["spice"].statistics, _corpus(("a", ["a"])), error=XmcapError)
  assert "3.6.0.jar; fetch it once: python -m pycocoevalcap.spice.get_" in message


@pytest.mark.parametrize(
  ("more", "message"),
  [
    ("sys.exit(3)", "metric 'spice': Java failed with status 3"),
    ("json.dump([], open(words[words.index('-out') + 1], 'w'))", "did not write the scores of 1 captions"),
  ],
)
def test_spice_failures_are_one_line(tmp_path, monkeypatch, more, message):
  _install(tmp_path, monkeypatch, more)
  assert message in refusal(METRICS["spice"].statistics, _corpus(("a", ["a"])), error=XmcapError)


def test_spice_files_are_those_of_pycocoevalcap(tmp_path, monkeypatch):
  """pycocoevalcap's own class reads what the stand-in writes, and writes what it reads."""
  spice = pytest.importorskip("pycocoevalcap.spice.spice")
  _install(tmp_path, monkeypatch)
  monkeypatch.setattr(spice, "get_stanford_models", lambda: None)
  monkeypatch.setattr(spice, "__file__", str(tmp_path / "pycocoevalcap" / "spice" / "spice.py"))
  wanted, _ = spice.Spice().compute_score({0: ["a dog"], 1: ["a cat"]}, {0: ["a dog"], 1: ["a dog"]})
  found = METRICS["spice"].statistics(_corpus(("a dog", ["a dog"]), ("a dog", ["a cat"])))
  assert wanted == found.mean()
