"""The web application: the page, the captioning endpoint, health check and metrics."""

import asyncio
import contextlib
import dataclasses
import itertools
import json
import math
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from xmcap import wording
from xmcap.pages.report import elements
from xmcap.progress import Say
from xmcap.reading import image_formats
from xmcap.serving import chat, metrics, openapi, openapi_page
from xmcap.serving import limits as limits_lib
from xmcap.serving.batching import Batcher, Batching
from xmcap.serving.limits import Limits, Refused
from xmcap.serving.model import ServedModel
from xmcap.serving.starting import Startup

_JSON_LINES = "application/x-ndjson"
_PARAMETERS = ("languages", "search", "temperature", "seed", "stream")
_HEADERS = {
  # The page may only load from this server, and fetch pictures from local addresses.
  "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:;"
  " connect-src 'self' data: http://localhost:* http://127.0.0.1:*; base-uri 'none'; form-action 'none';"
  " frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-store",
}


class Service:
  """The state of a server: its start, its queue, its threads, and whether it is stopping."""

  def __init__(self, model: ServedModel, limits: Limits, batching: Batching, say: Say):
    self.model, self.limits = model, limits
    self.in_progress = 0  # requests for captions
    self.stopping = False  # health checks report it, and each connection closes after its response
    self.metrics = metrics.Metrics()
    self.metrics.queue.set_function(lambda: self.in_progress)
    self.uploads = limits_lib.Uploads()
    # One thread loads and calls the model; others decode pictures.
    self._device = ThreadPoolExecutor(1, "model")
    self.decoders = limits_lib.DecodingThreads(limits)
    self.batcher = Batcher(self._device, batching, lambda: self.in_progress, self.metrics.observe_call)
    self.start = Startup(model, batching, self.batcher, self._device, say)

  @contextlib.asynccontextmanager
  async def running(self, app: Starlette) -> AsyncIterator[None]:
    """Starlette's lifespan: calls the model until the server ends."""
    task = asyncio.create_task(self.batcher.run())
    try:
      yield
    finally:
      task.cancel()
      with contextlib.suppress(asyncio.CancelledError):
        await task
      self._device.shutdown(wait=False, cancel_futures=True)
      self.decoders.shutdown()

  def enter(self) -> Callable[[], None]:
    """Counts a request as in progress until the returned function is called first; Refused if there are too many.

    If there are, one whose picture arrives slowly loses its place.
    """
    if self.in_progress >= self.limits.queue and not self.uploads.end_slowest():
      raise Refused(429, f"{self.limits.queue} requests are in progress, which is the limit: try again soon")
    self.in_progress += 1
    inside = True

    def leave() -> None:
      nonlocal inside
      self.in_progress -= inside
      inside = False

    return leave


@dataclasses.dataclass(frozen=True)
class _Asked:
  languages: tuple[str, ...]
  name: str
  search: Any
  seed: int | None
  stream: bool


class _Captions:
  """`POST /v1/captions`.

  A request is in progress until its captions are decoded, whether the client reads them or not.
  """

  def __init__(self, service: Service):
    self._service = service

  async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
    began, status = time.monotonic(), 500

    async def noting(message: Message) -> None:
      nonlocal status
      if message["type"] == "http.response.start":
        status = message["status"]
      await send(message)

    request, leave = Request(scope, receive), _nothing
    try:
      leave = self._service.enter()
      response = await self._response(request, leave)
      await response(scope, receive, noting)
    except Refused as error:
      await _refusal(request, error)(scope, receive, noting)
    except ClientDisconnect:
      status = 499  # nginx's code for a client that disconnected
    finally:
      leave()
      self._service.metrics.requests.labels(str(status)).inc()
      self._service.metrics.seconds.observe(time.monotonic() - began)

  async def _response(self, request: Request, leave: Callable[[], None]) -> Response:
    service, limits = self._service, self._service.limits
    asked = self._asked(request)
    body = await service.uploads.read(request, limits, limits.upload_bytes, leave)
    limits_lib.check_picture(body)
    image = await service.decoders.decode(body, service.model.image_size)
    del body
    captions = service.batcher.captions(
      image, asked.languages, asked.search, limits.caption_seconds, asked.seed, leave
    )
    warning = service.model.warning(asked.languages)
    if asked.stream:
      return StreamingResponse(_lines(captions, warning, service.model), media_type=_JSON_LINES)
    async with contextlib.aclosing(captions):
      by_language = {language: caption async for language, caption in captions}
    answer = {
      "search": asked.name,
      "captions": {language: by_language[language].text for language in asked.languages},
    }
    warnings = filter(None, (warning, service.model.unlike(by_language)))
    return JSONResponse({**answer, "warning": warning} if (warning := "; ".join(warnings)) else answer)

  def _asked(self, request: Request) -> _Asked:
    _check_origin(request)
    query = dict(request.query_params)
    if len(query) < len(request.query_params.multi_items()):
      twice = wording.repeated(name for name, _ in request.query_params.multi_items())
      raise Refused(400, f"parameter {twice[0][:40]!r} is given twice: give it once")
    if unknown := sorted(set(query) - {*_PARAMETERS}):
      raise Refused(400, f"unknown parameter {unknown[0][:40]!r}: give {', '.join(_PARAMETERS)}")
    model = self._service.model
    languages = model.languages_of(query["languages"]) if "languages" in query else model.unasked
    name = query.get("search", next(iter(model.searches)))
    if name not in model.searches:
      raise Refused(400, f"unknown search {name[:40]!r}: give one of {', '.join(model.searches)}")
    search = model.searches[name]
    of_draws = {
      part: _number(query, part, *limits) for part, limits in openapi.OF_DRAWS.items() if part in query
    }
    if of_draws and name not in model.drawing:
      drawing = ", ".join(model.drawing) or "this server has none"
      raise Refused(400, f"{next(iter(of_draws))}: only for a search that samples captions ({drawing})")
    if "temperature" in of_draws:
      search = dataclasses.replace(search, temperature=of_draws["temperature"])
    stream = query.get("stream", "false")
    if stream not in ("true", "false"):
      raise Refused(400, "stream: give true or false")
    self._service.start.check(name)
    return _Asked(languages, name, search, of_draws.get("seed"), stream == "true")


class _Chat(_Captions):
  """`POST /v1/chat/completions`."""

  async def _response(self, request: Request, leave: Callable[[], None]) -> Response:
    service, limits = self._service, self._service.limits
    _check_origin(request)
    body = await service.uploads.read(request, limits, chat.most_bytes(limits.upload_bytes), leave)
    asked, file = await service.decoders.call(chat.read, body, service.model, limits.upload_bytes)
    del body
    service.start.check(asked.search_name)
    image = await service.decoders.decode(file, service.model.image_size)
    del file
    captions = service.batcher.captions(
      image, (asked.language,), asked.search, limits.caption_seconds, asked.seed, leave
    )
    async with contextlib.aclosing(captions):
      by_language = {language: caption async for language, caption in captions}
    warnings = filter(None, (service.model.warning((asked.language,)), service.model.unlike(by_language)))
    caption, vocabulary = by_language[asked.language], service.batcher.captioner.vocabulary
    answer = chat.completion(asked, caption, vocabulary, service.model.name, "; ".join(warnings))
    if asked.stream:
      return Response(chat.events(answer), media_type="text/event-stream")
    return JSONResponse(answer)


def _check_origin(request: Request) -> None:
  origin = request.headers.get("origin")
  if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
    raise Refused(403, "requests from pages of another origin are not allowed: use this server's own page")


def _nothing() -> None:
  pass


def _number(query: Mapping[str, str], name: str, kind: type, least: float, most: float) -> Any:
  try:
    value = kind(query[name])
  except ValueError:
    value = math.nan
  if not least <= value <= most:
    raise Refused(400, f"{name}={query[name][:40]}: give a number from {least:,} to {most:,}")
  return value


async def _lines(captions, warning: str, model: ServedModel) -> AsyncIterator[str]:
  """A line of JSON for a warning of the languages, if there is one, for each caption, and for one of the picture.

  An error becomes the last line, since the status has already been sent.
  """
  by_language = {}
  async with contextlib.aclosing(captions):
    if warning:
      yield json.dumps({"warning": warning}) + "\n"
    try:
      async for language, caption in captions:
        by_language[language] = caption
        yield json.dumps({"language": language, "caption": caption.text}, ensure_ascii=False) + "\n"
      if warning := model.unlike(by_language):
        yield json.dumps({"warning": warning}) + "\n"
    except Refused as error:
      yield json.dumps({"error": str(error)}) + "\n"


def _refusal(request: HTTPConnection, error: Exception) -> Response:
  assert isinstance(error, Refused)
  headers = {"retry-after": "1"} if error.status in (429, 503) else {}
  if error.status == 408:
    headers["connection"] = "close"
  return JSONResponse(_body(error, request), error.status, headers)


def _body(error: Refused, request: HTTPConnection) -> Mapping[str, Any]:
  """The body of an error: of this server's own routes a line, of all others below /v1 as OpenAI's clients read it."""
  path = request.scope["path"]
  of_openai = path.startswith("/v1/") and path not in ("/v1/captions", "/v1/model")
  return chat.error(error) if of_openai else {"error": str(error)}


def make(
  model: ServedModel,
  limits: Limits,
  batching: Batching,
  hosts: Sequence[str] = ("*",),
  say: Say = lambda line: None,
) -> tuple[Starlette, Service]:
  """Makes the application and its state; `say` is told how its start goes on.

  `hosts` are the host names that browsers may use, `*` for any; they prevent DNS rebinding, by which a foreign page
  could read the server's responses.
  """
  service = Service(model, limits, batching, say)
  page, script, style = (
    elements.resource(name, "xmcap.serving") for name in ("page.html", "page.js", "page.css")
  )
  style = elements.resources("shared.css", "base.css") + style
  script = elements.resource("shared.js") + script
  document = openapi.document(model, limits)

  def fixed(text: str, media_type: str):
    return lambda request: Response(text, media_type=media_type)

  def about(request: Request) -> Response:
    return JSONResponse(_about(service))

  def one_model(request: Request) -> Response:
    chat.check_name(request.path_params["name"], model)
    return JSONResponse(chat.own(model))

  def health(request: Request) -> Response:
    status = "stopping" if service.stopping else "ready" if service.start.is_over else "starting"
    return JSONResponse({"status": status}, 200 if status == "ready" else 503)

  def measured(request: Request) -> Response:
    return Response(service.metrics.text(), media_type=metrics.CONTENT_TYPE)

  routes = [
    Route("/", fixed(page, "text/html")),
    Route("/page.css", fixed(style, "text/css")),
    Route("/page.js", fixed(script, "text/javascript")),
    Route("/openapi.json", fixed(json.dumps(document), "application/json")),
    Route("/docs", fixed(openapi_page.page(document), "text/html")),
    Route("/v1/model", about),
    Route("/v1/captions", _Captions(service), methods=["POST"]),
    Route("/v1/chat/completions", _Chat(service), methods=["POST"]),
    Route("/v1/models", fixed(json.dumps(chat.models(model)), "application/json")),
    Route("/v1/models/{name:path}", one_model),
    Route("/health", health),
    Route("/metrics", measured),
  ]
  middleware = [Middleware(_Headers, service=service, hosts=frozenset(hosts))]
  handlers = {HTTPException: _http_error, Refused: _refusal, Exception: _server_error}
  app = Starlette(routes=routes, middleware=middleware, exception_handlers=handlers, lifespan=service.running)
  return app, service


def _http_error(request: Request, error: Exception) -> Response:
  assert isinstance(error, HTTPException)
  words = ", but ".join(filter(None, (error.detail, (error.headers or {}).get("Allow"))))
  refused = Refused(error.status_code, f"{words}: /docs lists the endpoints")
  return JSONResponse(_body(refused, request), error.status_code, error.headers)


def _server_error(request: Request, error: Exception) -> Response:
  line = Refused(500, "the server failed; its log says why")
  return JSONResponse(_body(line, request), 500, {"connection": "close"})


def _about(service: Service) -> Mapping[str, object]:
  """The data for the page: the model, its languages, searches and limits, and how far its start is."""
  model = service.model
  return {
    "name": model.name,
    "searches": list(model.searches),
    "drawing": model.drawing,
    "limits": dataclasses.asdict(service.limits),
    "formats": [*image_formats.FORMATS, *image_formats.optional_formats()],
    "languages": list(map(elements.language, model.trained)),
    "untrained": list(map(elements.language, model.untrained)),
    "own": list(map(elements.language, model.own)),
    "start": service.start.state(),
  }


class _Headers:
  """Checks the head of every request, and adds headers to every response.

  While the server is stopping, `connection: close` is among them.
  """

  def __init__(self, app, service: Service, hosts: Collection[str]):
    self._app, self._service, self._hosts = app, service, hosts

  async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
    async def adding(message: Message) -> None:
      if message["type"] == "http.response.start":
        message["headers"].extend((name.encode(), value.encode()) for name, value in _HEADERS.items())
        if self._service.stopping:
          message["headers"].append((b"connection", b"close"))
      await send(message)

    try:
      if scope["type"] == "http":
        self._check(scope)
    except Refused as error:
      await _refusal(HTTPConnection(scope), error)(scope, receive, adding)
    else:
      await self._app(scope, receive, adding)

  def _check(self, scope: Scope) -> None:
    """Raises Refused if the head is too large, also one that came in one piece, or names another host."""
    first = (scope["method"], scope["raw_path"], scope["query_string"])
    size = sum(map(len, itertools.chain(first, *scope["headers"])))
    if size > limits_lib.MOST_HEAD:
      raise Refused(
        431, f"the head of the request is larger than the limit of {limits_lib.MOST_HEAD:,} bytes"
      )
    host = Headers(scope=scope).get("host", "")
    if "*" not in self._hosts and _name(host) not in self._hosts:
      raise Refused(400, f"host {host[:60]!r} is not one of {', '.join(sorted(self._hosts))}")


def _name(host: str) -> str:
  """Returns a host without its port; an address of IPv6 in brackets."""
  name, colon, port = host.rpartition(":")
  return (name if colon and port.isdigit() and not name.endswith(":") else host).lower()
