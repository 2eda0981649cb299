"""A connection of the server: what a client may keep open, and for how long."""

import asyncio
import dataclasses
import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_LAST_SECONDS = 1
"""How long an open connection may still send a request while the server is stopping."""


@dataclasses.dataclass
class Connections:
  """The connections of a server.

  Attributes:
    most: the largest number of them.
    send_seconds: how long a client may take to read what was sent to it.
    waiting: those without a request in progress, or whose clients do not read; the one that has waited longest first.
  """

  most: int
  send_seconds: float
  waiting: dict["Connection", None] = dataclasses.field(default_factory=dict)


class Connection(H11Protocol):
  """A connection with a limited time between two requests, even if bytes trickle in, and to read a response.

  uvicorn's own timeout ends with the first byte of a request's head, and does not apply before the first request; and
  it waits for ever for a client that does not read. If there are too many connections, the one that has waited longest
  for its client is ended; if there is none, the new one is refused.
  """

  def __init__(self, *arguments: Any, of: Connections, **named: Any):
    super().__init__(*arguments, **named)
    self._of = of
    self._unread: asyncio.TimerHandle | None = None
    self._refused = False  # what still comes is not looked at

  def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
    super().connection_made(transport)
    # So that `pause_writing` is called as soon as the client's side is full, and `resume_writing` when all is sent.
    transport.set_write_buffer_limits(0)
    if len(self.connections) > self._of.most:
      if not self._of.waiting:
        self._refuse(503, f"{self._of.most} connections are open, which is the limit: try again soon")
        self.transport.close()
        return
      oldest = next(iter(self._of.waiting))
      del self._of.waiting[oldest]
      oldest.transport.abort()
    self._end_within(self.timeout_keep_alive)

  def connection_lost(self, exc: Exception | None) -> None:
    super().connection_lost(exc)
    self._unset_keepalive_if_required()
    self._stop_waiting_for_the_client()

  def data_received(self, data: bytes) -> None:
    if self._refused:
      return
    self.conn.receive_data(data)
    self.handle_events()  # cancels the timeout when a head is complete; `on_response_complete` starts the next

  def eof_received(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
    """Keeps the connection open for the response to a complete request: the client may still read."""
    cycle = self.cycle
    answering = not (self._refused or cycle is None or cycle.response_complete or cycle.more_body)
    if answering:
      self.cycle.keep_alive = False
    return answering

  def on_response_complete(self) -> None:
    super().on_response_complete()
    if self.timeout_keep_alive_task is not None:  # no other request has come yet
      self._of.waiting[self] = None

  def pause_writing(self) -> None:
    super().pause_writing()
    if self._unread is None:
      self._unread = self.loop.call_later(self._of.send_seconds, self.transport.abort)
      self._of.waiting[self] = None

  def resume_writing(self) -> None:
    super().resume_writing()
    self._stop_waiting_for_the_client()

  def send_400_response(self, msg: str) -> None:
    self._refuse(400, msg.rstrip(".").lower())

  def shutdown(self) -> None:
    """Gives a connection without a request a moment to send one that is on its way."""
    if self.cycle is None or self.cycle.response_complete:
      self._end_within(_LAST_SECONDS)
    else:
      super().shutdown()

  def _refuse(self, status: int, why: str) -> None:
    """Answers with an error, and closes a moment later: what is unread would take the answer away from its client."""
    if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # within another response
      self.transport.abort()
      return
    self._refused = True
    if self.cycle is not None:  # its request cannot be understood further
      self.cycle.disconnected = True
      self.cycle.message_event.set()
    body = json.dumps({"error": why}).encode()
    headers = [
      ("content-type", "application/json"),
      ("content-length", str(len(body))),
      ("connection", "close"),
    ]
    for event in (h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
      self.transport.write(self.conn.send(event) or b"")
    self.transport.write_eof()
    self._end_within(_LAST_SECONDS)

  def _end_within(self, seconds: float) -> None:
    self._unset_keepalive_if_required()
    self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)
    self._of.waiting[self] = None

  def _unset_keepalive_if_required(self) -> None:
    super()._unset_keepalive_if_required()
    self._wait_no_more()

  def _stop_waiting_for_the_client(self) -> None:
    if self._unread is not None:
      self._unread.cancel()
      self._unread = None
    self._wait_no_more()

  def _wait_no_more(self) -> None:
    if self._unread is None and self.timeout_keep_alive_task is None:
      self._of.waiting.pop(self, None)
