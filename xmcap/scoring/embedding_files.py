"""Reads embeddings from `.npy`, or from `.safetensors` with a single tensor or one named `embeddings`."""

import os
import pathlib
from collections.abc import Callable, Mapping

import numpy as np

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.tensors import files as tensor_files
from xmcap.tensors import npy_header
from xmcap.terminal import shown

SUFFIXES = (".npy", ".safetensors")
TENSOR = "embeddings"
SIMILARITIES = ("cosine", "dot")
_TINY = 1e-12

Read = Callable[[], np.ndarray]
"""Reads the embeddings of one language: float32 [texts, D], or [prompts, texts, D]."""


def read(path: str | os.PathLike, axes: tuple[int, ...] = (2,)) -> np.ndarray:
  """Returns the embeddings of a file as float32 [N, D], or with another number of axes in `axes`.

  Raises:
    UsageError: the file cannot be read, is a pickle, has non-finite numbers, or has another number of axes.
  """
  path = pathlib.Path(path)
  if not path.is_file():
    raise UsageError(f"{path}: no such file; give embeddings as {' or '.join(SUFFIXES)}")
  tensor_files.refuse_pickle(path)
  if path.suffix == ".npy":
    return _checked(_read_npy(path), axes, str(path))
  if path.suffix != ".safetensors":
    raise UsageError(f"{path}: embeddings are read from {' and '.join(SUFFIXES)}; save them as one of these")
  tensors = tensor_files.read_safetensors(path)
  if TENSOR not in tensors and len(tensors) != 1:
    names = files.first_few(sorted(tensors)) or "none"
    raise UsageError(f"{path}: must have a single tensor, or one named '{TENSOR}'; it has {names}")
  name = TENSOR if TENSOR in tensors else next(iter(tensors))
  return _checked(tensors[name].read(), axes, f"{path}, tensor {name}")


def by_language(path: str | os.PathLike) -> dict[str, Read]:
  """Returns language code -> a function that reads its embeddings.

  `path` is a folder of CODE.npy or CODE.safetensors, or one safetensors file whose tensors are named by the codes.
  Upper case and aliases (`TL` for fil) are accepted.

  Raises:
    UsageError: there are no embeddings, a name is not a language, or a language occurs twice.
  """
  path = pathlib.Path(path)
  found: dict[str, Read] = {}
  if path.is_dir():
    named = [(file.stem, file) for file in sorted(path.iterdir()) if file.suffix in SUFFIXES]
    for name, file in named:
      _add(found, name, str(file), lambda file=file: read(file, (2, 3)))
  elif path.suffix == ".safetensors":
    for name, tensor in tensor_files.read_safetensors(path).items():
      where = f"{path}, tensor {name}"
      _add(found, name, where, lambda tensor=tensor, where=where: _checked(tensor.read(), (2, 3), where))
  if not found:
    raise UsageError(
      f"{path}: no embeddings by language; give a folder of CODE.npy or CODE.safetensors, or one safetensors file with"
      " one tensor per language"
    )
  return found


def language(name: str, where: str) -> str:
  """Returns the code of a language given by a code or alias; UsageError suggests the nearest code."""
  code = languages.canonical(name)
  if code is None:
    raise UsageError(f"{where}: {files.unknown_language(name)}")
  return code


def normalized(embeddings: np.ndarray, where: str) -> np.ndarray:
  """Returns the embeddings [..., D] as float32 with length 1; UsageError if one has length 0."""
  wide = embeddings.astype(np.float64)
  lengths = np.sqrt((wide * wide).sum(axis=-1, keepdims=True))
  if lengths.min(initial=np.inf) < _TINY:
    row = int(np.flatnonzero(lengths.reshape(-1) < _TINY)[0])
    raise UsageError(
      f"{where}, row {row}: an embedding of length 0 has no direction; fix it, or use --similarity=dot"
    )
  return (wide / lengths).astype(np.float32)


def prepared(embeddings: np.ndarray, similarity: str, where: str) -> np.ndarray:
  """Returns float32 [N, D] for a matrix product: averaged over prompts, and normalised for the cosine.

  With the cosine the embedding of each prompt is normalised, and the mean again. With the dot product only the mean
  over prompts is normalised, as in Babel-ImageNet's reference code for models that it does not normalise.
  """
  if embeddings.ndim == 2:
    return normalized(embeddings, where) if similarity == "cosine" else embeddings
  total = np.zeros(embeddings.shape[1:])
  for prompt in embeddings:
    total += normalized(prompt, where) if similarity == "cosine" else prompt
  return normalized(total, f"{where}, mean of prompts")


def check_widths(widths: Mapping[str, int]) -> None:
  """Raises UsageError if embeddings (name -> width) differ in width."""
  (first, width), *others = widths.items()
  for name, other in others:
    if other != width:
      raise UsageError(f"{name}: width {other}, but {first}: width {width}; take embeddings of one model")


def _read_npy(path: pathlib.Path) -> np.ndarray:
  with open(path, "rb") as file:
    header = npy_header.read_header(file, path.stat().st_size, str(path))
  order = "F" if header.fortran_order else "C"
  if 0 in header.shape:
    return np.zeros(header.shape, header.dtype)
  return np.memmap(path, header.dtype, "r", header.length, header.shape, order)


def _checked(array: np.ndarray, axes: tuple[int, ...], where: str) -> np.ndarray:
  if array.ndim not in axes or 0 in array.shape:
    layout = "[rows, width]" if 3 not in axes else "[rows, width] or [prompts, rows, width]"
    raise UsageError(f"{where}: has shape {shown(str(list(array.shape)))}; embeddings are {layout}")
  if array.dtype not in tensor_files.FLOATS:
    raise UsageError(
      f"{where}: dtype {array.dtype}; embeddings must be float16, bfloat16, float32 or float64"
    )
  array = np.asarray(array, np.float32)
  for part in array if array.ndim == 3 else [array]:
    finite = np.isfinite(part).all(axis=-1)
    if not finite.all():
      raise UsageError(f"{where}, row {int(finite.argmin())}: holds NaN or infinity; embed it again")
  return array


def _add(found: dict[str, Read], name: str, where: str, function: Read) -> None:
  code = language(name, where)
  if code in found:
    raise UsageError(f"{where}: the language '{code}' occurs twice; keep one")
  found[code] = function
