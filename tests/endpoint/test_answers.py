"""Answers of servers, as vLLM, transformers serve, llama.cpp and hosted APIs write them."""

import json

import pytest

from tests.make.endpoint import completion
from xmcap.endpoint import answers
from xmcap.endpoint.answers import State, Tokens


def _read(fields) -> answers.Answer:
  return answers.read(json.dumps(fields).encode())


@pytest.mark.parametrize(
  ("fields", "state", "text", "reason"),
  [
    (completion("A cat."), State.ANSWERED, "A cat.", ""),
    (completion("A cat.", finish="eos"), State.ANSWERED, "A cat.", ""),
    (completion("A cat.", finish=None), State.ANSWERED, "A cat.", ""),
    (
      completion([{"type": "text", "text": "A "}, {"type": "text", "text": "cat."}]),
      State.ANSWERED,
      "A cat.",
      "",
    ),
    (completion("A cat on", finish="length"), State.CUT, "A cat on", "finish_reason length"),
    (completion("", finish="content_filter"), State.REFUSED, "", "finish_reason content_filter"),
    (completion(None, refusal="I can't help"), State.REFUSED, "", "refusal: I can't help"),
    (completion(""), State.FAILED, "", "empty content, finish_reason stop"),
    (completion(None), State.FAILED, "", "empty content, finish_reason stop"),
    (completion("x", finish="tool_calls"), State.FAILED, "x", "finish_reason tool_calls"),
  ],
)
def test_state(fields, state, text, reason):
  answer = _read(fields)
  assert (answer.state, answer.text, answer.reason) == (state, text, reason)


def test_who_answered_and_its_tokens():
  answer = _read({**completion("A cat."), "system_fingerprint": "fp_1"})
  assert answer.model == "stub-1#fp_1"
  assert answer.tokens == Tokens(prompt=100, cached=60, completion=10)


@pytest.mark.parametrize("usage", [None, {}, [], {"prompt_tokens": "7"}, {"prompt_tokens_details": 3}])
def test_no_usage(usage):
  assert _read({**completion("A cat."), "usage": usage}).tokens == Tokens()


@pytest.mark.parametrize(
  "body",
  [
    b"", b"{", b"[]", b"null", b"{}", b'{"choices": []}', b'{"choices": [{"message": null}]}',
    b'{"choices": [{"message": {"content": 7}}]}', b"<html>Bad gateway</html>",
    json.dumps(completion("A cat.")).encode()[:-30],
  ],
)  # fmt: skip
def test_half_an_answer(body):
  with pytest.raises(answers.UnreadableError):
    answers.read(body)


@pytest.mark.parametrize(
  ("body", "message"),
  [
    ({"error": {"message": "too long", "code": 400, "param": None}}, "too long (400)"),
    ({"error": "Unauthorized"}, "Unauthorized"),
    ({"detail": "Not Found"}, "Not Found"),
    ({"object": "error", "message": "max_tokens is too large"}, "max_tokens is too large"),
    ([{"error": {"message": "quota"}}], "quota"),
    ("Internal Server Error", "Internal Server Error"),
  ],
)
def test_error_message(body, message):
  text = body if isinstance(body, str) else json.dumps(body)
  assert answers.error_message(text.encode()) == message


def test_error_message_is_one_plain_line():
  assert answers.error_message(b"a\n\x1b[31m b\xff") == r"a \u001b[31m b" + "\ufffd"
