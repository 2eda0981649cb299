"""Reads embeddings from `.npy`, or from `.safetensors` with a single tensor or one named `embeddings`.

Files are mapped, and their rows read when they are needed (see `embedding_rows`).
"""

import os
import pathlib
from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np

from xmcap import languages, wording
from xmcap.errors import UsageError
from xmcap.files import npy_header
from xmcap.files import tensors as tensor_files
from xmcap.reading import embedding_rows
from xmcap.reading.embedding_rows import Embeddings, Stored
from xmcap.reading.inputs import Input
from xmcap.terminal import shown

SUFFIXES = (".npy", ".safetensors")
TENSOR = "embeddings"
PICTURES, KEYS = "pictures.npy", "keys.txt"
"""The embeddings of images in a folder of `xmcap embed`, and their keys, one per line."""

Read = Callable[[], Embeddings]
"""Opens the embeddings of one language: float32 [texts, D], or [prompts, texts, D]."""


def read(path: str | os.PathLike, axes: tuple[int, ...] = (2,)) -> Stored:
  """Opens the embeddings of a file, [N, D], or with another number of axes in `axes`; rows are read as float32.

  Raises:
    UsageError: the file cannot be read, is a pickle, has another number of axes, or holds no floats; later, when rows
      are read, they have NaN, infinity, or numbers beyond float32.
  """
  path = pathlib.Path(path)
  if path.suffix == ".npy":
    return _opened(map_npy(path), axes, str(path))
  if path.suffix != ".safetensors":
    raise UsageError(f"{path}: embeddings are read from {' and '.join(SUFFIXES)}; save them as one of these")
  tensors = tensor_files.read_safetensors(path)
  if TENSOR not in tensors and len(tensors) != 1:
    names = wording.first_few(sorted(tensors)) or "none"
    raise UsageError(f"{path}: must have a single tensor, or one named '{TENSOR}'; it has {names}")
  name = TENSOR if TENSOR in tensors else next(iter(tensors))
  return _opened(tensor_files.map_tensor(path, name), axes, f"{path}, tensor {name}")


def map_rows(path: str | os.PathLike) -> np.ndarray:
  """Maps an `.npy` file of embeddings [N, D] into memory; UsageError as `read`, but numbers are not looked at."""
  return _checked_layout(map_npy(path), (2,), str(path))


def map_images(folder: str | os.PathLike) -> tuple[tuple[str, ...], np.ndarray]:
  """Returns the keys and the mapped embeddings [N, D] of pictures.npy and keys.txt; UsageError as `map_rows`."""
  folder = pathlib.Path(folder)
  array = map_rows(folder / PICTURES)
  with Input(folder / KEYS) as source:
    keys = tuple(source.distinct_lines())
  if len(keys) != len(array):
    raise UsageError(
      f"{folder / KEYS}: {wording.count(len(keys), 'key')} for {wording.count(len(array), 'row')} of "
      f"{PICTURES}; give one "
      "for each"
    )
  return keys, array


def keys_beside(path: str | os.PathLike) -> tuple[str, ...]:
  """Returns the keys of the rows of `pictures.npy` in a folder of `xmcap embed`; () for another file."""
  path = pathlib.Path(path)
  if path.name != PICTURES or not path.with_name(KEYS).is_file():
    return ()
  return map_images(path.parent)[0]


def unit_rows(array: np.ndarray, rows: np.ndarray, where: str) -> np.ndarray:
  """Returns rows of embeddings [N, D] as float64 with length 1; UsageError for length 0, NaN or infinity."""
  wide = array[rows].astype(np.float64)
  with np.errstate(over="ignore"):
    lengths = np.sqrt((wide * wide).sum(axis=1, keepdims=True))
  bad = ~(np.isfinite(lengths) & (lengths >= embedding_rows.TINY))
  if bad.any():
    row = int(rows[np.flatnonzero(bad)[0]])
    raise UsageError(
      f"{where}, row {row}: an embedding of length 0, or with NaN, infinity or numbers beyond float64; embed it again"
    )
  return wide / lengths


def by_language(
  path: str | os.PathLike, language_of: Callable[[str], str | None] = languages.canonical
) -> dict[str, Read]:
  """Returns language code -> a function that reads its embeddings.

  `path` is a folder of CODE.npy or CODE.safetensors, or one safetensors file whose tensors are named by the codes.
  Upper case and aliases (`TL` for fil) are accepted, which `language_of` reads.

  Raises:
    UsageError: there are no embeddings, a name is not a language, or a language occurs twice.
  """
  path = pathlib.Path(path)
  named: list[tuple[str, Read]] = []
  if path.is_dir():
    for file in sorted(path.iterdir()):
      if file.suffix in SUFFIXES:
        named.append((file.stem, lambda file=file: read(file, (2, 3))))
  elif path.suffix == ".safetensors":
    for name in tensor_files.read_safetensors(path):
      where = f"{path}, tensor {name}"
      named.append(
        (name, lambda name=name, where=where: _opened(tensor_files.map_tensor(path, name), (2, 3), where))
      )
  if not named:
    raise UsageError(
      f"{path}: no embeddings by language; give a folder of CODE.npy or CODE.safetensors, or one safetensors file with"
      " one tensor per language"
    )
  return languages.by_language(named, path, language_of)


def check_languages(codes: Iterable[str], texts: Mapping[str, Read], noun: str) -> None:
  """Raises UsageError if a language has no embeddings of its texts."""
  codes = tuple(codes)
  missing = [language for language in codes if language not in texts]
  if missing:
    others = [language for language in texts if language not in codes]
    but = f" (but embeddings in {wording.first_few(others)})" if others else ""
    raise UsageError(
      f"no embeddings of the {noun} in {wording.first_few(missing)}{but}; embed them, or choose --languages"
    )


def not_scored(codes: Collection[str], texts: Mapping[str, Read], noun: str) -> list[str]:
  """Returns the line about languages with embeddings and without texts; [] if there are none."""
  others = [language for language in texts if language not in codes]
  if not others:
    return []
  return [
    f"embeddings in {wording.count(len(others), 'further language')} are not scored, as there are no {noun} in "
    f"{wording.first_few(others)}"
  ]


def check_width(name: str, embeddings: Embeddings, other: str, others: Embeddings) -> None:
  """Raises UsageError if the embeddings differ in width."""
  width, other_width = embeddings.shape[-1], others.shape[-1]
  if width != other_width:
    raise UsageError(f"{name}: width {width}, but {other}: width {other_width}; take embeddings of one model")


def map_npy(path: str | os.PathLike) -> np.ndarray:
  """Maps an `.npy` file into memory; UsageError if it is a pickle, or if its header does not match its size."""
  path = pathlib.Path(path)
  if not path.is_file():
    raise UsageError(f"{path}: no such file; give an array as .npy")
  tensor_files.refuse_pickle(path)
  with open(path, "rb") as file:
    header = npy_header.read_header(file, path.stat().st_size, str(path))
  order = "F" if header.fortran_order else "C"
  if 0 in header.shape:
    return np.zeros(header.shape, header.dtype)
  return np.memmap(path, header.dtype, "r", header.length, header.shape, order)


def _checked_layout(array: np.ndarray, axes: tuple[int, ...], where: str) -> np.ndarray:
  if array.ndim not in axes or 0 in array.shape:
    layout = "[rows, width]" if 3 not in axes else "[rows, width] or [prompts, rows, width]"
    raise UsageError(f"{where}: has shape {shown(str(list(array.shape)))}; embeddings are {layout}")
  if not tensor_files.is_float(array.dtype):
    raise UsageError(f"{where}: dtype {array.dtype}; embeddings are float16, bfloat16, float32 or float64")
  return array


def _opened(array: np.ndarray, axes: tuple[int, ...], where: str) -> Stored:
  return embedding_rows.stored(_checked_layout(array, axes, where), where)
