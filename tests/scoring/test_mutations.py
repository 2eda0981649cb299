"""Damaged captions, references and subsets are read, or refused in one line.

`python -m tests.fuzz` damages all inputs of the command.
"""

import random
import resource
import shutil
import zipfile

import pytest

from tests.fuzz import mutations
from tests.make import files
from xmcap.errors import UsageError
from xmcap.reading import subsets
from xmcap.scoring import read_predictions, read_references

_MEMORY = 500 << 20  # bytes that a small file, however damaged, must not take
_KEYS = ("00000000000000aa", "7")
_TEXTS = {"en": ("a red ball", "two \U0001f697 cars"), "el": ("μια κόκκινη μπάλα", "δύο αυτοκίνητα")}
_REFERENCES = {key: {code: [texts[i], "x"] for code, texts in _TEXTS.items()} for i, key in enumerate(_KEYS)}
_PREDICTIONS = {key: dict.fromkeys(_TEXTS, "a κόκκινη ball") for key in _KEYS}
_GREEK = {key: captions["el"] for key, captions in _REFERENCES.items()}


@pytest.fixture
def whole(tmp_path):
  """A folder of whole files."""
  folder = tmp_path / "whole"
  release = files.release(folder / "release.jsonl", _REFERENCES, locale="el")
  with zipfile.ZipFile(folder / "archive.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.write(release, "captions.jsonl")
  files.captions(folder / "plain.jsonl", _REFERENCES)
  files.coco(folder / "annotations.json", _GREEK)
  files.captions(folder / "predictions.jsonl", _PREDICTIONS)
  files.coco_results(folder / "results.json", dict.fromkeys(_KEYS, "μια κόκκινη"))
  files.captions(folder / "folder/el.jsonl", {key: {"el": "a κόκκινη ball"} for key in _KEYS})
  files.lines(folder / "keys.txt", *_KEYS)
  return folder


_READERS = {
  "release.jsonl": read_references,
  "archive.zip": read_references,
  "plain.jsonl": read_references,
  "annotations.json": lambda path: read_references(path, language="el"),
  "predictions.jsonl": read_predictions,
  "results.json": lambda path: read_predictions(path, "el"),
  "folder/el.jsonl": lambda path: read_predictions(path.parent),
  "keys.txt": lambda path: subsets.choose(str(path), dict.fromkeys(_KEYS)),
}


def _damaged(whole, layout, seed):
  """Writes one damaged file; returns its path."""
  path = whole.parent / "damaged" / f"{seed}" / layout
  path.parent.mkdir(parents=True, exist_ok=True)
  shutil.copyfile(whole / layout, path)
  mutations.damage(path, random.Random(f"{layout} {seed}"))
  return path


def _peak():
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


@pytest.mark.parametrize("count", [40, pytest.param(1_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("layout", _READERS)
def test_damaged_captions_are_read_or_refused_in_one_line(whole, layout, count):
  before, refused = _peak(), 0
  for seed in range(count):
    path = _damaged(whole, layout, seed)
    try:
      _READERS[layout](path)
    except UsageError as error:
      refused += 1
      line = str(error)
      assert len(line.splitlines()) == 1 and len(line) < 1000 and str(whole.parent) in line, (
        seed,
        line[:1000],
      )
    except Exception as error:
      raise AssertionError(f"{layout} {seed}: no traceback is allowed") from error
  assert 0 < refused < count  # the damage is neither always seen nor never
  assert _peak() - before < _MEMORY
