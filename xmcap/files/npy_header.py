"""Checks the header of an .npy file or .npz member before the array is read.

numpy trusts a header and allocates whatever it claims, so a few bytes could ask for terabytes. This module accepts only
short headers whose claim matches the bytes that are there.
"""

import math
from typing import IO, NamedTuple

import ml_dtypes
import numpy as np

from xmcap.errors import UsageError, one_line

_MOST_AXES = 32


class Header(NamedTuple):
  """Header of an array; `length` is in bytes, `fortran_order` means that the first axis varies fastest.

  numpy cannot name bfloat16, and writes it as bytes in pairs (`V2`): `dtype` is bfloat16 for these.
  """

  shape: tuple[int, ...]
  dtype: np.dtype
  fortran_order: bool
  length: int


def read_header(stream: IO[bytes], size: int, where: str) -> Header:
  """Reads the header of an array, and leaves the stream at the first element.

  Args:
    stream: an .npy file, or a member of an .npz.
    size: bytes in the file or member.
    where: the file and the array's name; begins the messages.

  Raises:
    UsageError: not the header of a plain array, an array of Python objects, or a shape that does not match `size`.
  """
  start = stream.tell()
  try:
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
      # Later versions exist for headers that are longer than we accept.
      raise ValueError(f"format {version[0]}.{version[1]}, not 1.0")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(stream)
  # numpy parses it as a Python literal, which fails in many ways: nested too deeply, out of memory, unknown dtype.
  except Exception as error:
    raise UsageError(
      f"{where} has no valid numpy header ({one_line(error)[:120]}): give a .npy, or fetch it again"
    ) from None
  if dtype.hasobject:
    raise UsageError(
      f"{where} holds Python objects, a pickle, which can run code when it is read, so xmcap refuses it: save plain"
      " arrays of numbers (np.savez)"
    )
  if dtype.names or dtype.subdtype or not dtype.itemsize:
    raise UsageError(
      f"{where} has dtype {one_line(TypeError(dtype))[:80]}: only plain numbers and strings are read"
    )
  if len(shape) > _MOST_AXES or any(isinstance(axis, bool) or axis < 0 for axis in shape):
    raise UsageError(f"{where} has the shape {one_line(ValueError(shape))[:80]}, which is not valid")
  if dtype.str == "|V2":
    dtype = np.dtype(ml_dtypes.bfloat16)
  header = Header(shape, dtype, fortran_order, stream.tell() - start)
  if size != header.length + math.prod(shape) * dtype.itemsize:
    raise UsageError(
      f"{where} has {size:,} bytes, which does not match its shape {one_line(ValueError(shape))[:80]}"
    )
  return header
