"""What came of a question: an answer, or why there is none.

Only `answered` is a caption. Servers say the rest in many ways: `finish_reason`, a refusal beside empty content, four
shapes of error bodies. This module reads them all.
"""

import contextlib
import enum
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xmcap.terminal import shown


class State(enum.StrEnum):
  """What came of a question."""

  ANSWERED = "answered"
  CUT = "cut"  # at the largest number of tokens
  REFUSED = "refused"  # by the model, or by a filter of the server
  FAILED = "failed"


class Tokens(NamedTuple):
  """The `usage` of answers: tokens of prompts, of them from the server's cache, and of answers."""

  prompt: int = 0
  cached: int = 0
  completion: int = 0

  def plus(self, other: "Tokens") -> "Tokens":
    return Tokens(*map(sum, zip(self, other, strict=True)))


class Answer(NamedTuple):
  """The answer to a question.

  Attributes:
    state: what came of it.
    text: as the model wrote it; also of a cut answer or a refusal, where there is one.
    reason: why it is not answered; else "".
    model: what the server calls its model, with the fingerprint if it gives one.
    tokens: its usage.
  """

  state: State
  text: str = ""
  reason: str = ""
  model: str = ""
  tokens: Tokens = Tokens()


class UnreadableError(ValueError):
  """The body of a 200 is no chat completion, such as the half of one."""


def read(body: bytes) -> Answer:
  """Reads the body of a chat completion; UnreadableError if it is none."""
  try:
    completion = json.loads(body)
    choice = completion["choices"][0]
    message = choice["message"]
    text = _text(message.get("content"))
  except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
    raise UnreadableError("the answer is not a chat completion") from None
  fingerprint = completion.get("system_fingerprint")
  model = "#".join(str(name) for name in (completion.get("model"), fingerprint) if name)
  of_model = {"text": text, "model": model, "tokens": _tokens(completion.get("usage"))}
  finish = choice.get("finish_reason")
  if message.get("refusal"):
    return Answer(State.REFUSED, reason=f"refusal: {shown(str(message['refusal']))}", **of_model)
  if finish == "content_filter":
    return Answer(State.REFUSED, reason="finish_reason content_filter", **of_model)
  if finish == "length":
    return Answer(State.CUT, reason="finish_reason length", **of_model)
  if not text.strip():
    return Answer(State.FAILED, reason=f"empty content, finish_reason {finish}", **of_model)
  if finish not in ("stop", "eos", "end_turn", None):
    return Answer(State.FAILED, reason=f"finish_reason {shown(str(finish))}", **of_model)
  return Answer(State.ANSWERED, **of_model)


def by_language(answer: Answer, languages: Sequence[str]) -> dict[str, Answer]:
  """Parts an answer that is a JSON object of captions, or text around one; its tokens are those of the first language.

  A language that it lacks has failed; one that is no answer is that of all languages.
  """
  captions: Any = {}
  if answer.state is State.ANSWERED:
    text = answer.text
    with contextlib.suppress(ValueError, RecursionError):
      captions = json.loads(text[text.find("{") : text.rfind("}") + 1])
  parts = {}
  for number, language in enumerate(languages):
    of_language = answer if number == 0 else answer._replace(tokens=Tokens())
    if answer.state is State.ANSWERED:
      caption = captions.get(language) if isinstance(captions, Mapping) else None
      if isinstance(caption, str) and caption.strip():
        of_language = of_language._replace(text=caption)
      else:
        reason = f"no caption by '{language}' in the answer's JSON"
        of_language = of_language._replace(state=State.FAILED, reason=reason)
    parts[language] = of_language
  return parts


def error_message(body: bytes) -> str:
  """Returns the message of an error's body: JSON with `error` (an object or a string) or `detail`, or plain text."""
  text = body.decode("utf-8", "replace").strip()
  try:
    fields = json.loads(text)
  except (ValueError, RecursionError):
    return shown(" ".join(text.split())[:300], limit=None)
  if isinstance(fields, list) and fields:
    fields = fields[0]
  if isinstance(fields, Mapping):
    inner = fields.get("error", fields.get("detail", fields.get("message", fields)))
    if isinstance(inner, Mapping):
      named = " ".join(str(inner[name]) for name in ("code", "param") if inner.get(name))
      inner = f"{inner.get('message', inner)}{f' ({named})' if named else ''}"
    fields = inner
  return shown(" ".join(str(fields).split())[:300], limit=None)


def is_filtered(message: str) -> bool:
  """Whether the message of an error says that a filter refused the picture or the prompt."""
  words = message.lower().replace("_", " ")
  return any(
    sign in words for sign in ("content filter", "content policy", "content management", "safety system")
  )


def of_error(status: int, message: str) -> Answer:
  """Returns the answer of a question that got an error; status 0 if it was never sent."""
  state = State.REFUSED if is_filtered(message) else State.FAILED
  return Answer(state, reason=f"{status} ({message})" if status else message)


def _text(content: Any) -> str:
  """The text of a message, whose content is a string, None, or a list of parts."""
  if isinstance(content, list):
    return "".join(part.get("text") or "" for part in content if part.get("type", "text") == "text")
  if content is not None and not isinstance(content, str):
    raise TypeError
  return content or ""


def _tokens(usage: Any) -> Tokens:
  usage = usage if isinstance(usage, Mapping) else {}
  details = usage.get("prompt_tokens_details")
  cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
  counts = usage.get("prompt_tokens"), cached, usage.get("completion_tokens")
  return Tokens(*(count if isinstance(count, int) and count > 0 else 0 for count in counts))
