"""Shared by the evaluators of a split: computing over its images, and reporting the scores."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import gin
import jax
import numpy as np

from xmcap.evaluation import table_rows
from xmcap.evaluation.sharded_params import ShardedParams
from xmcap.files import addresses, outputs
from xmcap.ranked import page
from xmcap.training import sharding
from xmcap.training.hosts import stopping


def batches_of(
  stream: Any, count: int, compiled: Callable[[Any, Any], Any], sharded: ShardedParams, name: str
) -> Iterator[Any]:
  """Yields the results of a compiled function for the first images of a stream, as whole numpy arrays on every host.

  Args:
    stream: the stream of the split.
    count: number of images; the last batch may have surplus rows, of weight 0.
    compiled: (parameters, batch) -> a tree of arrays. Compile it once, not for each evaluation.
    sharded: the parameters.
    name: of the evaluation, for the watch over hanging processes.
  """
  stream, steps = stream.first(count, sharded.groups)
  rows = sharding.process_rows(sharded.mesh, stream.num_images)
  with contextlib.closing(stream.batches(0, rows, num_steps=steps)) as batches:
    for number, batch in enumerate(batches, 1):
      stopping.evaluation_batch(f"batch {number} of {name}")
      yield sharded.compute(compiled, batch, stream.num_images, rows)


def of_split(
  stream: Any, count: int, compiled: Callable[[Any, Any], Any], sharded: ShardedParams, name: str
) -> tuple[np.ndarray, ...]:
  """Returns the arrays [B, ...] of all batches, joined; the arguments are those of `batches_of`."""
  batches = batches_of(stream, count, compiled, sharded, name)
  return tuple(np.concatenate(arrays) for arrays in zip(*batches, strict=True))


@dataclasses.dataclass(eq=False, repr=False)
class SplitEvaluator:
  """The base class of evaluators with the tables of a subcommand of `xmcap score`.

  Attributes:
    stream: the stream of the split.
    bootstrap: resamples for the 95% intervals in `out_dir`; 0: none.
    out_dir: tables and report, and predictions if there are any, are written to `out_dir/name`; "": nothing is.
    title: title of the tables and the report.
    name: prefix of the names of the rows, such as `validation`.
  """

  stream: Any = gin.REQUIRED
  bootstrap: int = 0
  out_dir: str = ""
  title: str = ""
  name: str = ""

  def __post_init__(self):
    self.prefix = f"{self.name}/" if self.name else ""
    if self.out_dir and self.name:
      self.out_dir = addresses.join(self.out_dir, self.name)
    self.options: dict[str, Any] = {"bootstrap": self.bootstrap if self.out_dir else 0, "title": self.title}

  @property
  def writes(self) -> bool:
    """Whether this process writes the results."""
    return bool(self.out_dir) and jax.process_index() == 0

  def reported(self, result: Any) -> Iterator[tuple[str, str, float]]:
    """Writes a result of `xmcap.ranked` and prints its table, if this process writes; yields `table_rows.rows`."""
    if self.writes:
      with addresses.local_folder(self.out_dir) as out, outputs.together(out):
        page.write_results(out, result)
      print(result.table.terminal(self.out_dir), flush=True)
    yield from table_rows.rows(result.table, self.prefix)
