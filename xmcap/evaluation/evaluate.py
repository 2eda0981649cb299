"""`xmcap eval`: evaluators, on the weights of a model folder or on captions of any origin. It imports no jax."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gin

from xmcap.evaluation.caption_evaluator import is_first
from xmcap.files import addresses, outputs
from xmcap.training.deferred import Deferred, Row, at_once


@gin.configurable(denylist=["run"])
def evaluate(
  run: Callable[[str, Sequence[Any], int | None, str | None], None],
  model_dir: str = gin.REQUIRED,
  evaluators: Sequence[Any] = gin.REQUIRED,
  step: int | None = None,
  weights: str | None = None,
) -> None:
  """Runs evaluators, which write their own results into folders that are locked meanwhile.

  Args:
    run: runs the evaluators; gets the other arguments.
    model_dir: the folder of the run; "": captions need no weights.
    evaluators: each has `run(params, step)`.
    step: step of the checkpoint; None: the best or newest.
    weights: `ema` or `raw`; None: the EMA of the weights if the run has one.
  """
  out_dirs = [getattr(evaluator, "out_dir", "") for evaluator in evaluators]
  local = [out_dir for out_dir in out_dirs if out_dir and not addresses.is_remote(out_dir)]
  locks = [("out_dir", out_dir, True) for out_dir in local if is_first()]
  with outputs.held_all(locks, "xmcap eval"):
    run(model_dir, evaluators, step, weights)


def show(rows: Iterable[Row | Deferred]) -> None:
  """Prints the means of an evaluator's rows."""
  for language, name, value in at_once(rows):
    if language in ("", "mean") and is_first():
      print(f"{name}  {value:.4f}")
