"""Headers of `.npy` arrays: numpy's are read, all others are refused in one line."""

import io
import math
import struct

import ml_dtypes
import numpy as np
import pytest

from tests.fuzz.readers import read_or_refused
from xmcap.errors import UsageError
from xmcap.files.npy_header import read_header

SHAPE = "'fortran_order': False, 'shape': "


def saved(array, **options):
  file = io.BytesIO()
  np.save(file, array, **options)
  return file.getvalue()


def header(text, version=(1, 0)):
  field = struct.pack("<H" if version == (1, 0) else "<I", len(text))
  return b"\x93NUMPY" + bytes(version) + field + text.encode("latin-1")


def read(data):
  return read_header(io.BytesIO(data), len(data), "a.npz: kernel")


@pytest.mark.parametrize(
  "array",
  [
    np.zeros((2, 3), np.float32), np.float64(1), np.zeros((0, 5), np.int8), np.asfortranarray(np.ones((4, 3))),
    np.array(["ab", "c"]), np.zeros(3, "V3"), np.ones(3, ">f4"),
  ],
)  # fmt: skip
def test_npy_header_written_by_numpy_is_read(array):
  data = saved(array)
  stream = io.BytesIO(data)
  found = read_header(stream, len(data), "a")
  assert (found.shape, found.dtype, found.length) == (array.shape, array.dtype, stream.tell())
  assert data[found.length :] == array.tobytes("A")


def test_npy_header_of_bfloat16():
  array = np.array([1.5, -2], ml_dtypes.bfloat16)
  data = saved(array)  # as V2
  found = read(data)
  assert found.dtype == ml_dtypes.bfloat16
  np.testing.assert_array_equal(np.frombuffer(data[found.length :], found.dtype), array)


@pytest.mark.parametrize(
  "data, says",
  [
    (b"", "no valid numpy header"),
    (b"PK\x03\x04whatever", "no valid numpy header"),
    (header("{}", (9, 9)), "format 9.9"),
    (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "format 2.0, not 1.0"),
    (b"\x93NUMPY\x01\x00\xff\xff", "no valid numpy header"),
    (header("{'descr': '<f4'}"), "no valid numpy header"),
    (header("(" * 9000), "no valid numpy header"),
    (header("{'descr': '" + "(" * 300 + f"', {SHAPE}(1,)}}"), "no valid numpy header"),
    (header("__import__('os').system('touch ran')"), "no valid numpy header"),
    (header(f"{{'descr': '<f4', {SHAPE}(1000000, 1000000), }}"), "does not match its shape"),
    (header(f"{{'descr': '<f4', {SHAPE}({'9' * 4000},), }}"), "does not match its shape"),
    (header(f"{{'descr': '<f4', {SHAPE}({'9' * 5000},), }}"), "no valid numpy header"),
    (header(f"{{'descr': '<f4', {SHAPE}(-1, -1), }}") + bytes(4), "which is not valid"),
    (header(f"{{'descr': '<f4', {SHAPE}(True,), }}") + bytes(4), "which is not valid"),
    (header(f"{{'descr': '<f4', {SHAPE}({'1,' * 40}), }}") + bytes(4), "which is not valid"),
    (header(f"{{'descr': '|O', {SHAPE}(1,), }}") + bytes(8), "holds Python objects"),
    (header(f"{{'descr': [('a', '|O')], {SHAPE}(1,), }}") + bytes(8), "holds Python objects"),
    (header(f"{{'descr': [('a', '<f4')], {SHAPE}(1,), }}") + bytes(4), "only plain numbers"),
    (header(f"{{'descr': '|V0', {SHAPE}(1000000000000,), }}"), "only plain numbers"),
    (saved(np.zeros(3))[:-1], "does not match its shape"),
    (saved(np.zeros(3)) + b"\0", "does not match its shape"),
  ],
)
def test_invalid_npy_header_is_refused_in_one_line(data, says):
  with pytest.raises(UsageError) as error:
    read(data)
  text = str(error.value)
  assert text.startswith("a.npz: kernel ") and says in text and "\n" not in text and len(text) < 300


def test_damaged_npy_header_is_read_or_refused(tmp_path):
  def open_header(path):
    data = path.read_bytes()
    found = read(data)
    assert found.length + math.prod(found.shape) * found.dtype.itemsize == len(data)

  np.save(tmp_path / "a.npy", np.zeros((7, 3), np.float32))
  read_or_refused(tmp_path / "a.npy", open_header, 1000)
