"""Rows of other programs and data sets; each row of the tables names the public code or page that it follows."""

import pytest

from tests.make import files
from tests.make.refusals import refusal
from xmcap.scoring import read_predictions, read_references


def _references(path, language="en"):
  return read_references(path, language=language)


_LLAVA = {"question_id": 7, "text": "dog", "answer_id": "x", "model_id": "m", "metadata": {}}
_SWIFT = {"response": "dog", "labels": "a dog", "logprobs": None, "messages": []}
_ONE = "'images' must be one picture"


@pytest.mark.parametrize(
  ("row", "predictions", "references"),
  [
    (_LLAVA, {"7": {"en": "dog"}}, "line 1: LLaVA's answers, which have no references"),  # model_vqa_loader.py
    # swift infer
    (_SWIFT | {"images": [{"path": "/a/7.jpg"}]}, {"/a/7.jpg": {"en": "dog"}}, {"/a/7.jpg": {"en": ["a dog"]}}),
    (_SWIFT | {"images": ["7.jpg"]}, {"7.jpg": {"en": "dog"}}, {"7.jpg": {"en": ["a dog"]}}),
    (_SWIFT | {"images": ["7.jpg", "8.jpg"]}, _ONE, _ONE),
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
def test_rows_of_other_programs_are_read(tmp_path, row, predictions, references):
  for read, outcome in ((read_predictions, predictions), (_references, references)):
    # Two lines where they are refused, because one may be a JSON object.
    path = files.jsonl(tmp_path / "rows.jsonl", *[row] * (1 + isinstance(outcome, str)))
    if isinstance(outcome, str):
      assert outcome in refusal(read, path, "en")
    else:
      assert read(path, "en") == outcome


def test_row_without_an_image_is_refused(tmp_path):
  path = files.jsonl(tmp_path / "rows.jsonl", {**_SWIFT, "images": ["7.jpg"]}, _SWIFT)
  assert f"line 2: {_ONE}" in refusal(read_predictions, path, "en")


def test_textcaps_repeated_references_count_once(tmp_path):
  """TextCaps_0.1_val.json: five rows an image, each with its caption and all five."""
  rows = [{"image_id": "a", "caption_str": text, "reference_strs": ["x", "y"]} for text in ("x", "y")]
  document = {"dataset_name": "textcaps", "data": [*rows, {"image_id": "b", "reference_strs": ["z"]}]}
  path = files.json(tmp_path / "TextCaps_0.1_val.json", document)
  assert _references(path) == {"a": {"en": ["x", "y"]}, "b": {"en": ["z"]}}
  document["data"][1] = {**rows[1], "reference_strs": ["x", "w"]}
  assert "data[1]: 'reference_strs' is not as on an earlier row" in refusal(
    _references, files.json(path, document)
  )


def _chat(content, reason="stop", **members):
  message = {"role": "assistant", "content": content, "refusal": None, **members}
  return {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def _openai(body, status=200, error=None, key="7"):
  response = None if body is None else {"status_code": status, "request_id": "r", "body": body}
  return {"id": "batch_req_1", "custom_id": key, "response": response, "error": error}


def _responses(*content, cut=None):
  output = [{"type": "reasoning", "summary": []}, {"type": "message", "content": list(content)}]
  members = {"incomplete_details": {"reason": cut}} if cut else {}
  return {"object": "response", "status": "completed", "error": None, "output": output, **members}


def _anthropic(kind, **members):
  return {"custom_id": "7", "result": {"type": kind, **members}}


def _message(text, reason="end_turn"):
  content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}] if text else []
  return {"type": "message", "content": content, "stop_reason": reason}


def _gemini(text, reason="STOP"):
  parts = [{"text": "hm", "thought": True}, {"text": text}] if text else []
  return {"key": "7", "response": {"candidates": [{"content": {"parts": parts}, "finishReason": reason}]}}


def _batch(tmp_path, *rows, language: str | None = "en", **options):
  """The predictions in what batch interfaces return, as their documentation has it."""
  return read_predictions(files.jsonl(tmp_path / "output.jsonl", *rows), language, **options)


_TEXT = {"type": "output_text", "text": "a dog"}


@pytest.mark.parametrize(
  ("row", "note"),
  [
    (_openai(_chat("a dog")), "OpenAI's batch: the key of an image is its custom_id"),
    (_openai(_chat([{"type": "text", "text": "a dog"}])), "OpenAI's"),
    (_openai({"choices": [{"text": "a dog", "finish_reason": "stop"}]}), "OpenAI's"),
    (_openai(_responses(_TEXT)), "OpenAI's"),
    (_anthropic("succeeded", message=_message("a dog")), "Anthropic's batch: the key of an image is its custom_id"),
    (_gemini("a dog"), "Gemini's batch: the key of an image is its key"),
  ],
)  # fmt: skip
def test_batch_responses_are_read_as_predictions(tmp_path, row, note):
  predictions = _batch(tmp_path, row)
  assert predictions == {"7": {"en": "a dog"}} and not predictions.failed
  assert predictions.notes[0].startswith(f"predictions: {note}")


@pytest.mark.parametrize(
  ("row", "text"),
  [
    (_openai(None, error={"code": "batch_expired", "message": "could not be executed"}), "could not be executed"),
    (_openai(None), "null"),
    (_openai({"error": {"message": "filtered", "code": "content_filter"}}, 400), "filtered"),
    ({"custom_id": "7", "response": {"status_code": 500, "message": "x"}, "error": None}, "status 500"),
    (_openai(_chat("", "content_filter")), "content_filter"),
    (_openai(_chat("a do", "content_filter")), "content_filter"),
    (_openai(_chat(None)), "null"),
    (_openai(_chat("", "length")), "length"),
    (_openai(_chat(None, refusal="I cannot")), "I cannot"),
    (_openai(_responses({"type": "refusal", "refusal": "No"})), "No"),
    (_openai(_responses(_TEXT, cut="content_filter")), "content_filter"),
    (_openai(_chat("$ERROR$")), "$ERROR$"),
    (_anthropic("errored", error={"type": "error", "error": {"message": "Overloaded"}}), "Overloaded"),
    (_anthropic("expired"), "expired"),
    (_anthropic("succeeded", message=_message("", "refusal")), "refusal"),
    (_gemini("", "SAFETY"), "SAFETY"),
    ({"key": "7", "response": {"promptFeedback": {"blockReason": "OTHER"}}}, "OTHER"),
    ({"key": "7", "error": {"code": 3, "message": "bad"}}, "bad"),
  ],
)  # fmt: skip
def test_failed_batch_request_is_a_missing_prediction(tmp_path, row, text):
  predictions = _batch(tmp_path, row)
  assert not predictions and predictions.failed["7"]["en"] == text


@pytest.mark.parametrize(
  "row",
  [
    _openai(_chat("a dog", "length")),
    _openai(_responses(_TEXT, cut="max_output_tokens")),
    _anthropic("succeeded", message=_message("a dog", "max_tokens")),
    _gemini("a dog", "MAX_TOKENS"),
  ],
)
def test_batch_response_cut_off_at_max_tokens_is_noted(tmp_path, row):
  predictions = _batch(tmp_path, row)
  assert predictions == {"7": {"en": "a dog"}}
  assert predictions.notes[1] == "predictions: 1 answer cut off at the limit of tokens (en 7, line 1)"


def test_batch_custom_id_may_contain_the_language(tmp_path):
  rows = [_openai(_chat("a dog"), key="7_en"), _openai(_chat("ein Hund"), key="7_de")]
  assert _batch(tmp_path, *rows, language=None) == {"7": {"en": "a dog", "de": "ein Hund"}}
  row = _openai(_chat("a dog"), key="request-7")
  assert _batch(tmp_path, row, key="request-(.*)") == {"7": {"en": "a dog"}}


@pytest.mark.parametrize(
  ("row", "message"),
  [
    (_openai({"choices": [{}, {}]}), "line 1: the response has 2 answers; a prediction is one"),
    (_openai({"choices": 3}), "line 1: not an answer as a batch interface writes it"),
    (_openai("text"), "line 1: not an answer"),
    (_openai(_chat(7)), "line 1: 'response' is missing or not a string"),
    (_anthropic("succeeded"), "line 1: not an answer"),
  ],
)
def test_malformed_batch_responses_are_refused(tmp_path, row, message):
  assert message in refusal(_batch, tmp_path, row)
