"""Retrieval from matrices of scores: MRR, R@k and the median rank of each query's one right candidate.

A matrix is a row a query and a column a candidate. It is read some rows at a time, so its size does not matter.
"""

import dataclasses
import os
import pathlib
from collections.abc import Iterator, Sequence

import numpy as np

from xmcap import languages as languages_lib
from xmcap.errors import UsageError
from xmcap.scoring import embedding_files, files, tables, zero_shot
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring.metrics.ranked import DEPTHS
from xmcap.scoring.signature import METRIC, of_images, of_texts
from xmcap.scoring.statistics import Statistics
from xmcap.tensors import files as tensor_files
from xmcap.tensors import npy_header
from xmcap.terminal import shown

_CELLS = 1 << 22  # scores at once: 16 MiB


@dataclasses.dataclass(frozen=True)
class Matrix:
  """An `.npy` file of scores [Q, C], of which nothing but the header is read yet."""

  path: pathlib.Path
  shape: tuple[int, int]
  header: npy_header.Header

  def chunks(self) -> Iterator[tuple[int, np.ndarray]]:
    """Yields (number of the first query, float32 [rows, C]); UsageError where a score is NaN or infinite."""
    count, width = self.shape
    rows = max(1, _CELLS // width)
    order = "F" if self.header.fortran_order else "C"
    for first in range(0, count, rows):
      # Mapped anew each time, so that what was read is not kept.
      mapped = np.memmap(self.path, self.header.dtype, "r", self.header.length, self.shape, order)
      chunk = np.array(mapped[first : first + rows], np.float32, order="C")
      del mapped
      if not np.isfinite(chunk).all():
        row, column = np.argwhere(~np.isfinite(chunk))[0].tolist()
        raise UsageError(
          f"{self.path}, row {first + row}, column {column}: the score is NaN or infinite; compute it again"
        )
      yield first, chunk


@dataclasses.dataclass(frozen=True)
class MatrixRetrieval:
  """The scores of one matrix.

  Attributes:
    table: one row, that of the queries' language; a note has the median rank.
    statistics: language code -> statistics of the queries, which `xmcap compare` resamples.
    ranks: int64 [Q], the rank of each query's right candidate, from 1.
  """

  table: tables.Table
  statistics: dict[str, Statistics]
  ranks: np.ndarray


def open_matrix(path: str | os.PathLike) -> Matrix:
  """Opens a matrix of scores.

  Raises:
    UsageError: no such file, a pickle, or no two axes of floats.
  """
  path = pathlib.Path(path)
  if not path.is_file():
    raise UsageError(f"{path}: no such file; give scores [queries, candidates] as .npy")
  tensor_files.refuse_pickle(path)
  with open(path, "rb") as file:
    header = npy_header.read_header(file, path.stat().st_size, str(path))
  if len(header.shape) != 2 or 0 in header.shape:
    raise UsageError(f"{path}: has shape {list(header.shape)}; scores are [queries, candidates]")
  if header.dtype not in tensor_files.FLOATS:
    raise UsageError(f"{path}: holds {shown(str(header.dtype))}; scores are float32")
  return Matrix(path, (header.shape[0], header.shape[1]), header)


def read_targets(path: str | os.PathLike | None, matrix: Matrix, option: str = "--targets") -> np.ndarray:
  """Returns int64 [Q], the right candidate of each query: of a file as `zero_shot.read_targets`, or the diagonal.

  Raises:
    UsageError: the file cannot be read, or what it holds does not fit the matrix; or there is none, and the matrix is
      not square.
  """
  count, width = matrix.shape
  if not path:
    if count != width:
      raise UsageError(
        f"{matrix.path}: has shape [{count}, {width}]; only a square matrix has its right candidates on the diagonal: "
        f"give {option}=FILE"
      )
    return np.arange(count)
  targets = zero_shot.read_targets(path, "candidate")
  if len(targets) != count:
    raise UsageError(
      f"{path}: {files.count(len(targets), 'target')} for {files.count(count, 'query').replace('querys', 'queries')} "
      f"of {matrix.path}; give one for each"
    )
  if int(targets.max()) >= width:
    query = int(targets.argmax())
    raise UsageError(
      f"{path}: target {targets[query]} of query {query} is out of range; there are {width:,} candidates"
    )
  return targets


def ranks(scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
  """Returns int64 [Q], from 1: how many candidates score as high as the right one or higher, itself among them.

  Args:
    scores: float32 [Q, C].
    targets: int64 [Q], the right candidates.
  """
  return np.count_nonzero(scores >= scores[np.arange(len(scores)), targets, None], axis=1)


def write_similarities(
  path: str | os.PathLike, queries: np.ndarray, candidates: np.ndarray, similarity: str = "cosine"
) -> None:
  """Writes the similarity of each query and each candidate, float32 [Q, C] as `.npy`, some rows at a time.

  Args:
    path: the file.
    queries, candidates: embeddings, float32 [Q, D] and [C, D].
    similarity: one of `embedding_files.SIMILARITIES`.

  Raises:
    UsageError: the widths differ, or with the cosine an embedding has length 0.
    XmcapError: the file cannot be written.
  """
  embedding_files.check_widths({"candidates": candidates.shape[-1], "queries": queries.shape[-1]})
  queries = embedding_files.prepared(queries, similarity, "queries")
  candidates = embedding_files.prepared(candidates, similarity, "candidates")
  shape = (len(queries), len(candidates))
  rows = max(1, _CELLS // len(candidates))
  with files.whole(path) as file:
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    for first in range(0, len(queries), rows):
      file.write((queries[first : first + rows] @ candidates.T).astype("<f4", copy=False).tobytes())


def score_matrix(
  matrix: Matrix,
  targets: np.ndarray,
  language: str,
  depths: Sequence[int] = DEPTHS,
  *,
  keys: Sequence[str] | None = None,
  bootstrap: int = 0,
  seed: int = 0,
  title: str = "",
) -> MatrixRetrieval:
  """Scores a matrix.

  Args:
    matrix: scores [Q, C].
    targets: int64 [Q], the right candidate of each query.
    language: the code of the queries' language.
    depths: the numbers k, of `DEPTHS`.
    keys: of the queries; None: their numbers from 0.
    bootstrap, seed, title: as of `zero_shot.score_zero_shot`.

  Raises:
    UsageError: a score is not finite, there are fewer candidates than k, or keys are repeated or not one a query.
  """
  code = languages_lib.get(language).code
  count, width = matrix.shape
  keys = [str(number) for number in range(count)] if keys is None else list(keys)
  if len(keys) != count or len(set(keys)) < count:
    raise UsageError(f"{len(keys):,} keys for {count:,} queries, or one of them twice; give each its own")
  if width < max(depths):
    raise UsageError(
      f"{matrix.path}: R@{max(depths)} needs {max(depths)} candidates or more, and there are {width}; choose fewer by "
      "--k"
    )
  found = np.concatenate(
    [ranks(chunk, targets[first : first + len(chunk)]) for first, chunk in matrix.chunks()]
  )
  order = sorted(range(count), key=keys.__getitem__)
  values = {"mrr": 1 / found[order, None]}
  values |= {f"recall_{k}": (found[order, None] <= k).astype(np.float64) for k in depths}
  statistics = {code: Statistics(tuple(keys[place] for place in order), values, width)}
  parts = {f"{METRIC}{name}": metrics_lib.METRICS[name].signature for name in values}
  parts |= {
    "similarity": "given",
    "languages": code,
    "images": of_images(keys),
    "targets": of_texts(
      sorted(f"{key}\t{target}" for key, target in zip(keys, targets.tolist(), strict=True))
    ),
    "candidates": str(width),
  }
  notes = [
    f"median rank {np.median(found):g} of {width:,} candidates; where scores tie, the worst rank counts"
  ]
  return MatrixRetrieval(
    zero_shot.finished(parts, statistics, title, notes, bootstrap, seed), statistics, found
  )
