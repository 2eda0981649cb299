"""Residue as a measure: shares of captions and references, by any number of processes."""

import subprocess
import sys

from xmcap.scoring import health

_NOUNS = ("dog", "cat", "man", "woman", "boat", "train", "child", "horse", "bird", "car", "girl", "cow")
_REFERENCES = [f"one {noun} on a road" for noun in _NOUNS]
_CAPTIONS = [f"a {noun}" for noun in _NOUNS]

# In a fresh process: one that has loaded jax does not fork.
_SCRIPT = """
from xmcap.scoring import score

nouns = [f"{noun}{number}" for noun in ("dog", "cat", "boat", "cow") for number in range(30)]
references = {noun: {code: [f"one {noun} on a road"] for code in ("da", "en", "no")} for noun in nouns}
predictions = {noun: {code: f"Here it is: a {noun}</s>" for code in ("da", "en", "no")} for noun in nouns}
alone, shared = (score(references, predictions, health=True, processes=number) for number in (1, 2))
assert alone.health == shared.health and alone.table.notes == shared.table.notes
assert {held.prefix for held in shared.health.values()} == {held.markup for held in shared.health.values()} == {1.0}
"""


def test_residual_shares_of_captions_and_references():
  captions = [f"{_CAPTIONS[0]}</s>", f"<b>{_CAPTIONS[1]}</b>\nor two", *_CAPTIONS[2:]]
  found = health.residual({"en": captions}, {"en": [f"{_REFERENCES[0]}</s>", *_REFERENCES[1:]]})["en"]
  assert found.values == {
    "markup": 2 / 12,
    "markup_references": 1 / 12,
    "prefix": 0.0,
    "suffix": 0.0,
    "lines": 1 / 12,
    "lines_references": 0.0,
  }
  assert [finding.kind for finding in found.findings] == ["html", "lines"]  # a reference has a token, too


def test_residual_is_the_same_for_any_number_of_processes():
  done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=120)
  assert done.returncode == 0, done.stderr
