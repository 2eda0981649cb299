"""Chat completions in OpenAI's format: what a request asks of a captioner, and what it is answered.

The model reads the picture and the language alone, so that a field which would change a caption elsewhere is refused by
its name; those that change none are ignored.
"""

import base64
import dataclasses
import json
import re
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from xmcap import languages
from xmcap.data.vocabulary import EOS_ID, Vocabulary
from xmcap.serving import limits, openapi
from xmcap.serving.limits import Refused
from xmcap.serving.model import ServedModel
from xmcap.terminal import shown

if TYPE_CHECKING:  # which imports jax
  from xmcap.evaluation.captioning import Candidate

_TEXT_BYTES = 64 << 10  # of a request, beside its picture
_MOST_CHARACTERS = 10_000  # of a prompt, in which a language is looked for
_NEUTRAL = {
  "n": (1,), "best_of": (1,), "top_p": (1,), "top_k": (-1, 0), "min_p": (0,), "repetition_penalty": (1,),
  "frequency_penalty": (0,), "presence_penalty": (0,), "logit_bias": ({},), "logprobs": (False,), "top_logprobs": (0,),
  "stop": ([], ""), "tools": ([],), "tool_choice": ("none", "auto"), "functions": ([],),
  "function_call": ("none", "auto"), "response_format": ({"type": "text"},), "modalities": (["text"],),
}  # fmt: skip
"""Fields that would change the answer, with the values that do not."""
_IGNORED = frozenset(
  (
    "user", "metadata", "store", "service_tier", "parallel_tool_calls", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention", "request_id", "stream_options", "priority", "cache_salt",
  )
)  # fmt: skip
_HOW = (
  'give "language": "CODE", or name one language in the prompt, such as "Caption in German" or "caption de"'
)
# A bare code is a word as well (`it`, `no`, `in`): only in these places does it name a language.
_CODE = re.compile(
  r"(?:[Cc]aption |cap )?([a-z]{2,3}(?:-\w+)*)"
  r"|(?:.*\W)?[Ll]anguage(?: code)? ?[:=] ?\W?([a-z]{2,3}(?:-\w+)*)(?!\w).*"
)


class _Url(msgspec.Struct):
  url: str


class _Part(msgspec.Struct):
  type: str
  text: str = ""
  image_url: _Url | None = None


class _Message(msgspec.Struct):
  role: str
  content: str | list[_Part] | None = None


_Count = Annotated[int, msgspec.Meta(ge=1)]


class _Request(msgspec.Struct):
  messages: list[_Message]
  model: str | None = None
  language: str | None = None
  temperature: float | None = None
  seed: int | None = None
  max_tokens: _Count | None = None
  max_completion_tokens: _Count | None = None
  stream: bool | None = None


@dataclasses.dataclass(frozen=True)
class Asked:
  """What a request asks for; `most_tokens` None: as many as the model writes."""

  language: str
  search_name: str
  search: Any
  seed: int | None
  most_tokens: int | None
  stream: bool


def most_bytes(upload_bytes: int) -> int:
  """The largest body of a request whose picture's file may have so many bytes."""
  return (upload_bytes + 2) // 3 * 4 + _TEXT_BYTES


def read(body: bytes, model: ServedModel, upload_bytes: int) -> tuple[Asked, bytes]:
  """Reads the body of a request; returns what it asks for, and its picture's file. Refused if it is wrong."""
  try:
    fields = msgspec.json.decode(body)
    request = msgspec.convert(fields, _Request)
  except msgspec.ValidationError as error:
    path = re.search(r"\$\.(\w+)", str(error))
    raise Refused(400, f"the request is no chat completion: {error}", path[1] if path else None) from None
  except (msgspec.DecodeError, ValueError, RecursionError):
    name = limits.envelope(body)
    instead = "" if name in ("", "JSON") else f"{name} and "
    raise Refused(400, f"the body is {instead}not JSON: send a chat completion's request") from None
  _check_fields(fields)
  if request.model:
    check_name(request.model, model)
  file, prompt, system = _picture_and_texts(request.messages)
  if len(file) > upload_bytes:
    raise limits.too_large(upload_bytes)
  language = _language(request.language, (prompt, system), model)
  name, search = _search(request.temperature, model)
  draws = name in model.drawing
  if draws and request.seed is not None:
    _check_range("seed", request.seed)
  counts = [count for count in (request.max_tokens, request.max_completion_tokens) if count is not None]
  most, seed = min(counts, default=None), request.seed if draws else None
  return Asked(language, name, search, seed, most, bool(request.stream)), file


def completion(
  asked: Asked, caption: "Candidate", vocabulary: Vocabulary, name: str, warning: str
) -> dict[str, Any]:
  """The answer; a caption of more tokens than were asked for is cut, which `finish_reason` says.

  Of `usage`, the caption's tokens count, with its end; the model reads no prompt.
  """
  tokens, text = caption.tokens, caption.text
  if asked.most_tokens is not None and asked.most_tokens < len(tokens):
    tokens = tokens[: asked.most_tokens]
    text = vocabulary.decode(tokens)
  finish = "stop" if tokens[-1:] == (EOS_ID,) else "length"
  message = {"role": "assistant", "content": text, "refusal": None}
  answer = {
    "id": f"chatcmpl-{uuid.uuid4().hex}",
    "object": "chat.completion",
    "created": int(time.time()),
    "model": name,
    "language": asked.language,
    "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
    "usage": {"prompt_tokens": 0, "completion_tokens": len(tokens), "total_tokens": len(tokens)},
  }
  return {**answer, "warning": warning} if warning else answer


def events(answer: Mapping[str, Any]) -> str:
  """An answer as server-sent events: one chunk, with the whole caption and the usage, and the end."""
  (choice,) = answer["choices"]
  delta = {name: value for name, value in choice.items() if name != "message"} | {"delta": choice["message"]}
  chunk = {**answer, "object": "chat.completion.chunk", "choices": [delta]}
  return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\ndata: [DONE]\n\n"


def error(refused: Refused) -> Mapping[str, Any]:
  """The body of an error."""
  kind = "server_error" if refused.status >= 500 else "invalid_request_error"
  code = {429: "rate_limit_exceeded"}.get(refused.status)
  if refused.status == 404 and refused.field == "model":
    code = "model_not_found"
  return {"error": {"message": str(refused), "type": kind, "param": refused.field, "code": code}}


def models(model: ServedModel) -> Mapping[str, Any]:
  """The list of the one model, with the codes of its languages."""
  return {"object": "list", "data": [own(model)]}


def own(model: ServedModel) -> Mapping[str, Any]:
  """The model, with the codes of its languages."""
  fields = {"id": model.name, "object": "model", "created": int(time.time()), "owned_by": "xmcap"}
  return {**fields, "languages": model.offered}


def check_name(name: str, model: ServedModel) -> None:
  """Raises Refused if a name is not the model's."""
  if name != model.name:
    raise Refused(404, f"there is no model '{shown(name)}' here: give '{model.name}'", "model")


def _check_fields(fields: Mapping[str, Any]) -> None:
  for name, value in fields.items():
    if value is None or name in _IGNORED or name in _Request.__struct_fields__:
      continue
    neutral = _NEUTRAL.get(name, ())
    if value not in neutral:
      instead = f"give {json.dumps(neutral[0])}, or leave it out" if neutral else "leave it out"
      raise Refused(400, f"{shown(name)}: this captioner has no such choice: {instead}", name[:80])


def _picture_and_texts(messages: list[_Message]) -> tuple[bytes, str, str]:
  """The picture's file, the text beside it, and the text of the system's messages."""
  users = [message for message in messages if message.role == "user"]
  others = [message for message in messages if message.role in ("system", "developer")]
  if len(users) != 1 or len(users) + len(others) < len(messages):
    raise Refused(
      400,
      "messages: give one of the user, with one picture: this captioner follows no examples or conversations",
      "messages",
    )
  parts = _parts(users[0])
  urls = [part.image_url.url for part in parts if part.image_url is not None]
  if len(urls) != 1:
    raise Refused(400, f"messages: {len(urls) or 'no'} pictures: give one, as image_url", "messages")
  if any(part.image_url for message in others for part in _parts(message)):
    raise Refused(400, "messages: a picture of the system: give it in the user's message", "messages")
  texts = (" ".join(part.text for part in _parts(message)) for message in others)
  return _file(urls[0]), " ".join(part.text for part in parts), " ".join(texts)


def _parts(message: _Message) -> list[_Part]:
  if not isinstance(message.content, list):
    return [_Part("text", message.content or "")]
  for part in message.content:
    if part.type not in ("text", "image_url"):
      raise Refused(
        400, f"messages: a part of type '{shown(part.type)}': give text and image_url", "messages"
      )
  return message.content


def _file(url: str) -> bytes:
  head, comma, _ = url[:100].partition(",")
  if not re.fullmatch(r"data:[^,]*;base64", head, re.IGNORECASE) or not comma:
    raise Refused(
      400,
      f"image_url '{shown(url[:40])}': this server fetches nothing: give data:image/jpeg;base64,...",
      "messages",
    )
  try:
    file = base64.b64decode(url[len(head) + 1 :], validate=True)
  except ValueError as error:
    raise Refused(
      400, f"image_url: broken base64 ({error}): send the picture's file again", "messages"
    ) from None
  if not file:
    raise Refused(400, "image_url: no bytes: give data:image/jpeg;base64,...", "messages")
  return file


def _language(field: str | None, texts: tuple[str, ...], model: ServedModel) -> str:
  """The language of the field, else the only one of the first text that names any, else the model's only one."""
  if field is not None:
    if field in ("all", "trained") or "," in field:
      raise Refused(400, f"language '{shown(field)}': give the code of one language", "language")
    return model.languages_of(field)[0]
  for text in texts:
    named = _named(text)
    if len(named) > 1:
      raise Refused(400, f"the prompt names several languages ({', '.join(named)}): {_HOW}", "messages")
    if named:
      return model.languages_of(named[0])[0]
  only, *others = model.offered
  if others:
    raise Refused(400, f"the prompt names no language: {_HOW}", "messages")
  return only


def _named(text: str) -> list[str]:
  """The languages that a prompt names."""
  if len(text) > _MOST_CHARACTERS:
    raise Refused(400, f"the prompt is longer than {_MOST_CHARACTERS:,} characters: shorten it", "messages")
  code = _CODE.fullmatch(" ".join(text.split()))
  by_code = languages.canonical(code[1] or code[2]) if code else None
  return list(dict.fromkeys([*([by_code] if by_code else []), *languages.mentioned(text)]))


def _search(temperature: float | None, model: ServedModel) -> tuple[str, Any]:
  """The name of a search, and it: the default; at a temperature the first that samples, at 0 one that does not."""
  names = list(model.searches)
  if temperature is not None:
    names = [name for name in names if (name in model.drawing) == (temperature != 0)]
  if not names:
    instead = "leave it out" if temperature == 0 else "give 0"
    raise Refused(
      400, f"temperature={temperature:g}: none of this server's searches does that: {instead}", "temperature"
    )
  search = model.searches[names[0]]
  if temperature:
    _check_range("temperature", temperature)
    search = dataclasses.replace(search, temperature=temperature)
  return names[0], search


def _check_range(name: str, value: float) -> None:
  _, least, most = openapi.OF_DRAWS[name]
  if not least <= value <= most:
    raise Refused(400, f"{name}={value:.10g}: give a number from {least:,} to {most:,}", name)
