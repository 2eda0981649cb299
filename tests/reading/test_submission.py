"""Captions for the servers of COCO and EvalAI: integer ids, one caption for each image of the split."""

import json

import pytest

from tests.make import files
from tests.make.command import xmcap
from tests.make.refusals import refusal
from xmcap.reading import submission


def _captions(tmp_path, *keys, language="en"):
  return files.captions(tmp_path / "captions.jsonl", {key: {language: f"a {key}"} for key in keys})


def _images(tmp_path, **names):
  """Image info as of COCO's and nocaps' tests: no captions."""
  images = [{"id": int(number[1:]), "file_name": name, "height": 4} for number, name in names.items()]
  return files.json(tmp_path / "info.json", {"info": {}, "images": images, "licenses": []})


@pytest.mark.parametrize(
  "keys",
  [
    ("9", "42"),
    ("000000000009", "000000000042.jpg"),
    ("COCO_val2014_000000000009.jpg", "COCO_val2014_000000000042"),
  ],
)
def test_ids_are_integers_as_coco_names_its_files(tmp_path, keys):
  captions, _ = submission.read(_captions(tmp_path, *reversed(keys)))
  assert list(captions.items()) == [(9, f"a {keys[0]}"), (42, f"a {keys[1]}")]


def test_file_names_of_the_split_become_its_ids(tmp_path):
  images = _images(tmp_path, _7="0013ea2087020901.jpg", _8="00a.jpg")
  captions, notes = submission.read(_captions(tmp_path, "00a", "0013ea2087020901"), images=images)
  assert captions == {7: "a 0013ea2087020901", 8: "a 00a"}
  assert any("matched by the names of pictures" in note for note in notes)


@pytest.mark.parametrize(
  ("keys", "listed", "message"),
  [
    (("1", "dog"), (), "'dog' is no id: give --images=FILE"),
    (("1", "٢"), (), "'٢' is no id"),
    (("7", "007"), (), "'007' is another caption of image 7"),
    (("1",), (1, 2, 3), "2 images lack a caption (2, 3)"),
    (("1", "2", "5"), (1, 2), "1 images are not in "),
    (("1", "2", "dog"), (1, 2), "'dog' is no id"),
  ],
)
def test_incomplete_or_foreign_ids_are_refused(tmp_path, keys, listed, message):
  images = _images(tmp_path, **{f"_{number}": f"{number}.jpg" for number in listed}) if listed else ""
  assert message in refusal(submission.read, _captions(tmp_path, *keys), images=images)


def test_failed_requests_are_no_captions(tmp_path):
  texts = {"1": {"en": "a dog"}, "2": {"en": "ERROR: 429 Too Many Requests"}}
  path = files.captions(tmp_path / "c.jsonl", texts)
  assert "1 of 2 predictions is a request that failed" in refusal(submission.read, path)


def test_one_language_of_several_is_chosen(tmp_path):
  path = files.captions(tmp_path / "c.jsonl", {"1": {"en": "a", "th": "ก"}, "2": {"en": "b", "th": "ข"}})
  assert "captions in en, th: choose one of them with --language" in refusal(submission.read, path)
  assert submission.read(path, "th")[0] == {1: "ก", 2: "ข"}
  assert "captions in en, th" in refusal(submission.read, path, "de")


def test_captions_without_a_language(tmp_path):
  results = files.json(tmp_path / "c.json", [{"image_id": 3, "caption": "a"}])
  assert submission.read(results, "en")[0] == {3: "a"}
  assert "--language" in refusal(submission.read, results)


def test_command_writes_what_pycocotools_loads(tmp_path):
  out = tmp_path / "captions_val2014_ours_results.json"
  path = files.captions(tmp_path / "c.jsonl", {"2": {"en": "un été"}, "1": {"en": ""}})
  xmcap("results", "coco", f"--predictions={path}", f"--out={out}").succeeded("2 captions, 1 of them empty")
  assert json.loads(out.read_bytes().decode("ascii")) == [
    {"image_id": 1, "caption": ""},
    {"image_id": 2, "caption": "un été"},
  ]
  same = files.json(tmp_path / "x.json", [{"image_id": 1, "caption": "a"}])
  xmcap("results", "coco", f"-p={same}", "--language=en", f"--out={same}").refused(
    "would overwrite the input"
  )
  xmcap("results", "coco", f"-p={path}", f"--images={tmp_path / 'c.jsonl'}", f"--out={out}").refused(
    "c.jsonl"
  )
