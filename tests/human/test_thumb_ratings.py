"""THumB files: ratings, annotators, languages and references."""

import json

import numpy as np
import pytest

from tests.make import files
from xmcap.errors import UsageError
from xmcap.human import thumb_ratings

_ROW = {
  "SYS": "A", "seg_id": "1", "hyp": "a dog", "P": 5.0, "R": 4, "Fl": -0.1, "Inc": -0.0, "Con": -0.5, "human_score": 3.9,
}  # fmt: skip


def _write(tmp_path, *rows, name="ratings.jsonl"):
  return files.lines(tmp_path / name, *(row if isinstance(row, str) else json.dumps(row) for row in rows))


def _read(tmp_path, *rows, **options):
  return thumb_ratings.read(_write(tmp_path, *rows), **options)


def _without(*names, **change):
  return {key: value for key, value in {**_ROW, **change}.items() if key not in names}


def test_thumb_measures_are_systems_by_images(tmp_path):
  ratings = _read(
    tmp_path,
    _ROW,
    _without("human_score", SYS="B", P=1),
    _without("human_score", seg_id="0", R=1),
    _without("human_score", SYS="B", seg_id="0", hyp="", Con=0),
  )
  assert (ratings.systems, ratings.keys) == (("A", "B"), ("1", "0"))
  np.testing.assert_array_equal(ratings.measures["P"], [[5, 5], [1, 5]])
  np.testing.assert_allclose(ratings.measures["total"], [[3.9, 2.4], [1.9, 4.4]])
  assert ratings.captions["B", "0"].text == ""


def test_thumb_zero_penalty_has_no_sign(tmp_path):
  assert not np.signbit(_read(tmp_path, _ROW).measures["Inc"]).any()


def test_thumb_ratings_of_annotators_are_averaged(tmp_path):
  ratings = _read(tmp_path, {**_ROW, "annotator": "x"}, _without("human_score", P=2, annotator="y"))
  assert ratings.annotators == ("x", "y")
  assert ratings.measures["P"] == [[3.5]]


def test_thumb_ratings_of_a_selected_language(tmp_path):
  rows = [{**_ROW, "language": "en"}, {**_ROW, "language": "de", "hyp": "ein Hund"}]
  ratings = _read(tmp_path, *rows, language="de")
  assert (ratings.language, ratings.left_out) == ("de", 1)
  assert ratings.captions["A", "1"].text == "ein Hund"
  with pytest.raises(UsageError, match="ratings of captions in de en; choose one with --language=CODE"):
    _read(tmp_path, *rows)
  with pytest.raises(UsageError, match="no ratings of captions in 'fr'; there are: de en"):
    _read(tmp_path, *rows, language="fr")


@pytest.mark.parametrize(
  "change, message",
  [
    ({"P": 0}, "'P' is 0; precision goes from 1 to 5"),
    ({"R": 5.5}, "'R' is 5.5; recall goes from 1 to 5"),
    ({"Fl": 0.1}, "'Fl' is 0.1; a penalty is 0 or less, such as -0.1"),
    ({"human_score": 4.5}, "'human_score' is 4.5, but (P + R) / 2 + Fl + Con + Inc is 3.9"),
    ({"human_score": "3.9"}, "'human_score' is \"3.9\"; it must be a number"),
    ({"P": True}, "'P' is true"),
    ({"P": None}, "'P' is null"),
    ({"Con": -(10**400)}, "'Con' is not a finite number"),
    ({"seg_id": 1}, "'seg_id' is 1; it must be a string"),
    ({"SYS": " "}, "'SYS' is empty"),
    ({"language": "xx"}, "unknown language 'xx'"),
    ({"annotator": ["x"]}, "'annotator' is [\"x\"]"),
  ],
)
def test_thumb_ratings_invalid_values_are_refused_by_line(tmp_path, change, message):
  with pytest.raises(UsageError) as caught:
    _read(tmp_path, {**_ROW, **change})
  assert str(caught.value).startswith(f"{tmp_path}/ratings.jsonl, line 1: {message}")
  assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["SYS", "seg_id", "hyp", "P", "R", "Fl", "Inc", "Con"])
def test_thumb_ratings_every_field_is_required(tmp_path, name):
  with pytest.raises(UsageError, match=f"line 1: no '{name}'"):
    _read(tmp_path, _without(name))


@pytest.mark.parametrize(
  "second, message",
  [
    (_ROW, r"line 2: the caption of 'A' for image '1' was rated before \(.*line 1\)"),
    ({**_ROW, "annotator": "x"}, "line 2: some lines have 'annotator' and others do not"),
    ({**_ROW, "language": "en", "seg_id": "2"}, "line 2: some lines have 'language' and others do not"),
    ({**_ROW, "seg_id": "2", "SYS": "B"}, r"'A' has no rating for 1 of 2 images \(2\)"),
    ("{", "line 2: broken JSON"),
  ],
)
def test_thumb_ratings_inconsistent_lines_are_refused(tmp_path, second, message):
  with pytest.raises(UsageError, match=message):
    _read(tmp_path, _ROW, second)


def test_thumb_ratings_of_different_captions_and_empty_files_are_refused(tmp_path):
  with pytest.raises(UsageError, match="line 2: the caption of 'A' for image '1' differs from an earlier"):
    _read(tmp_path, {**_ROW, "annotator": "x"}, {**_ROW, "annotator": "y", "hyp": "a cat"})
  with pytest.raises(UsageError, match="contains no ratings; each line must have SYS"):
    _read(tmp_path)


def test_thumb_references_are_read_in_thumb_and_xm3600_layouts(tmp_path):
  thumb = _write(tmp_path, {"seg_id": "1", "refs": ["a dog", "dog"]}, name="thumb.json")
  released = {"image/key": "1", "en": {"caption": ["a dog", "dog"]}, "de": {"caption": ["Hund"]}}
  xm3600 = _write(tmp_path, released, name="captions.jsonl")
  expected = {"1": ["a dog", "dog"]}
  assert thumb_ratings.read_references(thumb, ["1"]) == expected
  assert thumb_ratings.read_references(xm3600, ["1"]) == expected
  assert thumb_ratings.read_references(xm3600, ["1"], "de") == {"1": ["Hund"]}


@pytest.mark.parametrize(
  "rows, message",
  [
    (({"seg_id": "1", "refs": []},), "line 1: 'refs' must be a list of one or more strings"),
    (({"seg_id": "1", "refs": ["a", 1]},), "line 1: 'refs' must be a list"),
    (({"seg_id": "1", "refs": "a"},), "line 1: 'refs' must be a list"),
    (
      ({"seg_id": "1", "refs": ["a"]}, {"seg_id": "1", "refs": ["a"]}),
      "line 2: image '1' had references before",
    ),
    (({"seg_id": "2", "refs": ["a"]},), r"1 of 1 rated images have no references \(1\)"),
    (({"image/key": "1", "en": {"caption": []}},), "1 of 1 rated images have no references"),
    (("{",), "line 1"),
    ((), "no image"),
  ],
)
def test_thumb_references_malformed_are_refused(tmp_path, rows, message):
  with pytest.raises(UsageError, match=message) as caught:
    thumb_ratings.read_references(_write(tmp_path, *rows), ["1"])
  assert str(caught.value).isprintable()
