"""Embeddings of which some rows are in memory at a time: read, averaged over prompts, normalised, multiplied.

What is done to a row does not depend on the rows that are read with it, so blocks of any size give the same bits.
"""

import mmap
from collections.abc import Callable, Iterator

import numpy as np

from xmcap.errors import UsageError
from xmcap.terminal import shown

SIMILARITIES = ("cosine", "dot")
TINY = 1e-12
"""Embeddings that are shorter have length 0."""

_BLOCK = 1 << 18  # numbers that are read at once: 1 MiB, and 2 as float64
_HELD = 1 << 24  # numbers that are kept once they are prepared: 64 MiB

Chosen = slice | np.ndarray
"""Rows of an array: a slice, or their numbers, int64 [n]."""


class Stored:
  """Embeddings [N, D] or [prompts, N, D] that are read when their rows are asked for.

  `stored[rows]` is float32 [n, D] or [prompts, n, D], with the errors of the reader; `np.asarray(stored)` is the whole.

  Args:
    shape: of the whole.
    read: rows -> their embeddings, float32.
  """

  dtype = np.dtype(np.float32)

  def __init__(self, shape: tuple[int, ...], read: Callable[[Chosen], np.ndarray]):
    self.shape = shape
    self._read = read

  def __len__(self) -> int:
    return self.shape[-2]

  def __getitem__(self, rows: Chosen) -> np.ndarray:
    count = len(range(*rows.indices(len(self)))) if isinstance(rows, slice) else len(rows)
    embeddings = np.empty((*self.shape[:-2], count, self.shape[-1]), np.float32)
    start = 0
    for block in self.blocks(rows):
      part = self._read(block)
      stop = start + part.shape[-2]
      embeddings[..., start:stop, :] = part
      start = stop
    return embeddings

  def __array__(self, dtype=None, copy=None) -> np.ndarray:
    if copy is False:
      raise ValueError("embeddings in a file are always copied")
    return self[:].astype(dtype or np.float32, copy=False)

  def blocks(self, rows: Chosen = slice(None)) -> Iterator[Chosen]:
    """Yields the rows in blocks of about `_BLOCK` numbers."""
    numbers = range(*rows.indices(len(self))) if isinstance(rows, slice) else rows
    size = max(1, _BLOCK // (self.shape[-1] * (self.shape[0] if len(self.shape) == 3 else 1)))
    for start in range(0, len(numbers), size):
      block = numbers[start : start + size]
      yield slice(block.start, block.stop, block.step) if isinstance(block, range) else block


Embeddings = np.ndarray | Stored


def stored(array: np.ndarray, where: str) -> Stored:
  """Returns embeddings in memory, or mapped there, of any float type; pages of a mapped file are given back."""

  def read(rows: Chosen) -> np.ndarray:
    block = finite(array[..., rows, :], where, rows)
    release(array)
    return block

  return Stored(array.shape, read)


def finite(array: np.ndarray, where: str, rows: Chosen = slice(None)) -> np.ndarray:
  """Returns rows of embeddings as float32; UsageError for NaN, infinity, or a number that float32 does not hold.

  `rows` are their numbers in `where`, for the message.
  """
  with np.errstate(over="ignore"):
    block = np.array(array, np.float32, order="C")
  whole = np.isfinite(block).all(axis=-1)
  if not whole.all():
    place = tuple(np.argwhere(~whole)[0])
    fault = "a number above 3.4e38, the largest of float32; scale the embeddings"
    if not np.isfinite(array[place]).all():
      fault = "NaN or infinity; embed it again"
    raise UsageError(f"{where}, row {_number(rows, place[-1])}: holds {fault}")
  return block


def release(array: np.ndarray) -> None:
  """Gives back the pages of a mapped file, which count as memory of the process; they are read again when needed."""
  # Changes of a private copy ("c") would be lost.
  if isinstance(array, np.memmap) and array.mode == "r" and isinstance(array.base, mmap.mmap):
    array.base.madvise(mmap.MADV_DONTNEED)


def normalized(embeddings: np.ndarray, where: str, rows: Chosen = slice(None)) -> np.ndarray:
  """Returns the embeddings [..., D] as float32 with length 1; UsageError if one has length 0, NaN or infinity.

  `rows` are their numbers in `where`, for the message.
  """
  wide = embeddings.astype(np.float64)
  lengths = np.sqrt((wide * wide).sum(axis=-1, keepdims=True))
  bad = ~((lengths >= TINY) & np.isfinite(lengths))
  if bad.any():
    place = int(np.flatnonzero(bad)[0])
    fault = "an embedding with NaN or infinity; embed it again"
    if lengths.reshape(-1)[place] < TINY:
      fault = "an embedding of length 0; fix it, or use --similarity=dot"
    raise UsageError(f"{where}, row {_number(rows, place)}: {fault}")
  return np.divide(wide, lengths, out=wide).astype(np.float32)


def prepared(embeddings: Embeddings, similarity: str, where: str) -> Embeddings:
  """Returns float32 [N, D] for a matrix product: averaged over prompts, and normalised for the cosine.

  With the cosine the embedding of each prompt is normalised, and the mean again. With the dot product only the mean
  over prompts is normalised, as in Babel-ImageNet's reference code for models that it does not normalise. All rows are
  read once. Small embeddings are then kept, and those of prompts; larger ones are prepared anew whenever they are read.

  Raises:
    UsageError: `similarity` is unknown; a number is NaN, infinite or beyond float32; or with the cosine an embedding
      has length 0.
  """
  if similarity not in SIMILARITIES:
    raise UsageError(f"--similarity={shown(similarity)}: must be {' or '.join(SIMILARITIES)}")
  source = embeddings if isinstance(embeddings, Stored) else stored(embeddings, where)

  def read(rows: Chosen) -> np.ndarray:
    block = source[rows]
    if block.ndim == 2:
      return normalized(block, where, rows) if similarity == "cosine" else block
    total = np.zeros(block.shape[1:])
    for prompt in block:
      total += normalized(prompt, where, rows) if similarity == "cosine" else prompt
    return normalized(total, f"{where}, mean of prompts", rows)

  made = Stored(source.shape[-2:], read)
  if len(source.shape) == 3 or len(made) * made.shape[1] <= _HELD:
    return made[:]
  for rows in made.blocks():
    read(rows)  # so that what is wrong is said before hours of work
  return made


def taken(embeddings: Embeddings, rows: np.ndarray) -> Embeddings:
  """Returns some rows, in this order; those of a file are still read later."""
  if not isinstance(embeddings, Stored):
    return embeddings[..., rows, :]
  return Stored((*embeddings.shape[:-2], len(rows), embeddings.shape[-1]), lambda own: embeddings[rows[own]])


def products(queries: np.ndarray, candidates: np.ndarray, first: int = 0) -> np.ndarray:
  """Returns float32 [Q, C], the products of queries [Q, D] and candidates [C, D]; UsageError if one is not finite.

  `first` is the number of the first query, for the message.
  """
  with np.errstate(over="ignore", invalid="ignore"):
    scores = queries @ candidates.T
  if not np.isfinite(scores).all():
    query = first + int(np.isfinite(scores).all(axis=1).argmin())
    raise UsageError(
      f"query {query}: its product with a candidate is above 3.4e38, the largest of float32; scale the embeddings, or "
      "use --similarity=cosine"
    )
  return scores


def at_once(cells: int, candidates: Embeddings) -> int:
  """Returns how many queries are multiplied at once, so that neither they nor their scores have more numbers."""
  return max(1, cells // max(candidates.shape))


def _number(rows: Chosen, place: int) -> int:
  return int(rows[place]) if isinstance(rows, np.ndarray) else (rows.start or 0) + int(place)
