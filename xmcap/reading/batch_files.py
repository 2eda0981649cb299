"""The files that batch interfaces return: a row for each request, with its answer or why there is none.

OpenAI: `custom_id`, and `response` with `status_code` and `body` (chat completions, completions or responses) or
`error`; its error file has the same rows, and Azure, Mistral, Groq, Together, DashScope and vLLM's run_batch.py write
them too. Anthropic: `custom_id`, and `result` with `type` and `message`. Gemini: `key`, and `response` or `error`.
"""

from typing import Any

from xmcap.errors import UsageError
from xmcap.reading import failed_requests
from xmcap.reading.failed_requests import Failed

_COMPLETE = frozenset(
  {None, "", "stop", "STOP", "end_turn", "stop_sequence", "FINISH_REASON_UNSPECIFIED", "tool_calls"}
)
_CUT = frozenset({"length", "max_tokens", "max_output_tokens", "MAX_TOKENS"})


class Cut(str):
  """An answer that was cut off at the limit of tokens."""


def answer(row: dict[str, Any], where: str) -> str:
  """Returns the answer of a row, `Cut` or whole, or `Failed`; UsageError if it has another structure."""
  try:
    return _answer(row, where)
  except (AttributeError, TypeError, KeyError, IndexError):
    raise UsageError(
      f"{where}: not an answer as a batch interface writes it; give rows of image_id and caption"
    ) from None


def response(row: dict[str, Any]) -> tuple[int, Any]:
  """Returns the status of a row of OpenAI's format and the body of its response; 0 and the row if it has none."""
  of_row = row.get("response")
  if row.get("error") or of_row is None:
    return 0, row
  return of_row.get("status_code", 200), of_row.get("body", of_row)


def _answer(row: dict[str, Any], where: str) -> str:
  if "result" in row and not row.get("error"):
    kind = row["result"]["type"]
    if kind != "succeeded":
      return _failed(row["result"].get("error") or {"error": kind})
    return _of_body(row["result"]["message"], where)
  status, body = response(row)
  if not status and not row.get("error"):
    return Failed("null", "no answer")
  if status != 200:
    return _failed(body if isinstance(body, dict) and body.get("error") else {"error": f"status {status}"})
  return _failed(body) if body.get("error") else _of_body(body, where)


def _failed(error: dict[str, Any]) -> Failed:
  """Returns the failed request of an object with the member `error`."""
  failed = failed_requests.value(error)
  assert failed is not None
  return failed


def _of_body(body: dict[str, Any], where: str) -> str:
  refusal = None
  if "choices" in body:
    choice = _only(body["choices"], where)
    message = choice.get("message") or {"content": choice.get("text")}
    content, reason, refusal = message.get("content"), choice.get("finish_reason"), message.get("refusal")
  elif "output" in body:
    messages = [item["content"] for item in body["output"] if item["type"] == "message"]
    content = [part for parts in messages for part in parts]
    refusal = next((part["refusal"] for part in content if part["type"] == "refusal"), None)
    reason = (body.get("incomplete_details") or {}).get("reason")
  elif body.get("candidates"):
    candidate = _only(body["candidates"], where)
    content = (candidate.get("content") or {}).get("parts")
    reason = candidate.get("finishReason", candidate.get("finish_reason"))
  elif "content" in body:
    content, reason = body["content"], body.get("stop_reason")
  else:
    feedback = body.get("promptFeedback") or body.get("prompt_feedback") or {}
    content, reason = None, feedback.get("blockReason") or feedback.get("block_reason") or "no candidates"
  if isinstance(content, list):
    parts = [part for part in content if "text" in part and not part.get("thought")]
    content = "".join(part["text"] for part in parts) if parts else None
  if reason in _CUT and content:
    return Cut(content)
  if refusal and not content:
    return Failed(refusal, "refusal")
  if reason not in _COMPLETE:
    return Failed(str(reason), "reason of the end")
  return Failed("null", "no answer") if content is None else content


def _only(answers: list[dict[str, Any]], where: str) -> dict[str, Any]:
  if len(answers) != 1:
    raise UsageError(f"{where}: the response has {len(answers)} answers; a prediction is one")
  return answers[0]
