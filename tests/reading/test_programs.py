"""Rows of other programs and data sets; each test names the public code or page that it follows."""

import json

import pytest

from xmcap.errors import UsageError
from xmcap.scoring import read_predictions, read_references


def _lines(tmp_path, *rows):
  path = tmp_path / "rows.jsonl"
  path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
  return path


_LLAVA = {
  "question_id": 7,
  "prompt": "Describe.",
  "text": "dog",
  "answer_id": "x",
  "model_id": "m",
  "metadata": {},
}
_SWIFT = {"response": "dog", "labels": "a dog", "logprobs": None, "messages": []}


@pytest.mark.parametrize(
  ("row", "prediction", "references"),
  [
    (_LLAVA, {"7": {"en": "dog"}}, "line 1: LLaVA's answers, which have no references"),  # model_vqa_loader.py
    (
      {**_SWIFT, "images": [{"bytes": None, "path": "/data/7.jpg"}]},  # swift infer
      {"/data/7.jpg": {"en": "dog"}},
      {"/data/7.jpg": {"en": ["a dog"]}},
    ),
    ({**_SWIFT, "images": ["7.jpg"]}, {"7.jpg": {"en": "dog"}}, {"7.jpg": {"en": ["a dog"]}}),
    ({**_SWIFT, "images": ["7.jpg", "8.jpg"]}, "'images' must be one picture", "'images' must be one picture"),
    (
      {"prompt": "Describe.", "predict": "dog", "label": "a dog"},  # LLaMA-Factory's vllm_infer.py
      "LLaMA-Factory's predictions, which do not name their images; add 'image_id'",
      "which do not name their images",
    ),
    (
      {"videoID": "7_000001", "enCap": ["a dog"], "chCap": ["狗"]},  # vatex_validation_v1.0.json
      "VATEX, which have no predictions",
      {"7_000001": {"en": ["a dog"], "zh": ["狗"]}},
    ),
    (
      {"duration": 3.0, "timestamps": [[0, 1]], "sentences": ["a dog"], "id": "v_7"},  # ActivityNet Captions
      "which have no predictions",
      "sentences of segments with timestamps, which have no references",
    ),
    (
      # Localized Narratives' *_captions.jsonl
      {"dataset_id": "coco", "image_id": "7", "annotator_id": 1, "caption": "dog", "timed_caption": [], "traces": []},
      {"7": {"en": "dog"}},
      {"7": {"en": ["dog"]}},
    ),
  ],
)  # fmt: skip
def test_rows_of_other_programs_are_read(tmp_path, row, prediction, references):
  # Two lines, because one may be a JSON object.
  for read, outcome in ((lambda p: read_predictions(p, "en"), prediction), (_references, references)):
    path = _lines(tmp_path, row, row) if isinstance(outcome, str) else _lines(tmp_path, row)
    if isinstance(outcome, str):
      with pytest.raises(UsageError, match=outcome):
        read(path)
    else:
      assert read(path) == outcome


def _references(path):
  return read_references(path, language="en")


def test_textcaps_repeated_references_count_once(tmp_path):
  """TextCaps_0.1_val.json: five rows an image, each with its caption and all five."""
  rows = [{"image_id": "a", "caption_str": text, "reference_strs": ["x", "y"]} for text in ("x", "y")]
  document = {"dataset_name": "textcaps", "data": [*rows, {"image_id": "b", "reference_strs": ["z"]}]}
  path = tmp_path / "TextCaps_0.1_val.json"
  path.write_text(json.dumps(document))
  assert _references(path) == {"a": {"en": ["x", "y"]}, "b": {"en": ["z"]}}
  document["data"][1] = {**rows[1], "reference_strs": ["x", "w"]}
  path.write_text(json.dumps(document))
  with pytest.raises(
    UsageError, match=r"data\[1\]: 'reference_strs' is not as on an earlier row of this image"
  ):
    _references(path)


def test_row_without_an_image_is_refused(tmp_path):
  rows = [{**_SWIFT, "images": ["7.jpg"]}, _SWIFT]
  with pytest.raises(UsageError, match="line 2: 'images' must be one picture"):
    read_predictions(_lines(tmp_path, *rows), "en")
