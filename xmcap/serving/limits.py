"""What the server takes from strangers: how much, how many, how long; and one line for all that it refuses."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterator
from concurrent.futures import Executor

import numpy as np
from starlette.requests import Request

from xmcap.data import images
from xmcap.errors import XmcapError


class Refused(XmcapError):
  """A request that is not carried out; `status` is HTTP's."""

  def __init__(self, status: int, message: str):
    super().__init__(message)
    self.status = status


@dataclasses.dataclass(frozen=True)
class Limits:
  """The limits of a server.

  Attributes:
    upload_bytes: of a picture's file.
    pixels: of a picture, which its header says before anything is decoded.
    queue: requests that are read, decoded and captioned at once.
    upload_seconds: from the head of a request to the end of its body.
    caption_seconds: from there to the last caption.
    idle_seconds: for which a connection may be open without the whole head of a request.
  """

  upload_bytes: int = 16 << 20
  pixels: int = 40_000_000
  queue: int = 128
  upload_seconds: float = 15.0
  caption_seconds: float = 60.0
  idle_seconds: float = 10.0


class Queue:
  """Counts the requests that are under way, and refuses what is too many."""

  def __init__(self, most: int):
    self.most, self.length = most, 0

  @contextlib.contextmanager
  def entered(self) -> Iterator[None]:
    """Holds a place while a request is under way; Refused where none is free."""
    if self.length >= self.most:
      raise Refused(429, f"{self.most} requests are under way, which is all that is allowed: try again soon")
    self.length += 1
    try:
      yield
    finally:
      self.length -= 1


async def read_body(request: Request, limits: Limits) -> bytes:
  """The body of a request; Refused if it is too large, too slow or empty. No more than the limit is ever held."""
  most = limits.upload_bytes
  declared = request.headers.get("content-length", "")
  body = bytearray()
  if declared.isdigit() and int(declared) > most:
    raise _too_large(most)
  try:
    async with asyncio.timeout(limits.upload_seconds):
      async for chunk in request.stream():
        body += chunk
        if len(body) > most:
          raise _too_large(most)
  except TimeoutError:
    raise Refused(
      408, f"the picture did not arrive within {limits.upload_seconds:g} s: send it faster"
    ) from None
  if not body:
    raise Refused(400, "no picture: send the bytes of its file as the body of the request")
  return bytes(body)


def _too_large(most: int) -> Refused:
  return Refused(413, f"the picture's file is larger than the {most:,} bytes allowed: make it smaller")


async def decode(data: bytes, size: int, limits: Limits, threads: Executor) -> np.ndarray:
  """A picture as the model sees it, uint8 [size, size, 3]; Refused if the bytes are none that can be taken."""
  decoding = asyncio.get_running_loop().run_in_executor(threads, _decoded, data, size, limits.pixels)
  try:
    return await asyncio.wait_for(decoding, limits.caption_seconds)
  except TimeoutError:
    raise Refused(504, f"the picture was not decoded within {limits.caption_seconds:g} s") from None


def _decoded(data: bytes, size: int, most: int) -> np.ndarray:
  try:
    return images.load(data, "upload", size, max_pixels=most)
  except XmcapError as error:
    raise Refused(422, str(error)) from None
  except MemoryError:
    raise Refused(503, "not enough memory to decode the picture: try again, or make it smaller") from None
