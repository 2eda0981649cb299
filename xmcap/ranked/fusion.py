"""Fuses two matrices of scores: w times the first and 1 - w times the second, with the best w on validation.

Li et al., "COCO-CN" (2019), section IV-D, fuse cross-lingual and cross-media similarity; w is 0, 0.01, ... or 0.99, by
the MRR of the validation set. Matrices are read some rows at a time.
"""

import dataclasses
import json
import os
import pathlib

import numpy as np

from xmcap.errors import UsageError
from xmcap.files import files, outputs
from xmcap.ranked import score_matrices
from xmcap.ranked.score_matrices import Matrix

WEIGHTS = tuple(number / 100 for number in range(100))
"""The weights of the first matrix that are tried."""

_EQUAL = 1e-12  # sums of the same ranks may differ in their last digits


@dataclasses.dataclass(frozen=True)
class Choice:
  """The weight that is best on validation.

  Attributes:
    weight: weight of the first matrix; the smallest of several that are equally good.
    mrr: MRR of validation with each of `WEIGHTS`.
    queries: number of queries of validation.
  """

  weight: float
  mrr: tuple[float, ...]
  queries: int

  @property
  def best(self) -> float:
    """The MRR of validation with this weight."""
    return max(self.mrr)

  def as_json(self) -> str:
    """Returns the weight, its MRR, and the MRR of every weight."""
    value = {
      "w": self.weight,
      "validation_mrr": self.best,
      "validation_queries": self.queries,
      "validation_mrr_by_w": {f"{w:.2f}": mrr for w, mrr in zip(WEIGHTS, self.mrr, strict=True)},
    }
    return json.dumps(value, indent=2) + "\n"


def choose(first: Matrix, second: Matrix, targets: np.ndarray) -> Choice:
  """Tries all weights on the matrices of validation; `targets` are the right candidates, int64 [Q].

  Raises:
    UsageError: the matrices differ in shape, or a score is not finite.
  """
  check_shapes(first, second)
  totals = np.zeros(len(WEIGHTS))
  for (start, ours), (_, others) in zip(first.chunks(), second.chunks(), strict=True):
    right = targets[start : start + len(ours)]
    for place, weight in enumerate(WEIGHTS):
      totals[place] += (1 / score_matrices.ranks(mixed(ours, others, weight), right)).sum()
  means = totals / first.shape[0]
  return Choice(WEIGHTS[int((means >= means.max() - _EQUAL).argmax())], tuple(means.tolist()), first.shape[0])


def mixed(first: np.ndarray, second: np.ndarray, weight: float) -> np.ndarray:
  """Returns float32 [rows, C], w times the first and 1 - w times the second."""
  return np.float32(weight) * first + np.float32(1 - weight) * second


def write(path: str | os.PathLike, first: Matrix, second: Matrix, choice: Choice) -> None:
  """Writes the fused matrix, and the choice as JSON beside it (see `json_of`).

  Raises:
    UsageError: the matrices differ in shape, or a score is not finite; then nothing is written.
    XmcapError: the files cannot be written.
  """
  check_shapes(first, second)
  pairs = zip(first.chunks(), second.chunks(), strict=True)
  mixtures = (mixed(ours, others, choice.weight) for (_, ours), (_, others) in pairs)
  with outputs.together(path, folder=False):
    score_matrices.write(path, first.shape, mixtures)
    files.write_text(json_of(path), choice.as_json())


def json_of(path: str | os.PathLike) -> pathlib.Path:
  """Returns where the choice is written: `FUSED.json` beside `FUSED.npy`."""
  return pathlib.Path(path).with_suffix(".json")


def check_shapes(first: Matrix, second: Matrix) -> None:
  """Raises UsageError if the matrices differ in shape."""
  if first.shape != second.shape:
    raise UsageError(
      f"{second.path}: has shape {list(second.shape)}, and {first.path} has {list(first.shape)}; give scores of the "
      "same queries and candidates"
    )
