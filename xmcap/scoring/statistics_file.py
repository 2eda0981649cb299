"""The file `scores.npz`: the statistics of every image, as arrays that `xmcap compare` and `numpy.load` read."""

import os
import sys
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.scoring import files, metrics
from xmcap.scoring.statistics import Statistics
from xmcap.tensors import npy_header
from xmcap.terminal import shown

STATISTICS_FILE = "scores.npz"

MAX_BYTES = 512 << 20
"""Bytes of all arrays together; those of XM3600 in all metrics take 40 million."""

_MAX_ARRAYS = 300 * (
  2 + len(metrics.CAPTION_METRICS)
)  # in so many languages; no other table has more metrics
_KEYS, _IMAGES, _NUM_REFERENCES = "keys", "images", "num_references"
_LARGEST = 1e9  # of a statistic: the largest are numbers of n-grams of one image
# RuntimeError is zipfile's, of an encrypted archive.
_UNREADABLE = (OSError, ValueError, UsageError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError)


def write_statistics(path: str | os.PathLike, statistics: Mapping[str, Statistics]) -> None:
  """Writes the statistics of every image as a NumPy archive.

  Arrays: `keys` [images]; for each language `el/images` [I], indices into `keys`, and `el/num_references`; for each
  metric `el/cider` [I, k], the statistics that it aggregates (for CIDEr one column, the score of the image).

  Raises:
    UsageError: an image key holds a NUL character, which NumPy's texts cannot end in.
    XmcapError: the file cannot be written.
  """
  keys = sorted({key for of_language in statistics.values() for key in of_language.keys})
  if any("\0" in key for key in keys):
    raise UsageError(f"{path}: an image key holds a NUL character; give the image another key")
  index = {key: i for i, key in enumerate(keys)}
  arrays: dict[str, np.ndarray] = {_KEYS: np.array(keys, np.str_)}
  for code, of_language in statistics.items():
    arrays[f"{code}/{_IMAGES}"] = np.array([index[key] for key in of_language.keys], np.int32)
    arrays[f"{code}/{_NUM_REFERENCES}"] = np.array(of_language.num_counted)
    for name, values in of_language.values.items():
      arrays[f"{code}/{name}"] = values
  with files.whole(path) as file:
    np.savez(file, allow_pickle=False, **arrays)


def read_statistics(path: str | os.PathLike) -> dict[str, Statistics]:
  """Reads what `write_statistics` wrote. The file may be a stranger's: it is taken only if all of it fits together.

  Raises:
    UsageError: the file cannot be read or holds something else, claims more than it holds or more than `MAX_BYTES`.
  """
  try:
    arrays = _read(path)
    keys = _checked_keys(arrays)
    members: dict[str, dict[str, np.ndarray]] = {}
    for name, values in arrays.items():
      code, _, member = name.partition("/")
      members.setdefault(code, {})[member] = values
    statistics = {code: _of_language(code, of_language, keys) for code, of_language in members.items()}
  except _UNREADABLE as error:
    reason = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    raise UsageError(
      f"{path}: no scores of xmcap in it ({shown(reason)}); write them with xmcap score"
    ) from None
  if not statistics:
    raise UsageError(f"{path}: no language in it; write it anew with xmcap score")
  return statistics


def _read(path: str | os.PathLike) -> dict[str, np.ndarray]:
  """Returns name -> array; nothing is allocated that the archive does not claim to hold."""
  arrays: dict[str, np.ndarray] = {}
  with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
    members = archive.infolist()
    if len(members) > _MAX_ARRAYS or sum(member.file_size for member in members) > MAX_BYTES:
      raise ValueError(f"over {_MAX_ARRAYS:,} arrays, or over {MAX_BYTES >> 20} MiB of them")
    for member in members:
      name = member.filename.removesuffix(".npy")
      is_plain = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
      if name in arrays or not _is_known(name) or not is_plain:
        raise ValueError(
          f"{member.filename!a} is no array of scores, is there twice or compressed in another way"
        )
      with archive.open(member) as stream:
        header = npy_header.read_header(stream, member.file_size, f"array {name}")
        content = stream.read(member.file_size)
      values = np.frombuffer(content, header.dtype)
      arrays[name] = values.reshape(header.shape, order="F" if header.fortran_order else "C")
  return arrays


def _is_known(name: str) -> bool:
  code, _, member = name.partition("/")
  return name == _KEYS or (
    languages.is_known(code) and (member in (_IMAGES, _NUM_REFERENCES) or member in metrics.METRICS)
  )


def _checked_keys(arrays: dict[str, np.ndarray]) -> tuple[str, ...]:
  """Takes the image keys out of the arrays; ValueError if they cannot be such."""
  values = arrays.pop(_KEYS, None)
  if values is None or values.dtype.kind != "U" or values.ndim != 1:
    raise ValueError("no list of image keys")
  code_points = values.view(np.dtype(np.uint32).newbyteorder(values.dtype.byteorder))
  if code_points.max(initial=0) > sys.maxunicode:
    raise ValueError("an image key is no text")
  keys = tuple(values.tolist())
  for key in keys:
    half_surrogate_pair = key.encode("utf-8", "replace").decode() != key
    if not key or "\0" in key or half_surrogate_pair:
      raise ValueError(f"{key!a} is no image key")
  if len(set(keys)) < len(keys):
    raise ValueError("an image key is there twice")
  return keys


def _of_language(code: str, arrays: dict[str, np.ndarray], keys: tuple[str, ...]) -> Statistics:
  """Returns the statistics of a language; ValueError if its arrays do not fit together."""
  images, num_references = arrays.pop(_IMAGES, None), arrays.pop(_NUM_REFERENCES, None)
  if not _are_integers(images, 1) or not _are_integers(num_references, 0) or not len(images) or not arrays:
    raise ValueError(f"{code} lacks its images, its number of references or a metric")
  if images.min() < 0 or images.max() >= len(keys) or len(np.unique(images)) < len(images):
    raise ValueError(f"{code} has images that are no places in keys, or one twice")
  if not 0 <= int(num_references) <= _LARGEST:
    raise ValueError(f"{code} has {int(num_references)} references")
  for name, values in arrays.items():
    if values.dtype != np.float64 or values.shape != (len(images), metrics.METRICS[name].width):
      raise ValueError(
        f"arrays that do not fit together: {code}/{name} is {values.dtype} {list(values.shape)}"
      )
    if not ((values >= 0) & (values <= _LARGEST)).all():
      raise ValueError(f"{code}/{name} holds what is no score: NaN, less than 0 or over {_LARGEST:g}")
  return Statistics(
    tuple(keys[i] for i in images.tolist()),
    {name: values.astype(np.float64) for name, values in arrays.items()},
    int(num_references),
  )


def _are_integers(values: Any, axes: int) -> TypeGuard[np.ndarray]:
  return values is not None and values.dtype.kind in "iu" and values.ndim == axes
