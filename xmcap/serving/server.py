"""The HTTP server: uvicorn, with connections that end in time, and a stop that loses no request."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from xmcap.errors import UsageError
from xmcap.serving.app import Service

_LAST_SECONDS = 1
"""For which an open connection may still send a request when the server is about to stop."""
_BACKLOG = 2048
_MOST_HEAD = 16 << 10  # bytes


class _Connection(H11Protocol):
  """A connection whose time between two requests is limited, whatever bytes drip in.

  uvicorn's own limit ends with the first byte of a request's head, and is not there before the first request.
  """

  def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
    super().connection_made(transport)
    self._end_within(self.timeout_keep_alive)

  def data_received(self, data: bytes) -> None:
    self.conn.receive_data(data)
    self.handle_events()  # ends the limit when a head is whole; `on_response_complete` begins the next

  def shutdown(self) -> None:
    """A connection without a request may have one on its way."""
    if self.cycle is None or self.cycle.response_complete:
      self._end_within(_LAST_SECONDS)
    else:
      super().shutdown()

  def _end_within(self, seconds: float) -> None:
    self._unset_keepalive_if_required()
    self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)


class _Server(uvicorn.Server):
  """A server that a first signal ends when all requests are answered, and a second one at once."""

  def __init__(self, config: uvicorn.Config, service: Service, started: Callable[[], None]):
    super().__init__(config)
    self._service, self._started = service, started

  async def startup(self, sockets: list[socket.socket] | None = None) -> None:
    """Says when connections are taken."""
    await super().startup(sockets)
    self._started()

  @contextlib.contextmanager
  def capture_signals(self) -> Iterator[None]:
    """Ends with exit code 0, where uvicorn would raise the signal again."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
      loop.add_signal_handler(number, self._stop)
    try:
      yield
    finally:
      for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)

  def _stop(self) -> None:
    self.force_exit = self.should_exit
    self.should_exit = True

  async def shutdown(self, sockets: Sequence[socket.socket] | None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
    """Takes the connections that the system has accepted, then closes the door and waits for all answers."""
    self._service.stop()
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
      await loop.connect_accepted_socket(self._connection, accepted)
    await super().shutdown(list(sockets or []))

  def _connection(self) -> _Connection:
    return _Connection(self.config, self.server_state, self.lifespan.state)


def bind(host: str, port: int) -> socket.socket:
  """A socket at an address, which refuses connections until `run` listens; UsageError where that cannot be."""
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
  """The names by which a browser may call a server at this address; any, if other machines may reach it."""
  local = ["127.0.0.1", "localhost"]
  return [*local, host] if host in local or host.startswith("127.") else ["*"]


def address(bound: socket.socket) -> str:
  """The address of the page."""
  host, port = bound.getsockname()[:2]
  return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def run(app: Starlette, service: Service, bound: socket.socket, started: Callable[[], None]) -> None:
  """Calls `started` when connections are taken, and serves until a signal has come and every request is answered."""
  limits = service.limits
  options: dict[str, Any] = {
    "http": _Connection,
    "ws": "none",
    "loop": "asyncio",
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
    "backlog": _BACKLOG,
    "h11_max_incomplete_event_size": _MOST_HEAD,
    "timeout_keep_alive": limits.idle_seconds,
    "timeout_graceful_shutdown": int(limits.upload_seconds + 2 * limits.caption_seconds) + 5,
  }
  _Server(uvicorn.Config(app, **options), service, started).run([bound])
