"""Shared by the evaluators of a split: computing over its images, and reporting the scores."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from xmcap.evaluation.sharded_params import ShardedParams
from xmcap.files import addresses, outputs
from xmcap.ranked import page
from xmcap.scoring.tables import score_table
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


class SplitEvaluator:
  """The base class of evaluators with the tables of a subcommand of `xmcap score`, whose arguments they explain."""

  def __init__(self, stream: Any, bootstrap: int, out_dir: str, title: str, name: str):
    self.stream = stream
    self.prefix = f"{name}/" if name else ""
    self.out_dir = addresses.join(out_dir, name) if out_dir and name else out_dir
    self.options: dict[str, Any] = {"bootstrap": bootstrap if out_dir else 0, "title": title}

  @property
  def writes(self) -> bool:
    """Whether this process writes the results."""
    return bool(self.out_dir) and jax.process_index() == 0

  def write(self, result: Any) -> None:
    """Writes the tables and the report of a result of `xmcap.scoring`, and prints its table."""
    with addresses.local_folder(self.out_dir) as out, outputs.together(out):
      page.write_results(out, result)
    print(result.table.terminal(self.out_dir), flush=True)

  def rows(self, table: score_table.Table, part: str = "") -> Iterator[tuple[str, str, float]]:
    """Yields (language, name, value) for each metric and language, and ("", name, value) for the mean over all."""
    for metric in table.metrics:
      values = {language: row[metric] for language, row in table.rows.items()}
      values[""] = sum(values.values()) / len(values)
      for language, value in values.items():
        yield language, f"{self.prefix}{part}{metric}", value
