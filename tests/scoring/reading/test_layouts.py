import json

import pytest

from xmcap.errors import UsageError
from xmcap.scoring import read_predictions, read_references, score
from xmcap.scoring.reading import layouts


def _write(tmp_path, value, indent=None):
  path = tmp_path / "coco"
  path.write_text(json.dumps(value, indent=indent))
  return path


def _annotations(*annotations, images=({"id": 7}, {"id": "8"})):
  return {"info": {}, "images": list(images), "annotations": list(annotations)}


@pytest.mark.parametrize("indent", [None, 2])
def test_annotations_are_references_of_one_language(tmp_path, indent):
  document = _annotations(
    {"id": 1, "image_id": 7, "caption": "a"},
    {"id": 2, "image_id": "7", "caption": "b"},
    images=[{"id": 9, "file_name": "9.jpg"}, {"id": 7}],
  )
  references = read_references(_write(tmp_path, document, indent), language="el")
  assert references == {"9": {}, "7": {"el": ["a", "b"]}}
  assert list(references) == ["9", "7"]


def test_images_need_not_be_listed(tmp_path):
  document = {"annotations": [{"image_id": 7, "caption": "a"}, {"image_id": 3, "caption": "b"}]}
  assert read_references(_write(tmp_path, document), language="el") == {
    "7": {"el": ["a"]},
    "3": {"el": ["b"]},
  }


def test_another_language_than_wanted_leaves_nothing(tmp_path):
  document = _annotations({"image_id": 7, "caption": "a"})
  assert read_references(_write(tmp_path, document), ["en"], "el") == {"7": {}, "8": {}}


@pytest.mark.parametrize(
  "document, message",
  [
    ({"images": [{"id": 1}]}, "annotations: must be a list"),
    ({"images": {}, "annotations": []}, "images: must be a list"),
    (_annotations(7), r"annotations\[0\]: must be an object"),
    (_annotations({"image_id": 7}), r"annotations\[0\]: 'caption' is missing"),
    (_annotations({"image_id": 7, "caption": None}), r"annotations\[0\]: 'caption' is missing"),
    (_annotations({"caption": "a"}), r"annotations\[0\]: 'image_id' is missing"),
    (_annotations({"image_id": True, "caption": "a"}), r"'image_id' is missing or neither"),
    (_annotations({"image_id": 7.5, "caption": "a"}), r"'image_id' is missing or neither"),
    (_annotations({"image_id": [], "caption": "a"}), r"'image_id' is missing or neither"),
    (_annotations({"image_id": 1, "caption": "a"}), r"annotations\[0\]: image_id 1 is not among the images"),
    (_annotations(images=[{"id": 7}, {"id": "7"}]), r"images\[1\]: id 7 occurs twice"),
    (_annotations(images=[]), "contains no images"),
  ],
)
def test_bad_annotations_are_named(tmp_path, document, message):
  with pytest.raises(UsageError, match=message) as caught:
    read_references(_write(tmp_path, document), language="el")
  assert "\n" not in str(caught.value)


def test_ids_of_annotations_decide_nothing_and_repeated_ones_are_counted(tmp_path):
  ids = [1, 1, "1", None, {"a": 1}, {"a": 1}]
  document = _annotations(
    *({"image_id": 7, "id": value, "caption": str(place)} for place, value in enumerate(ids)),
    images=[{"id": 7}],
  )
  references = read_references(_write(tmp_path, document), language="el")
  assert references == {"7": {"el": ["0", "1", "2", "3", "4", "5"]}}
  (note,) = references.notes
  assert "2 of the annotations have the id of an earlier one" in note
  assert note in score(references, {"7": {"el": "0"}}).table.notes


def test_references_need_a_language_and_hold_no_released_words(tmp_path):
  path = _write(tmp_path, _annotations({"image_id": 7, "caption": "a"}))
  with pytest.raises(UsageError, match="'language' is missing; give it there, or .* with --language=CODE"):
    read_references(path)
  with pytest.raises(UsageError, match="unknown language 'xx'"):
    read_references(path, language="xx")
  with pytest.raises(UsageError, match="has no caption/tokenized"):
    read_references(path, language="el", tokenized=True)


@pytest.mark.parametrize("indent", [None, 2])
def test_results_are_predictions_of_one_language(tmp_path, indent):
  results = [{"image_id": 7, "caption": "a", "id": 1}, {"image_id": "k", "caption": ""}]
  assert read_predictions(_write(tmp_path, results, indent), "el") == {"7": {"el": "a"}, "k": {"el": ""}}


@pytest.mark.parametrize(
  "results, message",
  [
    ([[]], r"results\[0\]: must be an object"),
    (
      [{"image_id": 7, "caption": "a"}, {"image_id": 7}],
      r"results\[1\]: 'caption' is missing or not a string",
    ),
    ([{"image_id": None, "caption": "a"}], r"results\[0\]: 'image_id' is missing"),
    (
      [{"image_id": 7, "caption": "a"}, {"image_id": "7", "caption": "b"}],
      r"twice, with another caption \(el 7, results\[1\]\)",
    ),
    ([], "contains no predictions"),
  ],
)
def test_bad_results_are_named(tmp_path, results, message):
  with pytest.raises(UsageError, match=message):
    read_predictions(_write(tmp_path, results), "el")


@pytest.mark.parametrize("name", ["language", "lang", "language_code", "lang_code"])
def test_the_column_of_languages_has_several_names(tmp_path, name):
  path = tmp_path / "captions.csv"
  path.write_text(f"image_id,{name},caption\n7,el,a\n7,cz,b\n")
  assert read_predictions(path) == {"7": {"el": "a", "cs": "b"}}
  assert read_references(path) == {"7": {"el": ["a"], "cs": ["b"]}}
  path.write_text(f"{name},caption\nel,a\n")
  assert read_predictions(path, references={"7": {"el": ["x"]}}) == {"7": {"el": "a"}}


def test_a_region_is_not_taken_for_the_language(tmp_path):
  path = tmp_path / "captions.csv"
  path.write_text("image_id,locale,caption\n7,de,a\n")
  assert read_predictions(path, "el") == {"7": {"el": "a"}}


def test_results_need_a_language(tmp_path):
  with pytest.raises(UsageError, match=r"results\[0\]: 'language' is missing; .* --language=CODE"):
    read_predictions(_write(tmp_path, [{"image_id": 7, "caption": "a"}]))


@pytest.mark.parametrize(
  "head, annotations, results",
  [
    (b'{"info": {}', True, False),
    (b'\n { "annotations" :', True, False),
    (b'{"image/key": "annotations"', False, False),
    (b'{"infos": 1', False, False),
    (b'{"dataset": "x", "annotations": [', True, False),
    (b'{"dataset": "x", "image/key": "k", "annotations": [', False, False),
    (b" \n[", False, True),
    (b"", False, False),
  ],
)
def test_layouts_are_told_by_the_first_bytes(head, annotations, results):
  assert layouts.is_annotations(head) is annotations
  assert layouts.is_results(head) is results
