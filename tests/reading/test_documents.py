"""COCO annotations and results, MSR-VTT and other JSON documents as references and predictions."""

import json

import pytest

from tests.make import files
from tests.make.refusals import refusal
from xmcap.errors import UsageError
from xmcap.reading import documents
from xmcap.scoring import read_predictions, read_references, score


def _references(tmp_path, value, language="el", **options):
  return read_references(files.json(tmp_path / "coco", value), language=language, **options)


def _predictions(tmp_path, value, language="el"):
  return read_predictions(files.json(tmp_path / "coco", value), language)


def _annotations(*annotations, images=({"id": 7}, {"id": "8"})):
  return {"info": {}, "images": list(images), "annotations": list(annotations)}


@pytest.mark.parametrize("indent", [None, 2])
def test_coco_annotations_are_references_of_one_language(tmp_path, indent):
  document = _annotations(
    {"id": 1, "image_id": 7, "caption": "a"},
    {"id": 2, "image_id": "7", "caption": "b"},
    images=[{"id": 9, "file_name": "9.jpg"}, {"id": 7}],
  )
  path = files.text(tmp_path / "coco", json.dumps(document, indent=indent))
  references = read_references(path, language="el")
  assert references == {"9": {}, "7": {"el": ["a", "b"]}}
  assert list(references) == ["9", "7"]


def test_coco_annotations_without_images_are_read(tmp_path):
  document = {"annotations": [{"image_id": 7, "caption": "a"}, {"image_id": 3, "caption": "b"}]}
  assert _references(tmp_path, document) == {"7": {"el": ["a"]}, "3": {"el": ["b"]}}


def test_coco_annotations_of_another_language_are_empty(tmp_path):
  document = _annotations({"image_id": 7, "caption": "a"})
  assert _references(tmp_path, document, languages=["en"]) == {"7": {}, "8": {}}


_CAPTION = {"image_id": 7, "caption": "a"}
_NO_KEY = r"'image_id' is missing or neither"


@pytest.mark.parametrize(
  "document, message",
  [
    ({"images": [{"id": 1}]}, r"images\[0\]: the columns are 'id'; wanted are 'caption'"),
    ({"images": [{"id": 1}], "annotations": {}}, "annotations: must be a list"),
    ({"images": {}, "annotations": []}, "images: must be a list"),
    (_annotations(7), r"annotations\[0\]: must be an object"),
    (_annotations({"image_id": 7}), r"annotations\[0\]: the columns are 'image_id'; wanted are 'caption'"),
    (_annotations(_CAPTION | {"caption": None}), r"annotations\[0\]: 'caption' must be a string"),
    (_annotations({"caption": "a"}), r"annotations\[0\]: 'image_id' is missing"),
    (_annotations(_CAPTION | {"image_id": True}), _NO_KEY),
    (_annotations(_CAPTION | {"image_id": 7.5}), _NO_KEY),
    (_annotations(_CAPTION | {"image_id": []}), _NO_KEY),
    (_annotations(_CAPTION | {"image_id": 1}), r"annotations\[0\]: image_id 1 is not among the images"),
    (_annotations(images=[{"id": 7}, {"id": "7"}]), r"images\[1\]: id 7 occurs twice"),
    (_annotations(images=[]), "contains no images"),
  ],
)
def test_malformed_coco_annotations_are_refused(tmp_path, document, message):
  with pytest.raises(UsageError, match=message) as caught:
    _references(tmp_path, document)
  assert "\n" not in str(caught.value)


def test_repeated_coco_annotation_ids_are_noted(tmp_path):
  ids = [1, 1, "1", None, {"a": 1}, {"a": 1}]
  annotations = [{"image_id": 7, "id": value, "caption": str(place)} for place, value in enumerate(ids)]
  references = _references(tmp_path, _annotations(*annotations, images=[{"id": 7}]))
  assert references == {"7": {"el": ["0", "1", "2", "3", "4", "5"]}}
  (note,) = references.notes
  assert "2 of the annotations have the id of an earlier one" in note
  assert note in score(references, {"7": {"el": "0"}}).table.notes


def test_coco_annotations_need_a_language(tmp_path):
  path = files.json(tmp_path / "coco", _annotations(_CAPTION))
  message = refusal(read_references, path)
  assert "'language' is missing; give it there, or" in message and "with --language=CODE" in message
  assert "unknown language 'xx'" in refusal(read_references, path, language="xx")
  assert "has no caption/tokenized" in refusal(read_references, path, language="el", tokenized=True)


@pytest.mark.parametrize("indent", [None, 2])
def test_coco_results_are_predictions_of_one_language(tmp_path, indent):
  results = [{"image_id": 7, "caption": "a", "id": 1}, {"image_id": "k", "caption": ""}]
  path = files.text(tmp_path / "coco", json.dumps(results, indent=indent))
  assert read_predictions(path, "el") == {"7": {"el": "a"}, "k": {"el": ""}}


_ROWS = [{"image_id": 7, "caption": "a dog"}, {"image_id": 8, "caption": "a cat"}]


@pytest.mark.parametrize(
  ("value", "message"),
  [
    ([[]], r"results\[0\]: must be an object"),
    ([_CAPTION, {"image_id": 7}], r"results\[1\]: 'caption' is missing or not a string"),
    ([_CAPTION | {"image_id": None}], r"results\[0\]: 'image_id' is missing"),
    ([_CAPTION, _CAPTION | {"caption": "b"}], r"twice, with another caption \(el 7, results\[1\]\)"),
    ([], "contains no predictions"),
    # Objects of unknown layout.
    ({"a": _ROWS, "b": _ROWS}, "rows in several members, 'a, b'"),
    ({"image_id": {"0": 7}, "caption": {"0": "a", "1": "b"}}, r"to_json\(orient='records'\)"),
    ({"caption": {"0": "a", "1": "b"}}, "row '0': the columns are 'caption'"),
    ({"image_id": [7], "caption": ["a", "b"]}, "the lists 'image_id, caption' differ in length"),
    ({"columns": ["image_id", "caption"], "data": [[7]]}, "each row of 'data' must have a value for each of"),
    ([[7, "a"]], r"results\[0\]: must be an object"),
    ({"filenames": ["7.jpg"], "captions": ["a"]}, "the columns are 'filenames, captions'"),
    ({"config": 1, "scores": {"a": 1}}, "JSON of no known layout, with the members 'config, scores'"),
  ],
)
def test_malformed_coco_results_are_refused(tmp_path, value, message):
  with pytest.raises(UsageError, match=message):
    _predictions(tmp_path, value)


@pytest.mark.parametrize("name", ["language", "lang", "language_code", "lang_code"])
def test_language_column_has_several_names(tmp_path, name):
  path = files.text(tmp_path / "captions.csv", f"image_id,{name},caption\n7,el,a\n7,cz,b\n")
  assert read_predictions(path) == {"7": {"el": "a", "cs": "b"}}
  assert read_references(path) == {"7": {"el": ["a"], "cs": ["b"]}}
  files.text(path, f"{name},caption\nel,a\n")
  assert read_predictions(path, references={"7": {"el": ["x"]}}) == {"7": {"el": "a"}}


def test_locale_column_is_not_the_language(tmp_path):
  path = files.text(tmp_path / "captions.csv", "image_id,locale,caption\n7,de,a\n")
  assert read_predictions(path, "el") == {"7": {"el": "a"}}


def test_coco_results_need_a_language(tmp_path):
  message = refusal(_predictions, tmp_path, [_CAPTION], None)
  assert "results[0]: 'language' is missing; " in message and "--language=CODE" in message


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


_SPLIT = {"columns": ["image_id", "caption"], "index": [0, 1], "data": [[7, "a dog"], [8, "a cat"]]}


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
    (_SPLIT, "pandas' orient 'split'"),
    ({"schema": {"fields": [], "pandas_version": "1.4.0"}, "data": _ROWS}, "the rows are those of 'data'"),
    ({"image_id": [7, 8], "caption": ["a dog", "a cat"]}, "the columns are lists"),
  ],
)
def test_rows_nested_in_a_json_object_are_read(tmp_path, value, note, indent):
  path = files.text(tmp_path / "coco", json.dumps(value, indent=indent))
  predictions = read_predictions(path, "en")
  assert predictions == {"7": {"en": "a dog"}, "8": {"en": "a cat"}}
  assert note in "; ".join(predictions.notes)
  assert read_references(path, language="en") == {"7": {"en": ["a dog"]}, "8": {"en": ["a cat"]}}


def test_msr_vtt_references_use_the_predicted_split(tmp_path):
  """videodatainfo_2016.json: captions are `sentences`, with the `video_id` of a video that has a split."""
  videos = [{"video_id": f"video{n}", "id": n, "split": split} for n, split in enumerate(("train", "test"))]
  sentences = [
    {"caption": text, "video_id": f"video{n}", "sen_id": n} for n, text in ((0, "x"), (1, "y"), (1, "z"))
  ]
  document = {"info": {"year": "2016"}, "videos": videos, "sentences": sentences}
  references = _references(tmp_path, document, "en")
  assert references == {"video0": {"en": ["x"]}, "video1": {"en": ["y", "z"]}}
  assert score(references, {"video1": {"en": "y"}}).statistics["en"].keys == ("video1",)


def test_coco_annotations_may_have_a_language_field(tmp_path):
  document = _annotations(
    {"image_id": 7, "caption": "a dog", "language": "en"},
    {"image_id": 7, "caption": "ein Hund", "language": "German"},
  )
  assert _references(tmp_path, document, "fr") == {"7": {"en": ["a dog"], "de": ["ein Hund"]}, "8": {}}
  document = _annotations({"image_id": 7, "caption": "a dog", "caption_ko": "개"})
  assert _references(tmp_path, document, "ko") == {"7": {"ko": ["개"]}, "8": {}}


def test_captions_among_the_scores_of_images_are_predictions(tmp_path):
  """The form of COCO-CN's `result_SYSTEM.txt`."""
  path = tmp_path / "result_coco-cn.txt"
  captions = [{"file_name": "COCO_val2014_000000000008.jpg", "caption": "一个 女人", "id": 15, "image_id": 8}]
  document = {
    "overall": {"CIDEr": 0.846, "METEOR": 0.272},
    "imgToEval": {"8": {"caption": captions, "CIDEr": 1.037, "image_id": 8}, "9": {"caption": "一 只 猫"}},
  }
  path.write_text(json.dumps(document))
  predictions = read_predictions(path, "zh")
  assert predictions == {"8": {"zh": "一个 女人"}, "9": {"zh": "一 只 猫"}}
  assert any("among the scores of 'imgToEval'" in note for note in predictions.notes)
  document["imgToEval"]["9"]["caption"] = [7]
  path.write_text(json.dumps(document))
  with pytest.raises(UsageError, match="imgToEval '9': 'caption' must be a text"):
    read_predictions(path, "zh")
