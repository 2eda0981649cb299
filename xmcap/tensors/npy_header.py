"""The header of an array in an .npy file or in a member of an .npz, checked before a number of it is read.

numpy believes a header's length and makes an array as large as it claims: a few bytes could ask for terabytes. Here a
header is short, and claims just what is there.
"""

import math
from typing import IO, NamedTuple

import numpy as np

from xmcap.errors import UsageError, one_line

_MOST_AXES = 32


class Header(NamedTuple):
  """Of an array; `length` is the bytes before its first number, `fortran_order` that its first axis varies fastest."""

  shape: tuple[int, ...]
  dtype: np.dtype
  fortran_order: bool
  length: int


def read_header(stream: IO[bytes], size: int, where: str) -> Header:
  """Reads the header of an array, and leaves the stream at its first number.

  Args:
    size: bytes that the file or the member of an archive holds.
    where: begins the messages: the file, and the array's name.

  Raises:
    UsageError: no header of a plain array, Python objects, or a shape that asks for other bytes than there are.
  """
  start = stream.tell()
  try:
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
      # Later versions are for headers that would be too long here.
      raise ValueError(f"format {version[0]}.{version[1]}, not 1.0")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(stream)
  # It is parsed as Python's literals, which fail in many ways: nested too deeply, out of memory, no such dtype.
  except Exception as error:
    raise UsageError(
      f"{where} has no header of a numpy array ({one_line(error)[:120]}): fetch it again"
    ) from None
  if dtype.hasobject:
    raise UsageError(
      f"{where} holds Python objects, a pickle, which can run code when it is read, so xmcap never does: save it as"
      " numbers (np.savez of plain arrays)"
    )
  if dtype.names or dtype.subdtype or not dtype.itemsize:
    raise UsageError(f"{where} holds {one_line(TypeError(dtype))[:80]}, no plain numbers or texts")
  if len(shape) > _MOST_AXES or any(isinstance(axis, bool) or axis < 0 for axis in shape):
    raise UsageError(f"{where} has the shape {one_line(ValueError(shape))[:80]}, which no array has")
  header = Header(shape, dtype, fortran_order, stream.tell() - start)
  if size != header.length + math.prod(shape) * dtype.itemsize:
    raise UsageError(
      f"{where} holds {size:,} bytes, and its shape {one_line(ValueError(shape))[:80]} asks for others"
    )
  return header
