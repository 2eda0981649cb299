"""Damaged captions, references and subsets are read, or refused in one line.

`python -m tests.fuzz` damages all inputs of the command.
"""

import zipfile

import pytest

from tests.fuzz.readers import read_or_refused
from tests.make import files
from xmcap.reading import subsets
from xmcap.scoring import read_predictions, read_references

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
  "folder": read_predictions,
  "keys.txt": lambda path: subsets.choose(str(path), dict.fromkeys(_KEYS)),
}


@pytest.mark.parametrize("count", [40, pytest.param(1_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("layout", _READERS)
def test_damaged_captions_are_read_or_refused_in_one_line(whole, layout, count):
  read_or_refused(whole / layout, _READERS[layout], count)
