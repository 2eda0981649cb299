"""TensorBoard's event files, written by TensorBoard's own messages without TensorFlow.

Tags and values have the form that `tf.summary` (2.21) gives them, so a run that began with it goes on. An event is
framed as in TFRecord files: length, its masked CRC32C, the event, its masked CRC32C; numbers are little-endian.
"""

import io
import itertools
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

import google_crc32c
import numpy as np
from PIL import Image

from xmcap.files import addresses
from xmcap.files.bucket_paths import epath

_PAUSE = 30.0
"""Seconds between two writes of an object: a store allows about one a second."""

_OBJECT = 1 << 20
"""Bytes of an object after which the next events begin another."""

_MOST = 16 << 20
"""Bytes that are kept while a store or a disk refuses them."""

_numbers = itertools.count()


class EventFiles:
  """The event files that this process writes to a folder, an address.

  A local file grows at each write. An object in a bucket cannot: the newest is written again, at most every 30 seconds,
  and from 1 MiB on the next events begin another object. TensorBoard reads the files of a folder in the order of their
  names. What could not be written is written the next time.
  """

  def __init__(self, folder: str):
    self._folder, self._is_remote = folder, addresses.is_remote(folder)
    self._path = ""
    self._object = b""  # in a bucket: what the newest object holds
    self._size = 0  # bytes of the newest file
    self._pending = b""
    self._next = 0.0  # on the clock of time.monotonic

  def write(self, events: Sequence[Any], now: bool = False) -> None:
    """Writes messages of type Event; in a bucket perhaps later, unless it is to be `now`. Raises the store's errors."""
    if len(self._pending) > _MOST:
      self._pending = b""
    self._pending += b"".join(_record(event.SerializeToString()) for event in events)
    if now or time.monotonic() >= self._next:
      self.flush()

  def flush(self) -> None:
    """Writes what is left, as `write`."""
    if not self._pending:
      return
    begins = not self._path or (
      self._size >= _OBJECT if self._is_remote else self._size > 0 and not os.path.isfile(self._path)
    )
    if begins:
      self._path, self._object, self._size = addresses.join(self._folder, _name()), b"", 0
    added = self._pending if self._size else _version() + self._pending
    if self._is_remote:
      self._next = time.monotonic() + _PAUSE
      epath.Path(self._path).write_bytes(self._object + added)
      self._object += added
    else:
      os.makedirs(self._folder, exist_ok=True)
      with open(self._path, "ab") as file:
        file.truncate(self._size)  # what an earlier write left half done
        file.write(added)
    self._size += len(added)
    self._pending = b""


def _name() -> str:
  # Within a process the number makes names unique, and keeps their order within a second.
  return f"events.out.tfevents.{time.time():010.0f}.{socket.gethostname()}.{os.getpid()}.{next(_numbers):06d}"


def _version() -> bytes:
  return _record(_protos().Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())


class TensorBoard:
  """Writes scalars, Markdown and images for TensorBoard to a folder, an address."""

  name = "TensorBoard"

  def __init__(self, log_dir: str):
    self._files = EventFiles(log_dir)

  def event(self, step: int, kind: str, facts: Mapping[str, Any]) -> None:
    """Says at the start of a run that what an earlier run wrote after this step is void."""
    if kind == "started":
      session = _protos().SessionLog(status=_protos().SessionLog.START)
      self._files.write([_protos().Event(wall_time=time.time(), step=step + 1, session_log=session)])

  def scalars(self, step: int, values: Mapping[str, float]) -> None:
    """Writes numbers, as float32."""
    tensors = {name: {"dtype": "DT_FLOAT", "float_val": [float(value)]} for name, value in values.items()}
    self._files.write(_events(step, "scalars", tensors))

  def show(self, step: int, texts: Mapping[str, str], images: Mapping[str, np.ndarray]) -> None:
    """Writes Markdown, and images uint8 [N, H, W, 3], by name."""
    markdown = {
      name: {"dtype": "DT_STRING", "string_val": [text.encode()], "tensor_shape": {}}
      for name, text in texts.items()
    }
    pictures = {
      name: {
        "dtype": "DT_STRING",
        # Width, height, images.
        "string_val": [b"%d" % batch.shape[2], b"%d" % batch.shape[1], *map(_png, batch)],
        "tensor_shape": {"dim": [{"size": 2 + len(batch)}]},
      }
      for name, batch in images.items()
    }
    self._files.write([*_events(step, "text", markdown), *_events(step, "images", pictures)], now=True)

  def close(self) -> None:
    """Writes what is left."""
    self._files.flush()


def _events(step: int, plugin: str, tensors: Mapping[str, Mapping[str, Any]]) -> list[Any]:
  """Makes an event of each value of a kind; a tensor is given by the fields of its message."""
  about = {"plugin_data": {"plugin_name": plugin}}
  return [
    _protos().Event(
      wall_time=time.time(),
      step=step,
      summary={"value": [{"tag": name, "metadata": about, "tensor": tensor}]},
    )
    for name, tensor in tensors.items()
  ]


def _protos() -> Any:
  """TensorBoard's messages."""
  from tensorboard.compat.proto import event_pb2

  return event_pb2


def _png(image: np.ndarray) -> bytes:
  buffer = io.BytesIO()
  Image.fromarray(image).save(buffer, "PNG")
  return buffer.getvalue()


def _record(data: bytes) -> bytes:
  length = struct.pack("<Q", len(data))
  return length + _masked_crc(length) + data + _masked_crc(data)


def _masked_crc(data: bytes) -> bytes:
  crc = google_crc32c.value(data)
  return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
