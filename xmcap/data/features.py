"""Vectors of images in files, with the keys of the images.

  NAME.safetensors   `embeddings` float32 [N, D], and `keys`, uint8: the keys in UTF-8, one per line
  a BigFile folder   see `big_file`
  a folder of `xmcap embed`   pictures.npy and keys.txt

`xmcap features` writes the first two. `xmcap score retrieval` reads the vectors of all three.
"""

import collections
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import gin
import numpy as np

from xmcap.data import big_file
from xmcap.errors import UsageError, one_line
from xmcap.files import tensors as tensor_files
from xmcap.files.files import encoded
from xmcap.reading import embedding_files, embedding_rows
from xmcap.terminal import shown
from xmcap.wording import count, first_few

VECTORS, KEYS = embedding_files.TENSOR, "keys"

_SUFFIX = ".safetensors"
_FORMAT = "xmcap.features"
_CHECKED_AT_ONCE = 1 << 20  # numbers
_HINT = "give what `xmcap features` or `xmcap embed` wrote, or a BigFile folder"


class Features(NamedTuple):
  """Vectors of images: their keys, and [N, D], memory-mapped and read-only if read.

  They are float32, but for those of a folder of `xmcap embed`, which have the type of its file.
  """

  keys: tuple[str, ...]
  vectors: np.ndarray


def read(path: str | os.PathLike) -> Features:
  """Reads the vectors of images; see the module for the forms.

  Raises:
    UsageError: the files are absent, damaged or of another form, are pickles, contradict each other in size, repeat a
      key, hold NaN or infinity, or have a vector whose squares float32 cannot sum.
  """
  features = _open(path)
  _check(features, str(path))
  return features


def _open(path: str | os.PathLike) -> Features:
  """Like `read`, without reading the vectors."""
  path = pathlib.Path(path)
  if not path.exists():
    raise UsageError(f"{path}: no such file or folder: {_HINT}")
  if path.is_dir():
    if big_file.is_folder(path):
      return Features(*big_file.read(path))
    if (path / embedding_files.PICTURES).exists():
      return Features(*embedding_files.map_images(path))
    raise UsageError(f"{path}: no vectors in this folder: {_HINT}")
  tensor_files.refuse_pickle(path)
  if path.suffix != _SUFFIX:
    raise UsageError(f"{path}: vectors with keys are read from {_SUFFIX} or a folder: {_HINT}")
  return _read_safetensors(path)


def of_keys(found: Features, keys: Sequence[str], path: str, where: str) -> np.ndarray:
  """Returns the vectors of images in the order of their keys, as `record_features.of_source`.

  `path` is the file and `where` says whose keys they are, for the message if an image has no vector.
  """
  place = {key: row for row, key in enumerate(found.keys)}
  missing = [key for key in keys if key not in place]
  if missing:
    raise UsageError(
      f"{path}: no vectors of {count(len(missing), 'picture')} of {len(keys):,} in {where} ({first_few(missing)}): make"
      " them with `xmcap features --corpus`"
    )
  rows = np.array([place[key] for key in keys])
  if (np.diff(rows) == 1).all():
    return np.asarray(found.vectors[rows[0] : rows[0] + len(rows)], np.float32)
  return np.asarray(found.vectors[rows], np.float32)


@gin.configurable
def feature_width(path: str) -> int:
  """The width of stored vectors, for `Word2VisualVecConfig.output_dim`.

  Args:
    path: their file or folder.
  """
  if not path:
    raise UsageError("feature_width.path is empty: give the stored vectors of the pictures (FEATURES)")
  return _open(path).vectors.shape[1]  # the stream checks them


def write(
  path: str | os.PathLike,
  features: Features,
  form: str = "safetensors",
  metadata: Mapping[str, str] | None = None,
) -> None:
  """Writes the vectors of images: `safetensors`, a file; or `bigfile`, a folder.

  `metadata` says how they were made; only safetensors keeps it.

  Raises:
    UsageError: a key is repeated, or holds a line break or, for `bigfile`, whitespace; or a number is not finite.
    XmcapError: a file cannot be written.
  """
  path = pathlib.Path(path)
  _check(features, str(path))
  if form == "bigfile":
    big_file.write(path, features.keys, features.vectors)
    return
  lines = np.frombuffer(encoded("".join(f"{key}\n" for key in features.keys), str(path)), np.uint8)
  if any("\n" in key for key in features.keys):
    raise UsageError(f"{path}: a key holds a line break: rename the picture")
  outputs = [
    tensor_files.Output(
      (VECTORS, KEYS),
      (features.vectors.shape, lines.shape),
      (np.dtype(np.float32), lines.dtype),
      lambda: (np.asarray(features.vectors, np.float32), lines),
    )
  ]
  tensor_files.write_safetensors(path, outputs, {"format": _FORMAT, **(metadata or {})})


def _read_safetensors(path: pathlib.Path) -> Features:
  tensors = tensor_files.read_safetensors(path)
  if not {VECTORS, KEYS} <= tensors.keys():
    raise UsageError(
      f"{path}: has {first_few(sorted(tensors)) or 'no tensors'}, not '{VECTORS}' and '{KEYS}': {_HINT}"
    )
  vectors, keys = tensors[VECTORS], tensors[KEYS]
  if vectors.dtype != np.float32 or len(vectors.shape) != 2 or 0 in vectors.shape:
    raise UsageError(
      f"{path}: '{VECTORS}' is {vectors.dtype} {list(vectors.shape)}: it must be float32 [pictures, width]"
    )
  if keys.dtype != np.uint8 or len(keys.shape) != 1:
    raise UsageError(f"{path}: '{KEYS}' is {keys.dtype} {list(keys.shape)}: it must be uint8, lines of UTF-8")
  try:
    lines = keys.read().tobytes().decode().removesuffix("\n").split("\n")
  except UnicodeDecodeError as error:
    raise UsageError(f"{path}: '{KEYS}' is not UTF-8 ({one_line(error)}): make it again") from None
  return Features(tuple(lines), tensor_files.map_tensor(path, VECTORS))


def _check(features: Features, where: str) -> None:
  keys, vectors = features
  if len(keys) != len(vectors):
    raise UsageError(f"{where}: {count(len(keys), 'key')} for {count(len(vectors), 'vector')}: make it again")
  if len(set(keys)) < len(keys):
    repeated = [key for key, times in collections.Counter(keys).items() if times > 1]
    raise UsageError(
      f"{where}: {count(len(repeated), 'key')} repeated ({first_few(repeated)}): keep one vector of each picture"
    )
  rows = max(1, _CHECKED_AT_ONCE // vectors.shape[1])
  for start in range(0, len(vectors), rows):
    # Models and baselines normalise vectors in float32, so their squares must have a sum in it.
    with np.errstate(over="ignore", invalid="ignore"):
      block = np.array(vectors[start : start + rows], np.float32)
      whole = np.isfinite(np.einsum("nd,nd->n", block, block))
    embedding_rows.release(vectors)
    if not whole.all():
      row = start + int(whole.argmin())
      fault = "is longer than 1.8e19, whose square float32 does not hold: scale the vectors"
      if not np.isfinite(vectors[row]).all():
        fault = "holds NaN or infinity: make it again"
      raise UsageError(f"{where}: the vector of '{shown(keys[row])}' (row {row:,}) {fault}")
