"""Matching keys of predictions with those of references: image file names before numeric ids."""

import unicodedata

import pytest

from tests.make import files
from xmcap.scoring import read_predictions, read_references, score


def _coco(names):
  return {
    "images": [{"id": id, "file_name": name} for id, name in names.items()],
    "annotations": [{"image_id": id, "caption": f"reference {id}"} for id in names],
  }


def _named(**names):
  return [{"image_id": int(id[1:]), "file_name": name, "caption": f"of {name}"} for id, name in names.items()]


def _results(*keys):
  return [{"image_id": key, "caption": f"of {key}"} for key in keys]


@pytest.mark.parametrize(
  ("names", "predictions", "keys", "note"),
  [
    (
      {139: "dog.jpg", 7: "000000000139.jpg"},
      _results("000000000139.jpg", "dog.jpg"),
      {"7": "of 000000000139.jpg", "139": "of dog.jpg"},
      "2 keys matched by the names of pictures, '000000000139.jpg' is '7'; by number 1 would be another image",
    ),
    ({139: "dog.jpg", 7: "000139.jpg"}, _results("000139"), {"7": "of 000139"}, "'000139' is '7'"),
    # Whole ids are the references' own, though another picture has the number.
    ({1: "2.jpg", 2: "1.jpg"}, _results(1, 2), {"1": "of 1", "2": "of 2"}, "2 keys could be the number of another"),
    ({1: "2.jpg", 2: "1.jpg"}, _results("1.jpg", "2.jpg"), {"2": "of 1.jpg", "1": "of 2.jpg"}, "by number 2 would be"),
    # A picture that the file does not name is none of its pictures.
    ({139: "dog.jpg"}, _results("000000000139.jpg"), {"000000000139.jpg": "of 000000000139.jpg"}, ""),
    ({139: "dog.jpg"}, _results("0139"), {"139": "of 0139"}, "1 key written another way"),
    ({139: "a/1.jpg", 7: "b/1.jpg"}, _results("1.jpg"), {"1.jpg": "of 1.jpg"}, ""),
    ({139: "a/1.jpg", 7: "b/1.jpg"}, _results("b/1.jpg"), {"7": "of b/1.jpg"}, "'b/1.jpg' is '7'"),
    # The predictions' own names, in their rows or in a list of images.
    (
      {1: "dog.jpg", 2: "cat.jpg"},
      _named(_2="x/dog.jpg", _1="cat.jpg"),
      {"1": "of x/dog.jpg", "2": "of cat.jpg"},
      "by number 2 would be another image",
    ),
    (
      {1: "dog.jpg", 2: "cat.jpg"},
      {"images": [{"id": 2, "file_name": "dog.jpg"}, {"id": 1, "file_name": "cat.jpg"}], "annotations": _results(2, 1)},
      {"1": "of 2", "2": "of 1"},
      "matched by the names of pictures",
    ),
    (
      {1: "dog.jpg", 2: "cat.jpg"},
      _named(_1="/tmp/0.jpg", _2="/tmp/1.jpg"),
      {"1": "of /tmp/0.jpg", "2": "of /tmp/1.jpg"},
      "",
    ),
    ({1: unicodedata.normalize("NFD", "café.jpg")}, _results("café.jpg"), {"1": "of café.jpg"}, "is '1'"),
  ],
)  # fmt: skip
def test_image_file_names_match_before_numeric_ids(tmp_path, names, predictions, keys, note):
  references = read_references(files.json(tmp_path / "r.json", _coco(names)), language="en")
  read = read_predictions(files.json(tmp_path / "p.json", predictions), "en", references)
  assert read == {key: {"en": caption} for key, caption in keys.items()}
  assert note in "; ".join(read.notes)
  assert bool(note) == bool(read.notes)


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
def test_image_keys_match_across_unicode_normal_forms(tmp_path, forms):
  theirs, ours = (unicodedata.normalize(form, "がぎ é") for form in forms)
  read = read_predictions(files.json(tmp_path / "p.json", _results(theirs)), "en", {ours: {"en": ["x"]}})
  assert read == {ours: {"en": f"of {theirs}"}}
  assert "in another Unicode form" in read.notes[0]


def test_karpathy_json_keys_match_file_names(tmp_path):
  image = {
    "cocoid": 7,
    "filename": "COCO_val2014_000000000139.jpg",
    "split": "test",
    "sentences": [{"raw": "a"}],
  }
  references = read_references(files.json(tmp_path / "r.json", {"images": [image]}), language="en")
  predictions = read_predictions(files.json(tmp_path / "p.json", _results(139)), "en", references)
  assert predictions == {"7": {"en": "of 139"}}


def test_vizwiz_rejected_captions_are_left_out(tmp_path):
  """vizwiz_api/vizwiz.py leaves them out; vizwiz_eval_cap/eval.py then scores only images that have captions."""
  document = _coco({0: "VizWiz_val_0.jpg", 1: "VizWiz_val_1.jpg"})
  flags = {"is_rejected": False, "is_precanned": False}
  canned = {**flags, "image_id": 0, "caption": "Quality issues are too severe", "is_precanned": True}
  rejected = {**flags, "image_id": 1, "caption": "spam", "is_rejected": True}
  first = {**document["annotations"][0], **flags, "text_detected": True}
  document["annotations"] = [first, canned, rejected]
  references = read_references(files.json(tmp_path / "r.json", document), language="en")
  assert references == {"0": {"en": ["reference 0"]}, "1": {}}
  note = "references: 2 captions marked as rejected or precanned left out, as in VizWiz's evaluation; 1 image without"
  assert references.notes[0].startswith(note)
  predictions = read_predictions(files.json(tmp_path / "p.json", _results(0, 1)), "en", references)
  assert score(references, predictions).statistics["en"].keys == ("0",)
  rows = files.text(tmp_path / "r.csv", "image_id,caption,is_rejected\n0,a,False\n0,b,True\n")
  assert read_references(rows, language="en") == {"0": {"en": ["a"]}}
