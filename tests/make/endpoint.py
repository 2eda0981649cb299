"""An OpenAI-compatible endpoint on loopback, which fails in the ways that tests ask for."""

import collections
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Fault = Callable[["Endpoint", dict[str, Any]], Response | None]
"""Given a request, answers in the place of the endpoint, or does not."""


def completion(text: str | None, finish: str = "stop", **message: Any) -> dict[str, Any]:
  """A chat completion with one choice."""
  return {
    "object": "chat.completion",
    "model": "stub-1",
    "choices": [
      {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
    ],
    "usage": {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 60}},
  }


class Endpoint:
  """Answers each question with `LANGUAGE: ID of the picture`, unless a fault answers it.

  Args:
    ids: whether it keeps pictures by `uuid`, as vLLM does.
    seconds: that an answer takes.
    faults: asked in their order, before it answers.

  Attributes:
    requests: bodies of the requests so far.
    bytes: of those.
    at_once: the most requests under way.
  """

  def __init__(self, *faults: Fault, ids: bool = False, seconds: float = 0.0):
    self.faults, self.ids, self.seconds = list(faults), ids, seconds
    self.requests: list[dict[str, Any]] = []
    self.bytes = self.at_once = self._now = 0
    self.pictures: dict[str, str] = {}  # id -> data URL
    self.url = ""

  async def chat(self, request: Request) -> Response:
    import asyncio

    body = await request.body()
    self.bytes += len(body)
    self._now += 1
    self.at_once = max(self.at_once, self._now)
    try:
      await asyncio.sleep(self.seconds)
      asked = json.loads(body)
      self.requests.append(asked)
      for fault in self.faults:
        if (answer := fault(self, asked)) is not None:
          return answer
      return self._answer(asked)
    finally:
      self._now -= 1

  def _answer(self, asked: dict[str, Any]) -> Response:
    content = asked["messages"][-1]["content"]
    if isinstance(content, str):
      return JSONResponse(completion(content))
    image, text = content[0], content[-1]["text"]
    url = (image["image_url"] or {}).get("url")
    if self.ids and "uuid" in image:
      if url is None and image["uuid"] not in self.pictures:
        return JSONResponse({"error": {"message": "Cache miss for image 0"}}, 400)
      url = self.pictures.setdefault(image["uuid"], str(url))
    if url is None:
      return JSONResponse({"error": {"message": "Invalid base64 value"}}, 400)
    return JSONResponse(completion(f"{text} {hash(url) % 10**8}"))

  async def list_models(self, request: Request) -> Response:
    return JSONResponse({"object": "list", "data": [{"id": "stub", "owned_by": "tests"}]})

  @contextlib.contextmanager
  def serving(self, port: int = 0) -> Iterator["Endpoint"]:
    """Serves on loopback; `url` is its address."""
    routes = [
      Route("/v1/chat/completions", self.chat, methods=["POST"]), Route("/v1/models", self.list_models),
    ]  # fmt: skip
    with socket.create_server(("127.0.0.1", port)) as listener:
      server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error", lifespan="off"))
      thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
      thread.start()
      while not server.started:
        time.sleep(0.01)
      self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
      try:
        yield self
      finally:
        server.should_exit = True
        thread.join()


def every(number: int, response: Callable[[], Response]) -> Fault:
  """Answers each n-th request so."""
  count = collections.Counter()

  def fault(endpoint: Endpoint, asked: dict[str, Any]) -> Response | None:
    count["requests"] += 1
    return response() if count["requests"] % number == 0 else None

  return fault


def error(status: int, message: Any, **headers: str) -> Callable[[], Response]:
  """A response with an error's body."""
  return lambda: JSONResponse({"error": {"message": message}}, status, headers=headers)
