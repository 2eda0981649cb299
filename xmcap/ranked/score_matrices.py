"""Retrieval from matrices of scores: MRR, R@k and the median rank of each query's one right candidate.

A matrix has a row per query and a column per candidate. It is read some rows at a time, so it may be of any size.
"""

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from xmcap import languages as languages_lib
from xmcap import wording
from xmcap.digests import of_images, of_texts
from xmcap.errors import UsageError
from xmcap.files import files
from xmcap.files import tensors as tensor_files
from xmcap.ranked import ranks as rank_lib
from xmcap.ranked import zero_shot
from xmcap.reading import embedding_files, embedding_rows
from xmcap.reading.embedding_rows import Embeddings
from xmcap.scoring.metrics.ranked import DEPTHS
from xmcap.scoring.statistics.sufficient import Statistics
from xmcap.scoring.system import System, make_table
from xmcap.terminal import shown

_CELLS = 1 << 22  # scores at once: 16 MiB


@dataclasses.dataclass(frozen=True)
class Matrix:
  """An `.npy` file of scores [Q, C], of which nothing but the header is read yet."""

  path: pathlib.Path
  shape: tuple[int, int]

  def chunks(self) -> Iterator[tuple[int, np.ndarray]]:
    """Yields (number of the first query, float32 [rows, C]); UsageError where a score is NaN or infinite."""
    count, width = self.shape
    rows = max(1, _CELLS // width)
    for first in range(0, count, rows):
      # Mapped anew each time, so that what was read is not kept.
      with np.errstate(over="ignore"):
        chunk = np.array(embedding_files.map_npy(self.path)[first : first + rows], np.float32, order="C")
      if not np.isfinite(chunk).all():
        row, column = np.argwhere(~np.isfinite(chunk))[0].tolist()
        raise UsageError(
          f"{self.path}, row {first + row}, column {column}: the score is NaN or infinite, or above 3.4e38, the "
          "largest of float32; compute it again"
        )
      yield first, chunk


def open_matrix(path: str | os.PathLike) -> Matrix:
  """Opens a matrix of scores; UsageError if there is no such file, or if it does not hold a matrix of floats."""
  scores = embedding_files.map_npy(path)
  if scores.ndim != 2 or not scores.size:
    raise UsageError(f"{path}: has shape {list(scores.shape)}; scores are [queries, candidates]")
  if not tensor_files.is_float(scores.dtype):
    raise UsageError(f"{path}: holds {shown(str(scores.dtype))}; scores are float32")
  return Matrix(pathlib.Path(path), (scores.shape[0], scores.shape[1]))


def read_targets(path: str | os.PathLike | None, matrix: Matrix, option: str = "--targets") -> np.ndarray:
  """Returns int64 [Q], the right candidate of each query: from a file (see `zero_shot.read_targets`) or the diagonal.

  Raises:
    UsageError: the file cannot be read or does not fit the matrix, or without a file the matrix is not square.
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
      f"{path}: {wording.count(len(targets), 'target')} for "
      f"{wording.count(count, 'query').replace('querys', 'queries')} "
      f"of {matrix.path}; give one for each"
    )
  if int(targets.max()) >= width:
    query = int(targets.argmax())
    raise UsageError(
      f"{path}: target {targets[query]} of query {query} is out of range; there are {width:,} candidates"
    )
  return targets


def ranks(scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
  """Returns int64 [Q], the ranks of the right candidates `targets` [Q] in scores [Q, C]; the worst one in a tie."""
  return np.count_nonzero(scores >= scores[np.arange(len(scores)), targets, None], axis=1)


def write_similarities(
  path: str | os.PathLike, queries: Embeddings, candidates: Embeddings, similarity: str = "cosine"
) -> None:
  """Writes the similarities of queries [Q, D] and candidates [C, D] as a matrix [Q, C].

  UsageError as `similarities`; XmcapError if the file cannot be written.
  """
  write(path, (len(queries), len(candidates)), similarities(queries, candidates, similarity))


def similarities(
  queries: Embeddings, candidates: Embeddings, similarity: str = "cosine"
) -> Iterator[np.ndarray]:
  """Returns the similarities of queries [Q, D] and candidates [C, D]: some rows, float32 [rows, C], at a time.

  Queries may be larger than memory; candidates are kept as float32.

  Raises:
    UsageError: the widths differ; a number or a product is NaN, infinite or beyond float32; or with the cosine an
      embedding has length 0.
  """
  embedding_files.check_width("queries", queries, "candidates", candidates)
  queries = embedding_rows.prepared(queries, similarity, "queries")
  prepared = embedding_rows.prepared(candidates, similarity, "candidates")[:]
  rows = embedding_rows.at_once(_CELLS, prepared)
  starts = range(0, len(queries), rows)
  return (embedding_rows.products(queries[first : first + rows], prepared, first) for first in starts)


def write(path: str | os.PathLike, shape: tuple[int, int], chunks: Iterable[np.ndarray]) -> None:
  """Writes a matrix as float32 `.npy`, some rows at a time."""
  with files.whole(path) as file:
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    for chunk in chunks:
      file.write(chunk.astype("<f4", copy=False).tobytes())


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
) -> System:
  """Scores a matrix: a table with one row, that of the queries' language.

  Args:
    matrix: scores [Q, C].
    targets: int64 [Q], the right candidate of each query.
    language: the code of the queries' language.
    depths: values of k, from `DEPTHS`.
    keys: keys of the queries; None: their numbers from 0.
    bootstrap, seed, title: as for `score_zero_shot`.

  Raises:
    UsageError: a score is not finite, there are fewer candidates than k, or the queries do not have one key each.
  """
  code = languages_lib.get(language).code
  count, width = matrix.shape
  unnamed = keys is None
  keys = [str(number) for number in range(count)] if keys is None else list(keys)
  if len(keys) != count or len(set(keys)) < count:
    raise UsageError(f"{len(keys):,} keys for {count:,} queries, or one of them twice; give each its own")
  if width < max(depths):
    raise UsageError(
      f"{matrix.path}: R@{max(depths)} needs {max(depths)} candidates or more, and there are {width}; choose fewer by "
      "--k"
    )
  places = np.concatenate(
    [ranks(chunk, targets[first : first + len(chunk)]) for first, chunk in matrix.chunks()]
  )
  values = {"mrr": 1 / places[:, None]} | {f"recall_{k}": places[:, None] <= k for k in depths}
  statistics = {code: Statistics.of(keys, values, width, {"median_rank": float(np.median(places))})}
  parts = {
    "similarity": "given",
    "languages": code,
    "images": of_images(keys),
    "targets": of_texts(
      sorted(f"{key}\t{target}" for key, target in zip(keys, targets.tolist(), strict=True))
    ),
    "candidates": str(width),
  }
  notes = [rank_lib.no_keys_note("queries")] if unnamed else []
  table = make_table(statistics, parts, notes, title=title, bootstrap=bootstrap, seed=seed)
  return System(table, statistics)


def nearest(
  queries: Embeddings, candidates: Embeddings, texts: Sequence[str], count: int, similarity: str = "cosine"
) -> Iterator[list[tuple[str, float]]]:
  """Yields the nearest different sentences of each query with their similarities, best first.

  These are what `xmcap human annotate` suggests: the annotators of COCO-CN see the five sentences, of a pool of
  machine-translated ones, whose vectors have the highest cosine with the image's (Li et al. 2019, section III).
  A sentence that occurs several times counts once, with its first embedding; of equally near ones the first leads.

  Args:
    queries: [Q, D].
    candidates: [C, D], the embeddings of the sentences.
    texts: the C sentences.
    count: how many for each query; fewer if there are fewer different ones.
    similarity: as for `similarities`, which also gives the errors.
  """
  first: dict[str, int] = {}
  for place, text in enumerate(texts):
    first.setdefault(text, place)
  places = np.array(sorted(first.values()))
  if len(places) < len(candidates):
    candidates = embedding_rows.taken(candidates, places)
  count = min(count, len(places))
  for scores in similarities(queries, candidates, similarity):
    last = np.partition(scores, -count, axis=1)[:, -count]
    for row, least in zip(scores, last, strict=True):
      best = np.flatnonzero(row >= least)
      best = best[np.argsort(-row[best], kind="stable")][:count]
      yield [(texts[int(places[place])], float(row[place])) for place in best]
