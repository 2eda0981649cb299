"""Lazy tensors: the `Tensor` that the reader of every format returns, and safetensors in and out.

A model may be larger than memory. Reading gives shapes and dtypes, and fetches the numbers of a tensor on demand.
Writing derives the whole header from the shapes before the first tensor is made.
"""

import dataclasses
import functools
import json
import math
import os
import pathlib
import re
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence

import ml_dtypes
import numpy as np

from xmcap.errors import UsageError, XmcapError
from xmcap.files import addresses, object_store, paths, whole_files
from xmcap.progress import Progress
from xmcap.terminal import shown

_DTYPES = {
  "F64": np.dtype(np.float64),
  "F32": np.dtype(np.float32),
  "F16": np.dtype(np.float16),
  "BF16": np.dtype(ml_dtypes.bfloat16),
  "I64": np.dtype(np.int64),
  "I32": np.dtype(np.int32),
  "I16": np.dtype(np.int16),
  "I8": np.dtype(np.int8),
  "U8": np.dtype(np.uint8),
  "BOOL": np.dtype(np.bool_),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
FLOATS = tuple(_DTYPES[name] for name in ("F64", "F32", "F16", "BF16"))
"""Dtypes of weights; integer tensors are buffers, or quantised."""

_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")

_LONGEST_HEADER = 2**24
"""Bytes of a safetensors header, some 100 per tensor. The library's own limit is 100 MB."""
_LONGEST_NAME, _LONGEST_FILE_NAME = 500, 255
_MOST_LAYERS = 1024
_LARGEST_RATIO, _ALWAYS_FINE = 100, 2**26
"""Arrays may have this many times the bytes of their compressed files (constants compress well), plus so many bytes."""


@dataclasses.dataclass(frozen=True)
class Tensor:
  """A tensor that is still in its file.

  Attributes:
    shape, dtype: known without reading the numbers.
    read: reads the whole tensor.
    where: the file, for messages.
    group: tensors of one group are slices of one array in the file; read in a row, they cost one read.
  """

  shape: tuple[int, ...]
  dtype: np.dtype
  read: Callable[[], np.ndarray]
  where: str
  group: str = ""


def check_name(name: str, where: str) -> str:
  """Returns a tensor's name, which goes into messages and files; UsageError if it is not printable or too long."""
  if not name.isprintable() or not 0 < len(name) <= _LONGEST_NAME:
    raise UsageError(f"{where}: {shown(repr(name), 80)} is not a valid tensor name: fetch or copy it again")
  return name


def is_file_name(name: str) -> bool:
  """Whether a name is a plain file or folder name that cannot lead to another folder."""
  plain = name.isprintable() and "\\" not in name and len(name) <= _LONGEST_FILE_NAME
  return plain and name not in ("", ".", "..") and pathlib.PurePath(name).name == name


def check_claim(claimed: int, size: int, where: str) -> None:
  """Raises UsageError if files of `size` bytes, perhaps compressed, claim far more array bytes than they could hold."""
  if claimed > _LARGEST_RATIO * size + _ALWAYS_FINE:
    raise UsageError(
      f"{where}: claims {claimed:,} bytes of arrays, but its files have only {size:,} bytes: fetch or copy it again"
    )


def is_float(dtype: np.dtype) -> bool:
  """Whether numbers are one of `FLOATS`, in the machine's byte order or the other."""
  return dtype.newbyteorder("=") in FLOATS


def check_finite(name: str, array: np.ndarray, where: str) -> None:
  """Raises UsageError if a float tensor contains NaN or infinity."""
  if is_float(array.dtype) and not np.isfinite(array).all():
    raise UsageError(
      f"{where}: tensor {name} {array.shape} holds NaN or infinity: take weights from before the run diverged"
    )


class LastRead:
  """Keeps the last array that was read, so that all its slices need only one read."""

  def __init__(self):
    self._name, self._array = None, None

  def slices(self, name: str, stacked: Tensor, axis: int = 0) -> list[Tensor]:
    """Returns the slices of a tensor along an axis; UsageError if there are more than a model has layers."""
    if len(stacked.shape) <= axis or stacked.shape[axis] > _MOST_LAYERS:
      raise UsageError(
        f"{stacked.where}: {name} has shape {stacked.shape}: its axis {axis} may be at most {_MOST_LAYERS:,} layers"
      )

    def read(index: int) -> np.ndarray:
      if self._name != name or self._array is None:
        self._name, self._array = None, None  # frees the old array before the new one is read
        self._name, self._array = name, stacked.read()
      return self._array.take(index, axis)

    shape = stacked.shape[:axis] + stacked.shape[axis + 1 :]
    return [
      Tensor(shape, stacked.dtype, lambda index=index: read(index), stacked.where, name)
      for index in range(stacked.shape[axis])
    ]


def refuse_pickle(path: str | os.PathLike) -> None:
  """Raises UsageError for a file that is a pickle, judged by name or content."""
  paths.check_file(path)
  path = pathlib.Path(path)
  with open(path, "rb") as file:
    head = file.read(2)
  zipped = head == b"PK" and _holds_pickle(path)
  if path.suffix in _PICKLES or zipped or (head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05"):
    raise UsageError(
      f"{path}: a pickle, which can run code when it is read, so xmcap refuses it: use the safetensors files of"
      " the same model, or convert it on a machine that trusts it (transformers: save_pretrained)"
    )


def _holds_pickle(path: pathlib.Path) -> bool:
  try:
    with zipfile.ZipFile(path) as file:
      return any(name.endswith((".pkl", ".pickle")) for name in file.namelist())
  # A broken archive fails in many ways; its reader will report it.
  except Exception:
    return False


def read_safetensors(path: str | os.PathLike) -> dict[str, Tensor]:
  """Returns the tensors of a safetensors file, here or in a bucket, by name; reads only the header.

  UsageError if the file is not valid.
  """
  if addresses.is_remote(path):
    return _of_bucket(os.fspath(path))
  from safetensors import SafetensorError, safe_open

  path = pathlib.Path(path)
  if not path.is_file():
    raise UsageError(f"{path}: no such file")
  refuse_pickle(path)
  try:
    with open(path, "rb") as file:
      length = int.from_bytes(file.read(8), "little")
    if length > _LONGEST_HEADER:
      raise ValueError(f"a header of {length:,} bytes; at most {_LONGEST_HEADER:,} are allowed")
    # The library checks dtypes, shapes, and that offsets neither overlap nor leave the file.
    with safe_open(path, "np") as file:
      names = file.keys()
      entries = {name: file.get_slice(name) for name in names}
      headers = {name: (entry.get_dtype(), tuple(entry.get_shape())) for name, entry in entries.items()}
  except (SafetensorError, ValueError, OSError) as error:
    reason = " ".join(str(error).split()).removeprefix("Error while deserializing header: ")[:160]
    raise UsageError(f"{path}: not a complete safetensors file ({reason}): fetch or copy it again") from None

  def read(name: str) -> np.ndarray:
    # Opened once per tensor: pages of a mapped file count as this process's memory while it is mapped.
    with safe_open(path, "np") as file:
      return file.get_tensor(name)

  tensors = {}
  for name, (dtype, shape) in headers.items():
    check_name(name, str(path))
    if dtype not in _DTYPES:
      raise UsageError(
        f"{path}: tensor {name} has dtype {dtype}: xmcap reads weights in F32, F16 or BF16, not quantised ones"
      )
    tensors[name] = Tensor(shape, _DTYPES[dtype], functools.partial(read, name), str(path))
  return tensors


def _of_bucket(address: str) -> dict[str, Tensor]:
  start = object_store.Read(address, 0, 8).result()
  length = int.from_bytes(start, "little")
  if length > _LONGEST_HEADER:
    raise UsageError(f"{address}: not a safetensors file: copy it again")
  header = object_store.Read(address, 8, 8 + length).result()
  ends = [int(end) for end in re.findall(rb'"data_offsets":\s*\[\s*\d+\s*,\s*(\d+)', header)]
  with tempfile.TemporaryDirectory(prefix="xmcap-") as folder:
    # The library checks the header in a file of the same size without contents.
    copy = pathlib.Path(folder, os.path.basename(address))
    with open(copy, "wb") as sparse:
      sparse.write(start + header)
      sparse.truncate(8 + length + max(ends, default=0))
    try:
      tensors = read_safetensors(copy)
    except UsageError as error:
      raise UsageError(str(error).replace(str(copy), address)) from None

  def read(name: str) -> np.ndarray:
    first, stop = (8 + length + offset for offset in entries[name]["data_offsets"])
    tensor = tensors[name]
    return np.frombuffer(object_store.Read(address, first, stop).result(), tensor.dtype).reshape(tensor.shape)

  entries = json.loads(header)
  return {
    name: dataclasses.replace(tensor, read=functools.partial(read, name), where=address)
    for name, tensor in tensors.items()
  }


def map_tensor(path: str | os.PathLike, name: str) -> np.ndarray:
  """Maps a tensor of a file that `read_safetensors` accepts into memory, read-only."""
  with open(path, "rb") as file:
    length = int.from_bytes(file.read(8), "little")
    entry = json.loads(file.read(length))[name]
  shape, dtype = tuple(entry["shape"]), _DTYPES[entry["dtype"]]
  if 0 in shape:
    return np.zeros(shape, dtype)
  return np.memmap(path, dtype, "r", 8 + length + entry["data_offsets"][0], shape)


def read_metadata(path: str | os.PathLike) -> dict[str, str]:
  """Returns the metadata of a safetensors file that `read_safetensors` accepts."""
  from safetensors import safe_open

  with safe_open(path, "np") as file:
    return dict(file.metadata() or {})


@dataclasses.dataclass(frozen=True)
class Output:
  """Tensors that one call of `make` returns, in this order; `group` as in `Tensor`."""

  names: Sequence[str]
  shapes: Sequence[tuple[int, ...]]
  dtypes: Sequence[np.dtype]
  make: Callable[[], Sequence[np.ndarray]]
  group: str = ""


def write_safetensors(
  path: str | os.PathLike,
  outputs: Sequence[Output],
  metadata: Mapping[str, str],
  say: Callable[[str], None] = lambda line: None,
) -> int:
  """Writes a safetensors file atomically, one output after the other; those of one group follow each other.

  `say` receives progress lines. Returns the bytes written.
  """
  path = pathlib.Path(path)
  entries = {
    name: (tuple(shape), np.dtype(dtype))
    for output in outputs
    for name, shape, dtype in zip(output.names, output.shapes, output.dtypes, strict=True)
  }
  header: dict[str, object] = {"__metadata__": dict(metadata)}
  offsets, end = {}, 0
  # Wider dtypes first, so that every tensor starts at a multiple of its item size.
  for name, (shape, dtype) in sorted(entries.items(), key=lambda item: (-item[1][1].itemsize, item[0])):
    offsets[name], end = end, end + math.prod(shape) * dtype.itemsize
    header[name] = {"dtype": _NAMES[dtype], "shape": list(shape), "data_offsets": [offsets[name], end]}
  text = json.dumps(header, separators=(",", ":")).encode()
  text += b" " * (-len(text) % 8)
  with whole_files.replacing(path) as temporary, open(temporary, "wb") as file:
    file.write(len(text).to_bytes(8, "little") + text)
    start = file.tell()
    file.truncate(start + end)
    progress, done = Progress(say, path.name, end, "bytes"), 0
    progress(done)
    for output in sorted(outputs, key=lambda output: output.group):
      for name, array in zip(output.names, output.make(), strict=True):
        if (array.shape, array.dtype) != entries[name]:
          shape, dtype = entries[name]
          raise XmcapError(
            f"{path}: {name} is {array.dtype} {array.shape}, but {dtype} {shape} was announced"
          )
        file.seek(start + offsets[name])
        file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        done += array.nbytes
        progress(done)
    file.flush()
    os.fsync(file.fileno())
  return start + end
