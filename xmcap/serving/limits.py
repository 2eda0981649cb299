"""The server's limits on size, number and time of requests, and the reading of a picture within them."""

import asyncio
import dataclasses
import functools
from concurrent.futures import Executor

import numpy as np
from starlette.requests import Request

from xmcap.data import images
from xmcap.errors import XmcapError

MOST_HEAD = 16 << 10
"""Largest head of a request in bytes."""

_BODY = "upload"  # the key of a picture without a name


class Refused(XmcapError):
  """A request that is rejected; `status` is the HTTP status."""

  def __init__(self, status: int, message: str):
    super().__init__(message)
    self.status = status


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


async def read_body(request: Request, limits: Limits) -> bytes:
  """Reads the body of a request; Refused if it is too large, too slow or empty. Never buffers more than the limit."""
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
  return Refused(413, f"the picture's file is larger than the limit of {most:,} bytes: make it smaller")


async def decode(data: bytes, size: int, limits: Limits, threads: Executor) -> np.ndarray:
  """Decodes a picture to uint8 [size, size, 3], as the model sees it; Refused if that is not possible."""
  load = functools.partial(images.load, data, _BODY, size, max_pixels=limits.pixels)
  decoding = asyncio.get_running_loop().run_in_executor(threads, load)
  try:
    return await asyncio.wait_for(decoding, limits.caption_seconds)
  except TimeoutError:
    raise Refused(504, f"the picture was not decoded within {limits.caption_seconds:g} s") from None
  except XmcapError as error:
    # Who sends the body knows its name.
    raise Refused(422, str(error).removeprefix(f"picture '{_BODY}': ")) from None
  except MemoryError:
    raise Refused(503, "not enough memory to decode the picture: try again, or make it smaller") from None
