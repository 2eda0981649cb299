"""Responses of the batch APIs of OpenAI, Anthropic and Gemini, as their documentation has them, are predictions."""

import json

import pytest

from xmcap.errors import UsageError
from xmcap.scoring import read_predictions


def _chat(content, reason="stop", **members):
  message = {"role": "assistant", "content": content, "refusal": None, **members}
  return {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def _openai(body, status=200, error=None, key="7"):
  response = None if body is None else {"status_code": status, "request_id": "r", "body": body}
  return {"id": "batch_req_1", "custom_id": key, "response": response, "error": error}


def _responses(*content, **members):
  output = [{"type": "reasoning", "summary": []}, {"type": "message", "content": list(content)}]
  return {"object": "response", "status": "completed", "error": None, "output": output, **members}


def _anthropic(kind, **members):
  return {"custom_id": "7", "result": {"type": kind, **members}}


def _message(text, reason="end_turn"):
  content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}] if text else []
  return {"type": "message", "content": content, "stop_reason": reason}


def _gemini(text, reason="STOP"):
  parts = [{"text": "hm", "thought": True}, {"text": text}] if text else []
  return {"key": "7", "response": {"candidates": [{"content": {"parts": parts}, "finishReason": reason}]}}


def _read(tmp_path, *rows, **options):
  path = tmp_path / "output.jsonl"
  path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
  return read_predictions(path, **{"language": "en", **options})


_TEXT = {"type": "output_text", "text": "a dog"}


@pytest.mark.parametrize(
  ("row", "whose"),
  [
    (_openai(_chat("a dog")), "OpenAI's batch: the key of an image is its custom_id"),
    (_openai(_chat([{"type": "text", "text": "a dog"}])), "OpenAI's"),
    (_openai({"choices": [{"text": "a dog", "finish_reason": "stop"}]}), "OpenAI's"),
    (_openai(_responses(_TEXT)), "OpenAI's"),
    (
      _anthropic("succeeded", message=_message("a dog")),
      "Anthropic's batch: the key of an image is its custom_id",
    ),
    (_gemini("a dog"), "Gemini's batch: the key of an image is its key"),
  ],
)
def test_batch_responses_are_read_as_predictions(tmp_path, row, whose):
  predictions = _read(tmp_path, row)
  assert predictions == {"7": {"en": "a dog"}} and not predictions.failed
  assert predictions.notes[0].startswith(f"predictions: {whose}")


@pytest.mark.parametrize(
  ("row", "text"),
  [
    (
      _openai(None, error={"code": "batch_expired", "message": "could not be executed"}),
      "could not be executed",
    ),
    (_openai(None), "null"),
    (_openai({"error": {"message": "filtered", "code": "content_filter"}}, 400), "filtered"),
    ({"custom_id": "7", "response": {"status_code": 500, "message": "x"}, "error": None}, "status 500"),
    (_openai(_chat("", "content_filter")), "content_filter"),
    (_openai(_chat("a do", "content_filter")), "content_filter"),
    (_openai(_chat(None)), "null"),
    (_openai(_chat("", "length")), "length"),
    (_openai(_chat(None, refusal="I cannot")), "I cannot"),
    (_openai(_responses({"type": "refusal", "refusal": "No"})), "No"),
    (_openai(_responses(_TEXT, incomplete_details={"reason": "content_filter"})), "content_filter"),
    (_openai(_chat("$ERROR$")), "$ERROR$"),
    (_anthropic("errored", error={"type": "error", "error": {"message": "Overloaded"}}), "Overloaded"),
    (_anthropic("expired"), "expired"),
    (_anthropic("succeeded", message=_message("", "refusal")), "refusal"),
    (_gemini("", "SAFETY"), "SAFETY"),
    ({"key": "7", "response": {"promptFeedback": {"blockReason": "OTHER"}}}, "OTHER"),
    ({"key": "7", "error": {"code": 3, "message": "bad"}}, "bad"),
  ],
)
def test_failed_batch_request_is_a_missing_prediction(tmp_path, row, text):
  predictions = _read(tmp_path, row)
  assert not predictions and predictions.failed["7"]["en"] == text


@pytest.mark.parametrize(
  "row",
  [
    _openai(_chat("a dog on", "length")),
    _openai(
      _responses(
        {"type": "output_text", "text": "a dog on"}, incomplete_details={"reason": "max_output_tokens"}
      )
    ),
    _anthropic("succeeded", message=_message("a dog on", "max_tokens")),
    _gemini("a dog on", "MAX_TOKENS"),
  ],
)
def test_batch_response_cut_off_at_max_tokens_is_noted(tmp_path, row):
  predictions = _read(tmp_path, row)
  assert predictions == {"7": {"en": "a dog on"}}
  assert predictions.notes[1] == "predictions: 1 answer cut off at the limit of tokens (en 7, line 1)"


def test_batch_custom_id_may_contain_the_language(tmp_path):
  rows = [_openai(_chat("a dog"), key="7_en"), _openai(_chat("ein Hund"), key="7_de")]
  assert _read(tmp_path, *rows, language=None) == {"7": {"en": "a dog", "de": "ein Hund"}}
  rows = [_openai(_chat("a dog"), key="request-7")]
  assert _read(tmp_path, *rows, key="request-(.*)") == {"7": {"en": "a dog"}}


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
  with pytest.raises(UsageError, match=message):
    _read(tmp_path, row)
