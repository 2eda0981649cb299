"""Damaged captions, references and subsets give a result, or a one-line error and exit code 2.

`python -m tests.fuzz` damages the other files of `score`, and more of these.
"""

import random
import resource
import shutil
import zipfile

import pytest

from tests.fuzz import mutations
from tests.make import files
from tests.make.command import xmcap
from xmcap.errors import UsageError
from xmcap.reading import subsets
from xmcap.scoring import read_predictions, read_references

_COUNT = pytest.mark.parametrize("count", [40, pytest.param(1_000, marks=pytest.mark.full)])
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


# File -> (its reader, the option of the command that takes it, further options).
_LAYOUTS = {
  "release.jsonl": (lambda path: read_references(path), "references", ()),
  "archive.zip": (lambda path: read_references(path), "references", ()),
  "plain.jsonl": (lambda path: read_references(path), "references", ()),
  "annotations.json": (lambda path: read_references(path, language="el"), "references", ("--language=el",)),
  "predictions.jsonl": (lambda path: read_predictions(path), "predictions", ()),
  "results.json": (lambda path: read_predictions(path, "el"), "predictions", ("--language=el",)),
  "folder/el.jsonl": (lambda path: read_predictions(path.parent), "predictions", ("--languages=el",)),
  "keys.txt": (lambda path: subsets.choose(str(path), dict.fromkeys(_KEYS)), "subset", ()),
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


@_COUNT
@pytest.mark.parametrize("layout", _LAYOUTS)
def test_damaged_file_is_read_or_refused_in_one_line(whole, layout, count):
  read, *_ = _LAYOUTS[layout]
  before, refused = _peak(), 0
  for seed in range(count):
    path = _damaged(whole, layout, seed)
    try:
      read(path)
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


@pytest.mark.parametrize("count", [4, pytest.param(250, marks=pytest.mark.full)])
@pytest.mark.parametrize("layout", _LAYOUTS)
def test_damaged_file_is_scored_or_refused_by_the_command(whole, layout, count):
  _, option, more = _LAYOUTS[layout]
  before = _peak()
  for seed in range(count):
    path = _damaged(whole, layout, 2_000 + seed)
    named = {
      "references": whole / "release.jsonl",
      "predictions": whole / ("folder" if more else "predictions.jsonl"),
      "out": whole.parent / "out",
      option: path.parent if layout.startswith("folder") else path,
    }
    result = xmcap("score", *(f"--{name}={value}" for name, value in named.items()), *more, "--processes=1")
    if result.code:
      result.refused()
      assert result.err.count("\n") == 1, (seed, result.err)
  assert _peak() - before < _MEMORY
