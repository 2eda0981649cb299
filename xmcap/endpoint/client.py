"""One question over the wire: asked again where that helps, until it has an answer or a reason why there is none."""

import asyncio
import contextlib
import dataclasses
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from xmcap.endpoint import answers
from xmcap.endpoint.answers import Answer, State
from xmcap.endpoint.limit import Limit
from xmcap.errors import RestartError, UsageError, one_line

_AGAIN = (408, 425, 429, 500, 502, 503, 504, 529)
_OF_THE_RUN = {
  401: "check the key", 402: "check the account", 403: "check the key and its permissions",
  404: "check the URL and --model",
}  # fmt: skip
_SERVER_ERRORS = 3  # attempts that end in 500, which may be the picture's fault
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # seconds
_CONNECTIONS = 8  # of a pool
_MISSES = "cache miss"
_NOT_TAKEN = ("unsupported", "not support", "not allowed", "not permitted", "unrecognized")
_OTHER_NAMES = {"max_tokens": "max_completion_tokens", "temperature": ""}  # "": to be left out
_NO_MONEY = ("insufficient_quota", "insufficient quota", "exceeded your current quota")

Body = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Endpoint:
  """Whom to ask, and how.

  Attributes:
    url: up to `/v1`; "" for batch files.
    model: the model's name.
    key: the API key, "" for none; it is only ever in the header of requests.
    extra_body: further fields of each request; null leaves a field out.
    timeout_seconds: an attempt that takes longer is ended.
    patience_seconds: how long a question that fails is asked again.
    max_requests: the most requests under way.
  """

  url: str
  model: str
  key: str = dataclasses.field(default="", repr=False)
  extra_body: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  timeout_seconds: float = 180.0
  patience_seconds: float = 600.0
  max_requests: int = 64

  def fields(self, body: Body) -> Body:
    """Returns a request with the model's name and the further fields."""
    fields = {"model": self.model, **body, **self.extra_body}
    return {name: value for name, value in fields.items() if value is not None}


class Client:
  """Asks an endpoint; `async with` closes its connections.

  What the server refuses of all requests is learned from its first refusal and left out of the next: temperatures, and
  `max_tokens`, which some call `max_completion_tokens`.

  Attributes:
    limit: of the requests under way.
    bytes_sent: of the bodies of requests.
    attempts: requests that were sent.
    again: why requests were sent again -> how often.
  """

  def __init__(
    self, endpoint: Endpoint, say: Callable[[str], None], pause: Callable[[float], Awaitable] = asyncio.sleep
  ):
    self.endpoint = endpoint
    self.limit = Limit(endpoint.max_requests)
    self.bytes_sent = self.attempts = 0
    self.again: dict[str, int] = {}
    self._say, self._pause = say, pause
    self._learned: dict[str, str] = {}  # field -> the name that takes its place, "" for none
    self._answered = 0
    headers = {"Content-Type": "application/json"}
    if endpoint.key:
      headers["Authorization"] = f"Bearer {endpoint.key}"
    # The limit of requests is `limit`. A pool looks at all its connections for each request, so there are several.
    unlimited = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    certificates = httpx2.create_ssl_context()
    self._pools = [
      httpx2.AsyncClient(
        headers=headers, limits=unlimited, timeout=None, follow_redirects=False, verify=certificates
      )
      for _ in range(-(-endpoint.max_requests // _CONNECTIONS))
    ]

  async def __aenter__(self) -> "Client":
    return self

  async def __aexit__(self, *error) -> None:
    for pool in self._pools:
      await pool.aclose()

  async def ask(
    self,
    body: Body,
    turn: int = 0,
    whole: Callable[[], Body] | None = None,
    check: Callable[[], None] = lambda: None,
  ) -> Answer:
    """Asks a question until it is settled.

    Args:
      body: a chat completion's request.
      turn: of questions that wait, those of the lowest turn go first.
      whole: makes the request with the picture's bytes, for a server that has lost the picture of an id.
      check: is called before each request; what it raises ends the question.

    Raises:
      UsageError: the server refuses this and every other request.
      RestartError: no request was answered for `patience_seconds`.
    """
    deadline, pause, failures = float("inf"), _FIRST_PAUSE, 0
    while True:
      async with self.limit.request(turn):
        check()
        deadline = min(deadline, time.monotonic() + self.endpoint.patience_seconds)
        sent = self._fields(body)
        status, content, wait = await self._attempt(sent)
      if status == 200:
        with contextlib.suppress(answers.UnreadableError):
          answer = answers.read(content)
          self._answered += 1
          if not failures:
            self.limit.answered()
          return answer
        message = "half an answer"
      else:
        message = answers.error_message(content)
      if status in _OF_THE_RUN and not answers.is_filtered(message):
        raise UsageError(f"{self.endpoint.url} answers {status} ({message}): {_OF_THE_RUN[status]}")
      if status == 429 and any(sign in message.lower() for sign in _NO_MONEY):
        raise UsageError(f"{self.endpoint.url} answers 429 ({message}): check the account")
      if status in (400, 422):
        if whole and _MISSES in message.lower():
          body, whole = whole(), None
          self._count("the server no longer had the picture")
          continue
        if self._adapts(sent, message):
          continue
      if status not in (*_AGAIN, 200, 0):
        return answers.of_error(status, message)
      failures += 1
      self._count("429" if status == 429 else message if status == 0 else str(status))
      self.limit.refused(wait) if status == 429 else self.limit.failed()
      if status == 500 and failures >= _SERVER_ERRORS:
        return Answer(State.FAILED, reason=f"500 ({message})")
      if time.monotonic() > deadline:
        if not self._answered:
          raise RestartError(
            f"{self.endpoint.url} does not answer ({message}): start the server, and give the same command"
          )
        return Answer(State.FAILED, reason=f"{message}, for {self.endpoint.patience_seconds:.0f} seconds")
      await self._pause(max(wait, random.uniform(0, pause)))
      pause = min(2 * pause, _LONGEST_PAUSE)

  async def models(self) -> Any:
    """Returns what `/models` says, or None."""
    with contextlib.suppress(httpx2.HTTPError, ValueError, TimeoutError):
      async with asyncio.timeout(self.endpoint.timeout_seconds):
        answer = await self._pools[0].get(f"{self.endpoint.url}/models")
      return answer.json() if answer.status_code == 200 else None

  async def _attempt(self, body: Body) -> tuple[int, bytes, float]:
    """Sends a request; returns (status, body, seconds of `Retry-After`), with status 0 if nothing came."""
    data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    pool = self._pools[self.attempts % len(self._pools)]
    self.attempts += 1
    self.bytes_sent += len(data)
    try:
      async with asyncio.timeout(self.endpoint.timeout_seconds):
        answer = await pool.post(f"{self.endpoint.url}/chat/completions", content=data)
    except TimeoutError:
      return 0, f"no answer in {self.endpoint.timeout_seconds:.0f} seconds".encode(), 0.0
    except httpx2.HTTPError as error:
      return 0, one_line(error).encode(), 0.0
    except (httpx2.InvalidURL, UnicodeError) as error:
      raise UsageError(
        f"--endpoint={self.endpoint.url}: {one_line(error)}: give http://HOST:PORT/v1"
      ) from None
    return answer.status_code, answer.content, _retry_after(answer.headers.get("Retry-After", ""))

  def _fields(self, body: Body) -> Body:
    """The request with what this server calls by another name, or does not take."""
    fields = self.endpoint.fields(body)
    for name, other in self._learned.items():
      if name in fields:
        value = fields.pop(name)
        if other:
          fields[other] = value
    return fields

  def _adapts(self, sent: Body, message: str) -> bool:
    """Whether a refusal says that the server does not take a field that was sent, which it is not sent again."""
    words = message.lower()
    if not any(sign in words for sign in _NOT_TAKEN):
      return False
    for name, other in _OTHER_NAMES.items():
      if name in words and name in sent:
        if name not in self._learned:
          self._learned[name] = other
          instead = f"sent as {other}" if other else "left out"
          self._say(f"{self.endpoint.model} does not take {name}: {instead}")
        return True
    return False

  def _count(self, reason: str) -> None:
    self.again[reason] = self.again.get(reason, 0) + 1


def _retry_after(value: str) -> float:
  """Seconds of a `Retry-After`, which is a number or a date; 0 if it is neither."""
  with contextlib.suppress(ValueError):
    return max(0.0, float(value))
  with contextlib.suppress(ValueError, TypeError):
    return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
  return 0.0
