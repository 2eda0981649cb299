"""The HTTP server: uvicorn, with timeouts for idle connections and a graceful stop."""

import asyncio
import contextlib
import errno
import functools
import logging
import math
import resource
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import uvicorn
from starlette.applications import Starlette

from xmcap.errors import UsageError, one_line
from xmcap.serving.app import Service
from xmcap.serving.connection import Connection, Connections
from xmcap.serving.limits import MOST_HEAD
from xmcap.serving.starting import Load

_MOST_CONNECTIONS = 4096
_BACKLOG = 64  # connections that the system accepts beforehand; asyncio takes them all at once
_STOPS = (signal.SIGTERM, signal.SIGINT)
_FILES = 128  # descriptors for everything but connections


class _Server(uvicorn.Server):
  """A server that stops at a first signal once all requests are answered, and at a second one immediately.

  Attributes:
    failure: why it could not load or compile the model, for which it stops.
  """

  def __init__(
    self,
    config: uvicorn.Config,
    connection: Callable[..., Connection],
    service: Service,
    load: Load,
    opened: Callable[[], None],
    ready: Callable[[], None],
  ):
    super().__init__(config)
    self._connection, self._service = connection, service
    self._load, self._opened, self._ready = load, opened, ready
    self._starting: asyncio.Task | None = None
    self.failure: Exception | None = None
    self._said = -math.inf

  async def startup(self, sockets: list[socket.socket] | None = None) -> None:
    """Accepts connections, then begins to load the model."""
    asyncio.get_running_loop().set_exception_handler(self._say)
    await super().startup(sockets)
    self._opened()
    self._starting = asyncio.create_task(self._start())

  async def _start(self) -> None:
    try:
      await self._service.start.load(self._load)
      self._hear()  # libtpu has put handlers in the place of these, which print a stack trace
      await self._service.start.compile()
      self._ready()
    except Exception as error:
      self.failure, self.should_exit = error, True

  def _say(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Says at most once a minute that no file can be opened: asyncio would for each connection that waits."""
    error = context.get("exception")
    if not (isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)):
      loop.default_exception_handler(context)
    elif loop.time() - self._said > 60:
      self._said = loop.time()
      logging.error("too many open files (%s): connections have to wait", one_line(error))

  @contextlib.contextmanager
  def capture_signals(self) -> Iterator[None]:
    """Exits with code 0, unlike uvicorn, which would raise the signal again."""
    self._hear()
    try:
      yield
    finally:
      for number in _STOPS:
        asyncio.get_running_loop().remove_signal_handler(number)

  def _hear(self) -> None:
    for number in _STOPS:
      asyncio.get_running_loop().add_signal_handler(number, self._stop)

  def _stop(self) -> None:
    self.force_exit = self.should_exit
    self.should_exit = True

  async def shutdown(self, sockets: Sequence[socket.socket] | None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
    """Accepts the connections that are already in the backlog, then stops listening and waits for all responses."""
    self._service.stopping = True
    if self._starting is not None:
      self._starting.cancel()
    loop = asyncio.get_running_loop()
    waiting = []
    for listening in sockets or []:
      loop.remove_reader(listening.fileno())
      with contextlib.suppress(OSError):
        while True:
          waiting.append(listening.accept()[0])
    for server in self.servers:
      server.close()
    for accepted in waiting:
      await loop.connect_accepted_socket(
        lambda: self._connection(self.config, self.server_state, self.lifespan.state), accepted
      )
    await super().shutdown(list(sockets or []))


def bind(host: str, port: int) -> socket.socket:
  """Binds a socket, which refuses connections until `run` listens; UsageError if the address cannot be bound."""
  try:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    bound = socket.socket(family, kind, protocol)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(address)
  except (OSError, UnicodeError) as error:
    said = getattr(error, "strerror", None) or error
    raise UsageError(f"--host={host} --port={port}: {said}: give another address or port") from None
  return bound


def hosts(host: str) -> list[str]:
  """The host names that browsers may use for a server at this address; any, if other machines may reach it."""
  local = ["127.0.0.1", "localhost", "[::1]"]
  name = f"[{host}]" if ":" in host else host
  return [*local, name] if name in local or name.startswith("127.") else ["*"]


def address(bound: socket.socket) -> str:
  """The URL of the page."""
  host, port = bound.getsockname()[:2]
  return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def most_connections() -> int:
  """Raises the limit of open files as far as it goes; returns how many connections fit below it."""
  soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
  with contextlib.suppress(OSError, ValueError):
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft = hard
  most = _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else soft - _FILES - _BACKLOG
  return max(1, min(most, _MOST_CONNECTIONS))


def run(
  app: Starlette,
  service: Service,
  bound: socket.socket,
  load: Load,
  opened: Callable[[], None],
  ready: Callable[[], None],
) -> None:
  """Serves until a signal has come and every request is answered.

  Args:
    load: loads the captioner, while connections are accepted already.
    opened: called when they are.
    ready: called when the model is compiled.

  Raises:
    Exception: of `load`, or of compiling the model.
  """
  limits = service.limits
  connection = functools.partial(Connection, of=Connections(most_connections(), limits.send_seconds))
  # A line for each malformed request would fill the log.
  logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
  options: dict[str, Any] = {
    "http": connection,
    "ws": "none",
    "loop": "asyncio",
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
    "backlog": _BACKLOG,
    "h11_max_incomplete_event_size": MOST_HEAD,
    "timeout_keep_alive": limits.idle_seconds,
    "timeout_graceful_shutdown": int(limits.upload_seconds + 2 * limits.caption_seconds) + 5,
  }
  server = _Server(uvicorn.Config(app, **options), connection, service, load, opened, ready)
  server.run([bound])
  if server.failure is not None:
    raise server.failure
