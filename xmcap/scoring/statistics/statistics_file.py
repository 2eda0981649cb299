"""The file `scores.npz`: statistics of every image, as arrays for `xmcap compare` and `numpy.load`."""

import os
import sys
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.files import files, npy_header
from xmcap.scoring import metrics
from xmcap.scoring.statistics import means
from xmcap.scoring.statistics.sufficient import Statistics, image_keys
from xmcap.terminal import shown

STATISTICS_FILE = "scores.npz"

MAX_BYTES = 512 << 20
"""Largest total size of the arrays in bytes; XM3600 with all metrics takes 40 million."""

_MAX_ARRAYS = 300 * (2 + len(metrics.CAPTION_METRICS))  # for 300 languages; no other table has more metrics
_KEYS, _IMAGES, _NUM_REFERENCES = "keys", "images", "num_references"
_LARGEST = 1e9  # limit of a statistic; the largest ones are n-gram counts of an image
# zipfile raises RuntimeError for an encrypted archive.
_UNREADABLE = (OSError, ValueError, UsageError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError)


def write_statistics(path: str | os.PathLike, statistics: Mapping[str, Statistics]) -> None:
  """Writes the statistics of every image as a NumPy archive.

  The arrays are `keys` [images]; for each language, such as `el`, `el/images` [I], indices into `keys`, and
  `el/num_references`; and for each metric, such as CIDEr, `el/cider` [I, k], the statistics that it aggregates (for
  CIDEr one column, the score of the image). Retrieval has median ranks too, such as `el/t2i_median_rank`.

  Raises:
    UsageError: an image key contains a NUL character, which NumPy strips from the end of strings.
    XmcapError: the file cannot be written.
  """
  keys = image_keys(statistics)
  if any("\0" in key for key in keys):
    raise UsageError(f"{path}: an image key contains a NUL character; give the image another key")
  index = {key: i for i, key in enumerate(keys)}
  arrays: dict[str, np.ndarray] = {_KEYS: np.array(keys, np.str_)}
  for language, of_language in statistics.items():
    arrays[f"{language}/{_IMAGES}"] = np.array([index[key] for key in of_language.keys], np.int32)
    arrays[f"{language}/{_NUM_REFERENCES}"] = np.array(of_language.num_counted)
    for name, values in of_language.values.items():
      arrays[f"{language}/{name}"] = values
    for name, median in of_language.medians.items():
      arrays[f"{language}/{name}"] = np.array(median, np.float64)
  with files.whole(path) as file:
    np.savez(file, allow_pickle=False, **arrays)


def read_statistics(path: str | os.PathLike) -> dict[str, Statistics]:
  """Reads a file of `write_statistics`; as the file may be untrusted, all of it is checked.

  Raises:
    UsageError: the file cannot be read, is malformed or inconsistent, or is larger than `MAX_BYTES`.
  """
  try:
    arrays = _read(path)
    keys = _checked_keys(arrays)
    members: dict[str, dict[str, np.ndarray]] = {}
    for name, values in arrays.items():
      language, _, member = name.partition("/")
      members.setdefault(language, {})[member] = values
    statistics = {
      language: _of_language(language, of_language, keys) for language, of_language in members.items()
    }
  except _UNREADABLE as error:
    reason = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    raise UsageError(
      f"{path}: not a file of scores of xmcap ({shown(reason)}); write it with xmcap score"
    ) from None
  if not statistics:
    raise UsageError(f"{path}: contains no language; write it again with xmcap score")
  return statistics


def _read(path: str | os.PathLike) -> dict[str, np.ndarray]:
  """Returns name -> array, after checking the sizes that the archive claims."""
  arrays: dict[str, np.ndarray] = {}
  with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
    members = archive.infolist()
    if len(members) > _MAX_ARRAYS or sum(member.file_size for member in members) > MAX_BYTES:
      raise ValueError(f"over {_MAX_ARRAYS:,} arrays, or over {MAX_BYTES >> 20} MiB of them")
    for member in members:
      name = member.filename.removesuffix(".npy")
      is_plain = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
      if name in arrays or not _is_known(name) or not is_plain:
        raise ValueError(f"{member.filename!a} is not a plain array of scores, or occurs twice")
      with archive.open(member) as stream:
        header = npy_header.read_header(stream, member.file_size, f"array {name}")
        content = stream.read(member.file_size)
      values = np.frombuffer(content, header.dtype).astype(header.dtype.newbyteorder("="), copy=False)
      arrays[name] = values.reshape(header.shape, order="F" if header.fortran_order else "C")
  return arrays


def _is_known(name: str) -> bool:
  language, _, member = name.partition("/")
  return name == _KEYS or (
    languages.is_known(language)
    and (member in (_IMAGES, _NUM_REFERENCES, *means.MEDIANS) or member in metrics.METRICS)
  )


def _checked_keys(arrays: dict[str, np.ndarray]) -> tuple[str, ...]:
  """Removes the image keys from the arrays and returns them; ValueError if they are invalid."""
  values = arrays.pop(_KEYS, None)
  if values is None or values.dtype.kind != "U" or values.ndim != 1:
    raise ValueError("no list of image keys")
  code_points = values.view(np.uint32)
  if code_points.max(initial=0) > sys.maxunicode:
    raise ValueError("an image key is not valid Unicode")
  keys = tuple(values.tolist())
  for key in keys:
    unpaired_surrogate = key.encode("utf-8", "replace").decode() != key
    if not key or "\0" in key or unpaired_surrogate:
      raise ValueError(f"{key!a} is not a valid image key")
  if len(set(keys)) < len(keys):
    raise ValueError("an image key occurs twice")
  return keys


def _of_language(language: str, arrays: dict[str, np.ndarray], keys: tuple[str, ...]) -> Statistics:
  """Returns the statistics of a language; ValueError if its arrays are inconsistent."""
  images, num_references = arrays.pop(_IMAGES, None), arrays.pop(_NUM_REFERENCES, None)
  medians = {name: arrays.pop(name) for name in means.MEDIANS if name in arrays}
  if not _are_integers(images, 1) or not _are_integers(num_references, 0) or not len(images) or not arrays:
    raise ValueError(f"{language} lacks its images, its number of references or a metric")
  if images.min() < 0 or images.max() >= len(keys) or len(np.unique(images)) < len(images):
    raise ValueError(f"{language} has images that are not indices into keys, or one twice")
  if not 0 <= int(num_references) <= _LARGEST:
    raise ValueError(f"{language} has {int(num_references)} references")
  for name, value in medians.items():
    if value.dtype != np.float64 or value.ndim or not 0 <= value <= _LARGEST:
      raise ValueError(f"{language}/{name} is no rank")
  for name, values in arrays.items():
    if values.dtype != np.float64 or values.shape != (len(images), metrics.METRICS[name].width):
      raise ValueError(f"inconsistent arrays: {language}/{name} is {values.dtype} {list(values.shape)}")
    least = metrics.METRICS[name].least
    if not ((values >= least) & (values <= _LARGEST)).all():
      raise ValueError(
        f"{language}/{name} has an invalid score: NaN, less than {least:g} or over {_LARGEST:g}"
      )
  return Statistics(
    tuple(keys[i] for i in images.tolist()),
    {name: values.astype(np.float64) for name, values in arrays.items()},
    int(num_references),
    {name: float(value) for name, value in medians.items()},
  )


def _are_integers(values: Any, axes: int) -> TypeGuard[np.ndarray]:
  return values is not None and values.dtype.kind in "iu" and values.ndim == axes
