"""COCO annotations and results, MSR-VTT and other JSON documents as references and predictions."""

import json

import pytest

from xmcap.errors import UsageError
from xmcap.reading import documents
from xmcap.scoring import read_predictions, read_references, score


def _write(tmp_path, value, indent=None):
  path = tmp_path / "coco"
  path.write_text(json.dumps(value, indent=indent))
  return path


def _annotations(*annotations, images=({"id": 7}, {"id": "8"})):
  return {"info": {}, "images": list(images), "annotations": list(annotations)}


@pytest.mark.parametrize("indent", [None, 2])
def test_coco_annotations_are_references_of_one_language(tmp_path, indent):
  document = _annotations(
    {"id": 1, "image_id": 7, "caption": "a"},
    {"id": 2, "image_id": "7", "caption": "b"},
    images=[{"id": 9, "file_name": "9.jpg"}, {"id": 7}],
  )
  references = read_references(_write(tmp_path, document, indent), language="el")
  assert references == {"9": {}, "7": {"el": ["a", "b"]}}
  assert list(references) == ["9", "7"]


def test_coco_annotations_without_images_are_read(tmp_path):
  document = {"annotations": [{"image_id": 7, "caption": "a"}, {"image_id": 3, "caption": "b"}]}
  assert read_references(_write(tmp_path, document), language="el") == {
    "7": {"el": ["a"]},
    "3": {"el": ["b"]},
  }


def test_coco_annotations_of_another_language_are_empty(tmp_path):
  document = _annotations({"image_id": 7, "caption": "a"})
  assert read_references(_write(tmp_path, document), ["en"], "el") == {"7": {}, "8": {}}


@pytest.mark.parametrize(
  "document, message",
  [
    ({"images": [{"id": 1}]}, r"images\[0\]: the columns are 'id'; wanted are 'caption'"),
    ({"images": [{"id": 1}], "annotations": {}}, "annotations: must be a list"),
    ({"images": {}, "annotations": []}, "images: must be a list"),
    (_annotations(7), r"annotations\[0\]: must be an object"),
    (_annotations({"image_id": 7}), r"annotations\[0\]: the columns are 'image_id'; wanted are 'caption'"),
    (_annotations({"image_id": 7, "caption": None}), r"annotations\[0\]: 'caption' must be a string"),
    (_annotations({"caption": "a"}), r"annotations\[0\]: 'image_id' is missing"),
    (_annotations({"image_id": True, "caption": "a"}), r"'image_id' is missing or neither"),
    (_annotations({"image_id": 7.5, "caption": "a"}), r"'image_id' is missing or neither"),
    (_annotations({"image_id": [], "caption": "a"}), r"'image_id' is missing or neither"),
    (_annotations({"image_id": 1, "caption": "a"}), r"annotations\[0\]: image_id 1 is not among the images"),
    (_annotations(images=[{"id": 7}, {"id": "7"}]), r"images\[1\]: id 7 occurs twice"),
    (_annotations(images=[]), "contains no images"),
  ],
)
def test_malformed_coco_annotations_are_refused(tmp_path, document, message):
  with pytest.raises(UsageError, match=message) as caught:
    read_references(_write(tmp_path, document), language="el")
  assert "\n" not in str(caught.value)


def test_repeated_coco_annotation_ids_are_noted(tmp_path):
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


def test_coco_annotations_need_a_language(tmp_path):
  path = _write(tmp_path, _annotations({"image_id": 7, "caption": "a"}))
  with pytest.raises(UsageError, match="'language' is missing; give it there, or .* with --language=CODE"):
    read_references(path)
  with pytest.raises(UsageError, match="unknown language 'xx'"):
    read_references(path, language="xx")
  with pytest.raises(UsageError, match="has no caption/tokenized"):
    read_references(path, language="el", tokenized=True)


@pytest.mark.parametrize("indent", [None, 2])
def test_coco_results_are_predictions_of_one_language(tmp_path, indent):
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
def test_malformed_coco_results_are_refused(tmp_path, results, message):
  with pytest.raises(UsageError, match=message):
    read_predictions(_write(tmp_path, results), "el")


@pytest.mark.parametrize("name", ["language", "lang", "language_code", "lang_code"])
def test_language_column_has_several_names(tmp_path, name):
  path = tmp_path / "captions.csv"
  path.write_text(f"image_id,{name},caption\n7,el,a\n7,cz,b\n")
  assert read_predictions(path) == {"7": {"el": "a", "cs": "b"}}
  assert read_references(path) == {"7": {"el": ["a"], "cs": ["b"]}}
  path.write_text(f"{name},caption\nel,a\n")
  assert read_predictions(path, references={"7": {"el": ["x"]}}) == {"7": {"el": "a"}}


def test_locale_column_is_not_the_language(tmp_path):
  path = tmp_path / "captions.csv"
  path.write_text("image_id,locale,caption\n7,de,a\n")
  assert read_predictions(path, "el") == {"7": {"el": "a"}}


def test_coco_results_need_a_language(tmp_path):
  with pytest.raises(UsageError, match=r"results\[0\]: 'language' is missing; .* --language=CODE"):
    read_predictions(_write(tmp_path, [{"image_id": 7, "caption": "a"}]))


@pytest.mark.parametrize(
  ("head", "is_object"),
  [
    (b'{"info": {}', True),
    (b'\n { "annotations" :', True),
    (b'{"image/key": "annotations"', False),
    (b'{"infos": 1', True),
    (b'{"dataset": "x", "annotations": [', True),
    (b'{"dataset": "x", "image/key": "k", "annotations": [', False),
    (b'{"image_id": [7, 8', True),
    (b'{"images": ["7.jpg"], "response": "a"}\n{"images": ["8.jpg"], "response": "b"}', False),
    (b'{"id": 7, "caption": "a dog"}', False),
    (b'{"name": 7, "caption": "a dog"}', False),
    (b'{\n  "id": 7,', True),
    (b" \n[", False),
    (b"", False),
  ],
)
def test_json_object_is_told_from_jsonl_by_first_bytes(head, is_object):
  assert documents.is_object(head) is is_object


_ROWS = [{"image_id": 7, "caption": "a dog"}, {"image_id": 8, "caption": "a cat"}]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(
  ("value", "note"),
  [
    ({"results": _ROWS}, "the rows are those of 'results'"),
    ({"info": {"model": "m"}, "predictions": _ROWS, "count": 2}, "the rows are those of 'predictions'"),
    ({"captions": _ROWS, "other": []}, "the rows are those of 'captions'"),
    ({"annotations": _ROWS, "version": 1}, ""),
    ({"results": {"7": "a dog", "8": "a cat"}}, ""),
    ({"7": {"caption": "a dog"}, "8": {"caption": "a cat"}}, ""),
    ({"7": [{"caption": "a dog"}], "8": [{"caption": "a cat"}]}, ""),  # as pycocoevalcap's gts and res
    # pandas 2.2's DataFrame.to_json, in the orients columns, index, split and table
    ({"image_id": {"0": 7, "1": 8}, "caption": {"0": "a dog", "1": "a cat"}}, "pandas' orient 'columns'"),
    ({"caption": {"7": "a dog", "8": "a cat"}}, "pandas' orient 'columns'"),
    ({"0": _ROWS[0], "1": _ROWS[1]}, ""),
    (
      {"columns": ["image_id", "caption"], "index": [0, 1], "data": [[7, "a dog"], [8, "a cat"]]},
      "pandas' orient 'split'",
    ),
    ({"schema": {"fields": [], "pandas_version": "1.4.0"}, "data": _ROWS}, "the rows are those of 'data'"),
    ({"image_id": [7, 8], "caption": ["a dog", "a cat"]}, "the columns are lists"),
  ],
)
def test_rows_nested_in_a_json_object_are_read(tmp_path, value, note, indent):
  path = _write(tmp_path, value, indent)
  predictions = read_predictions(path, "en")
  assert predictions == {"7": {"en": "a dog"}, "8": {"en": "a cat"}}
  assert note in "; ".join(predictions.notes)
  assert read_references(path, language="en") == {"7": {"en": ["a dog"]}, "8": {"en": ["a cat"]}}


@pytest.mark.parametrize(
  ("value", "message"),
  [
    ({"a": _ROWS, "b": _ROWS}, "rows in several members, 'a, b'"),
    ({"image_id": {"0": 7}, "caption": {"0": "a", "1": "b"}}, r"to_json\(orient='records'\)"),
    ({"caption": {"0": "a", "1": "b"}}, "row '0': the columns are 'caption'"),
    ({"image_id": [7], "caption": ["a", "b"]}, "the lists 'image_id, caption' differ in length"),
    (
      {"columns": ["image_id", "caption"], "data": [[7]]},
      "each row of 'data' must have a value for each of the 'col",
    ),
    ([[7, "a"]], r"results\[0\]: must be an object"),
    ({"filenames": ["7.jpg"], "captions": ["a"]}, "the columns are 'filenames, captions'"),
    ({"config": 1, "scores": {"a": 1}}, "JSON of no known layout, with the members 'config, scores'"),
  ],
)
def test_json_objects_of_unknown_layout_are_refused(tmp_path, value, message):
  with pytest.raises(UsageError, match=message):
    read_predictions(_write(tmp_path, value), "en")


def test_msr_vtt_references_use_the_predicted_split(tmp_path):
  """videodatainfo_2016.json: captions are `sentences`, with the `video_id` of a video that has a split."""
  videos = [{"video_id": f"video{n}", "id": n, "split": split} for n, split in enumerate(("train", "test"))]
  sentences = [{"caption": text, "video_id": f"video{n}", "sen_id": n} for n, text in enumerate("xyz"[:2])]
  document = {
    "info": {"year": "2016"},
    "videos": videos,
    "sentences": [*sentences, {**sentences[1], "caption": "z"}],
  }
  references = read_references(_write(tmp_path, document), language="en")
  assert references == {"video0": {"en": ["x"]}, "video1": {"en": ["y", "z"]}}
  assert score(references, {"video1": {"en": "y"}}).statistics["en"].keys == ("video1",)


def test_coco_annotations_may_have_a_language_field(tmp_path):
  document = _annotations(
    {"image_id": 7, "caption": "a dog", "language": "en"},
    {"image_id": 7, "caption": "ein Hund", "language": "German"},
  )
  references = read_references(_write(tmp_path, document), language="fr")
  assert references == {"7": {"en": ["a dog"], "de": ["ein Hund"]}, "8": {}}
  document = _annotations({"image_id": 7, "caption": "a dog", "caption_ko": "개"})
  assert read_references(_write(tmp_path, document), language="ko") == {"7": {"ko": ["개"]}, "8": {}}
