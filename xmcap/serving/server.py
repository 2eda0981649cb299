"""The HTTP server: uvicorn, with timeouts for idle connections and a graceful stop."""

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
"""How long an open connection may still send a request while the server is stopping."""
_MOST_HEAD = 16 << 10  # bytes


class _Connection(H11Protocol):
  """A connection with a limited time between two requests, even if bytes trickle in.

  uvicorn's own timeout ends with the first byte of a request's head, and does not apply before the first request.
  """

  def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
    super().connection_made(transport)
    self._end_within(self.timeout_keep_alive)

  def data_received(self, data: bytes) -> None:
    self.conn.receive_data(data)
    self.handle_events()  # cancels the timeout when a head is complete; `on_response_complete` starts the next

  def shutdown(self) -> None:
    """Gives a connection without a request a moment to send one that is on its way."""
    if self.cycle is None or self.cycle.response_complete:
      self._end_within(_LAST_SECONDS)
    else:
      super().shutdown()

  def _end_within(self, seconds: float) -> None:
    self._unset_keepalive_if_required()
    self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)


class _Server(uvicorn.Server):
  """A server that stops at a first signal once all requests are answered, and at a second one immediately."""

  def __init__(self, config: uvicorn.Config, service: Service, started: Callable[[], None]):
    super().__init__(config)
    self._service, self._started = service, started

  async def startup(self, sockets: list[socket.socket] | None = None) -> None:
    """Calls `started` when connections are accepted."""
    await super().startup(sockets)
    self._started()

  @contextlib.contextmanager
  def capture_signals(self) -> Iterator[None]:
    """Exits with code 0, unlike uvicorn, which would raise the signal again."""
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
    """Accepts the connections that are already in the backlog, then stops listening and waits for all responses."""
    self._service.stopping = True
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
        lambda: _Connection(self.config, self.server_state, self.lifespan.state), accepted
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


def run(app: Starlette, service: Service, bound: socket.socket, started: Callable[[], None]) -> None:
  """Serves until a signal has come and every request is answered; calls `started` when connections are accepted."""
  limits = service.limits
  options: dict[str, Any] = {
    "http": _Connection,
    "ws": "none",
    "loop": "asyncio",
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
    "h11_max_incomplete_event_size": _MOST_HEAD,
    "timeout_keep_alive": limits.idle_seconds,
    "timeout_graceful_shutdown": int(limits.upload_seconds + 2 * limits.caption_seconds) + 5,
  }
  _Server(uvicorn.Config(app, **options), service, started).run([bound])
