"""The server's limits on size, number and time of requests, and the reading of a picture within them."""

import asyncio
import contextlib
import dataclasses
import functools
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from starlette.requests import Request

from xmcap import processes
from xmcap.data import images
from xmcap.errors import XmcapError
from xmcap.reading import image_formats

MOST_HEAD = 16 << 10
"""Largest head of a request in bytes."""
LARGE = 8_000_000
"""Pictures of more pixels take turns of their own, so that others need not wait for them."""
_SOON = 0.25
"""Seconds in which a body may arrive at any rate."""

_LINGER = 5.0
"""Seconds in which the rest of a body that is too large is read and dropped."""
_BODY = "upload"  # the key of a picture without a name


class Refused(XmcapError):
  """A request that is rejected; `status` is the HTTP status, `field` the field of a chat completion that is wrong."""

  def __init__(self, status: int, message: str, field: str | None = None):
    super().__init__(message)
    self.status, self.field = status, field


@dataclasses.dataclass(frozen=True)
class Limits:
  """The limits of a server.

  Attributes:
    upload_bytes: largest picture file.
    pixels: largest picture, checked in its header before decoding.
    queue: largest number of requests in progress.
    upload_seconds: longest time from the head of a request to the end of its body.
    caption_seconds: longest time from there to the last caption.
    idle_seconds: how long a connection may be open without a complete request head.
    send_seconds: how long a client may take to read what was sent to it.
  """

  upload_bytes: int = 16 << 20
  pixels: int = 40_000_000
  queue: int = 128
  upload_seconds: float = 15.0
  caption_seconds: float = 60.0
  idle_seconds: float = 10.0
  send_seconds: float = 20.0


@dataclasses.dataclass(eq=False)
class _Upload:
  timeout: asyncio.Timeout
  began: float
  leave: Callable[[], None]
  received: int = 0
  ended: bool = False

  def rate(self, now: float) -> float:
    return self.received / (now - self.began)


class Uploads:
  """The bodies that are being received."""

  def __init__(self):
    self._open: set[_Upload] = set()

  def end_slowest(self) -> bool:
    """Ends the one that arrives slowest, so that another request has its place; False if all arrive in time."""
    now = asyncio.get_running_loop().time()
    slow = [one for one in self._open if now - one.began > _SOON and not one.timeout.expired()]
    if not slow:
      return False
    upload = min(slow, key=lambda one: one.rate(now))
    self._open.remove(upload)
    upload.ended = True
    upload.timeout.reschedule(now)
    upload.leave()
    return True

  async def read(self, request: Request, limits: Limits, most: int, leave: Callable[[], None]) -> bytes:
    """Reads the body of a request; Refused if it is too large or too slow. Never buffers more than `most` bytes.

    `leave` is called if the request has lost its place to another.
    """
    declared = request.headers.get("content-length", "")
    body = bytearray()
    if declared.isdigit() and int(declared) > most:
      await _discard(request, leave)
      raise too_large(limits.upload_bytes)
    upload = _Upload(asyncio.timeout(limits.upload_seconds), asyncio.get_running_loop().time(), leave)
    try:
      async with upload.timeout:
        self._open.add(upload)
        async for chunk in request.stream():
          body += chunk
          upload.received = len(body)
          if len(body) > most:
            break
    except TimeoutError:
      if upload.ended:
        raise Refused(
          408, f"{limits.queue} requests are in progress, and this picture arrived slowest: send it faster"
        ) from None
      raise Refused(
        408, f"the picture did not arrive within {limits.upload_seconds:g} s: send it faster"
      ) from None
    finally:
      self._open.discard(upload)
    if len(body) > most:
      body.clear()
      await _discard(request, leave)
      raise too_large(limits.upload_bytes)
    return bytes(body)


async def _discard(request: Request, leave: Callable[[], None]) -> None:
  """Reads what is still sent, without the request's place: closing now would take the answer away from its client."""
  leave()
  with contextlib.suppress(TimeoutError):
    async with asyncio.timeout(_LINGER):
      async for _ in request.stream():
        pass


_ENVELOPES = {
  rb"--[^\r\n]{1,80}\r?\ncontent-": "a form's upload (multipart/form-data)",
  rb"[\w-]{1,40}=[\x21-\x7e]": "a form's fields (application/x-www-form-urlencoded)",
  rb"[{\[]": "JSON",
  rb"data:\w*/": "a data URL",
  rb"https?://": "the address of a picture",
  rb"(/9j/|iVBORw0KGgo|R0lGOD|UklGR)[a-z0-9+/]": "a picture in base64",
}
"""How a body begins that is no picture's file, in any case, and what it is."""


def envelope(body: bytes) -> str:
  """Returns in what a client wrapped a picture's file, in words; "" for any other body."""
  head = body[:200].lstrip()
  return next((name for begins, name in _ENVELOPES.items() if re.match(begins, head, re.IGNORECASE)), "")


def check_picture(body: bytes) -> None:
  """Raises Refused for a body that is empty, or no picture's file but one in an envelope."""
  how = "send the bytes of the picture's file as the body, as curl --data-binary @photo.jpg does"
  if not body:
    raise Refused(400, f"no picture: {how}")
  if name := envelope(body):
    raise Refused(415, f"the body is {name}: {how}; /v1/chat/completions takes JSON with a data URL")


def too_large(most: int) -> Refused:
  """The refusal of a picture of more than `most` bytes."""
  return Refused(413, f"the picture's file is larger than the limit of {most:,} bytes: make it smaller")


class DecodingThreads:
  """The threads that decode pictures; large ones use half of them, and half of the places for requests."""

  def __init__(self, limits: Limits):
    cores = processes.available_cores()
    self._limits = limits
    self._threads = ThreadPoolExecutor(cores, "pictures")
    self._for_large = ThreadPoolExecutor(max(1, cores // 2), "large pictures")
    self._large = 0

  def shutdown(self) -> None:
    """Lets go of the threads, without waiting for them."""
    for threads in (self._threads, self._for_large):
      threads.shutdown(wait=False, cancel_futures=True)

  async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function in a thread for small pictures."""
    return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

  async def decode(self, data: bytes, size: int) -> np.ndarray:
    """Decodes a picture to uint8 [size, size, 3], as the model sees it; Refused if that is not possible."""
    limits, loop = self._limits, asyncio.get_running_loop()
    load = functools.partial(images.load, data, _BODY, size, max_pixels=limits.pixels)
    is_large = await loop.run_in_executor(self._threads, _pixels, data) > LARGE
    most = max(1, limits.queue // 2)
    if is_large and self._large >= most:
      raise Refused(429, f"{most} large pictures are in progress, which is the limit: try again soon")
    self._large += is_large
    try:
      decoding = loop.run_in_executor(self._for_large if is_large else self._threads, load)
      return await asyncio.wait_for(decoding, limits.caption_seconds)
    except TimeoutError:
      raise Refused(504, f"the picture was not decoded within {limits.caption_seconds:g} s") from None
    except XmcapError as error:
      # Who sends the body knows its name.
      raise Refused(422, str(error).removeprefix(f"picture '{_BODY}': ")) from None
    except MemoryError:
      raise Refused(503, "not enough memory to decode the picture: try again, or make it smaller") from None
    finally:
      self._large -= is_large


def _pixels(data: bytes) -> int:
  """The number of pixels in a picture's header; 0 if it cannot be read, which `images.load` says."""
  try:
    with image_formats.opened(data) as image:
      return image.width * image.height
  except Exception:  # Pillow raises many types of errors on damaged bytes
    return 0
