"""A connection to the server: HTTP, or HTTPS to one of Google's servers by way of this one as a proxy."""

import http.server
import socketserver
from collections.abc import Mapping
from typing import Any

GOOGLE = ("www.googleapis.com", "storage.googleapis.com")
"""The servers that are answered for."""


class Refused(Exception):
  """An answer that ends a request."""

  def __init__(self, status: int, message: str, reason: str):
    self.status, self.message, self.reason = status, message, reason


class Connection(http.server.BaseHTTPRequestHandler):
  """Reads requests and sends answers."""

  protocol_version = "HTTP/1.1"
  disable_nagle_algorithm = True  # an answer is written in two parts
  server: Any  # has an `authority`

  def do_CONNECT(self) -> None:
    if self.path.removesuffix(":443") not in GOOGLE:
      self.reply(403, b"")
      return
    self.send_response(200)
    self.end_headers()
    self.connection = self.server.authority.context.wrap_socket(self.connection, server_side=True)
    self.rfile = self.connection.makefile("rb", -1)
    # As StreamRequestHandler makes it.
    self.wfile = socketserver._SocketWriter(self.connection)  # pyright: ignore[reportAttributeAccessIssue]
    self.close_connection = False

  def reply(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    self.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
      self.send_header(name, value)
    self.end_headers()
    if self.command != "HEAD":
      self.wfile.write(body)

  def log_message(self, *arguments) -> None:
    pass

  def read_body(self) -> bytes:
    """The body of the request, of known length or in chunks."""
    if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
      return self.rfile.read(int(self.headers.get("Content-Length") or 0))
    data = bytearray()
    while size := int(self.rfile.readline().partition(b";")[0], 16):
      data += self.rfile.read(size)
      self.rfile.readline()
    while self.rfile.readline().strip():  # headers after the last part
      pass
    return bytes(data)
