"""The training loop, for every objective: mesh, state, where to start, step, loop. It reads top to bottom."""

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import gin
import jax
import numpy as np

from xmcap.errors import UsageError, XmcapError
from xmcap.training import checkpoints as checkpoints_lib
from xmcap.training import sharding, stall
from xmcap.training import start as start_lib
from xmcap.training import step as step_lib
from xmcap.training.metrics import Progress
from xmcap.training.optimizer import Optimizer
from xmcap.training.state import plan_state
from xmcap.training.stopping import stop_requests


@dataclasses.dataclass(frozen=True)
class TrainResult:
  """How a run ended.

  Attributes:
    step: steps done, all of them saved.
    finished: False where a signal ended it; the same command goes on with it.
    message: a line for the user.
    metrics: of the last report and the last evaluation.
    state: the last `TrainState`.
  """

  step: int
  finished: bool
  message: str
  metrics: dict[str, float]
  state: step_lib.TrainState


@gin.configurable
def train(
  model_dir: str = gin.REQUIRED,
  objective: Any = gin.REQUIRED,
  stream: Any = gin.REQUIRED,
  total_steps: int = gin.REQUIRED,
  optimizer: Optimizer | None = None,
  evaluators: Sequence[Any] = (),
  eval_every: int = 0,
  log_every: int = 100,
  checkpoint: checkpoints_lib.CheckpointPolicy | None = None,
  partitioning: sharding.Partitioning | None = None,
  initial_checkpoint: str | None = None,
  pretrained: start_lib.Pretrained = (),
  seed: int = 0,
  microbatches: int = 1,
  skip_limit: int = 100,
  tensorboard: bool = True,
  rng_impl: str | None = None,
  data_timeout: float = 600,
  say: Callable[[str], None] | None = None,
) -> TrainResult:
  """Trains, and resumes by itself: the same call after any kind of end goes on from the newest checkpoint.

  Args:
    model_dir: checkpoints and TensorBoard's files go there.
    objective: `init(rng, batch) -> {"params", "params_axes"}` and `loss(params, batch, rng, deterministic) ->
      (loss [], metrics)`, see `objectives.py`.
    stream: `batch(step, host_index, host_count)` and `batches(start_step, host_index, host_count)`, each
      batch a dict of numpy arrays [B, ...]; what lies at a step is a function of the step. `lost`, if it has
      it: reason -> count of what it left out, said at the end.
    total_steps: of the run, from its very beginning.
    optimizer: see there; this and the next two are made, with what gin binds for them, where None is given.
    evaluators: each has `run(params, step)`, which yields rows (language, name, value).
    eval_every: steps between two evaluations; 0: only at the end.
    log_every: steps between two lines of progress, the only times when something is fetched from the device.
    checkpoint: when to write checkpoints and which to keep.
    partitioning: the mesh, and how arrays lie on it.
    initial_checkpoint: see `start.starting_state`.
    pretrained: see there.
    seed: of parameters and dropout (the data have their own).
    microbatches: see `step.make_train_step`.
    skip_limit: the run stops after so many non-finite steps in a row.
    tensorboard: writes its files to `model_dir/tensorboard`.
    rng_impl: see `step.make_train_step`.
    data_timeout: seconds to wait for a batch before the run ends, to be started again; 0: for ever.
    say: prints a line of progress; by default on the standard output of the first process.

  Raises:
    UsageError: what is configured does not go together.
    XmcapError: the folder cannot be written, a checkpoint does not fit, or the loss stays non-finite.
    RestartError: the data source stalls, or another process of the run is lost.
  """
  # Made here and not as defaults of the parameters: those are evaluated before gin has read its files.
  optimizer = optimizer or Optimizer()
  checkpoint = checkpoint or checkpoints_lib.CheckpointPolicy()
  partitioning = partitioning or sharding.Partitioning()
  if total_steps < 1 or log_every < 1 or eval_every < 0 or microbatches < 1:
    raise UsageError(
      "train: total_steps, log_every and microbatches must be at least 1, and eval_every at least 0"
    )
  if checkpoint.best_metric is not None and not evaluators:
    raise UsageError(
      f"train: CheckpointPolicy.best_metric is {checkpoint.best_metric!r}, but no evaluator measures it"
    )
  if say is None:
    say = _say if jax.process_index() == 0 else lambda line: None
  checkpoints = checkpoints_lib.Checkpoints(model_dir, checkpoint)

  # ---- mesh --------------------------------------------------------------------------------------

  mesh, rules = partitioning.mesh(), partitioning.logical_rules()
  host_index, host_count = sharding.host_share(mesh)

  # ---- state: shapes, where they lie, where they come from ---------------------------------------

  patience = stall.Patience(data_timeout, stall.describe(stream))
  sample = patience.call(lambda: stream.batch(0, host_index=host_index, host_count=host_count), "start")
  numeric = {
    name: np.asarray(array) for name, array in sample.items() if np.asarray(array).dtype.kind in "biuf"
  }
  rows = len(next(iter(numeric.values())))
  if rows % microbatches:
    raise UsageError(
      f"train: {rows} pictures a batch do not divide into {microbatches} microbatches: change one of them"
    )
  plan = plan_state(objective, optimizer, numeric, mesh, rules, seed, rng_impl)
  state, origin = start_lib.starting_state(
    checkpoints, plan.create, plan.target, initial_checkpoint, pretrained
  )
  start = int(state.step)
  say(f"{plan.num_parameters:,} parameters on {mesh.size} device(s); {origin}")

  # ---- step --------------------------------------------------------------------------------------

  train_step = plan.jit(
    step_lib.make_train_step(
      objective, optimizer, total_steps, seed, microbatches, rng_impl, plan.shardings.params
    )
  )

  # ---- loop --------------------------------------------------------------------------------------

  log_dir = os.path.join(model_dir, "tensorboard") if tensorboard and jax.process_index() == 0 else None
  progress = Progress(total_steps, start, log_dir, say)
  done, saved, last = start, start if checkpoints.steps() else None, {}
  with contextlib.ExitStack() as stack:
    stack.callback(progress.close)
    stack.callback(checkpoints.close)
    stop = stack.enter_context(stop_requests())
    batches = stream.batches(start, host_index=host_index, host_count=host_count)
    stack.callback(patience.close, batches)
    stack.enter_context(sharding.use(mesh, rules))

    while done < total_steps and not stop.asked(done):
      began = time.monotonic()
      batch = patience.call(lambda: next(batches), f"step {done + 1}")
      if progress.device_is_idle() and done > start:
        progress.waited(time.monotonic() - began)
      placed = sharding.put_batch(batch, mesh)
      with jax.transfer_guard("disallow"):
        state, metrics = train_step(state, placed)
      done += 1
      progress.add(metrics, _examples(batch) * host_count)
      progress.throttle(ahead=2)
      checkpoints.check()

      is_last = done == total_steps
      evaluate = bool(evaluators) and (is_last or (eval_every > 0 and done % eval_every == 0))
      write = (
        is_last
        or (checkpoint.every > 0 and done % checkpoint.every == 0)
        or (evaluate and checkpoint.best_metric is not None)
      )
      if done % log_every == 0 or evaluate or write:
        last = {**last, **progress.report(done)}
        if last["skipped_in_a_row"] >= skip_limit:
          raise XmcapError(
            f"step {done}: loss or gradient was not finite {int(last['skipped_in_a_row'])} steps in a row "
            f"(train.skip_limit {skip_limit}): lower the learning rate; "
            f"the newest checkpoint is of step {saved or 0}"
          )
      best = None
      if evaluate:
        began = time.monotonic()
        scores = progress.evaluation(
          done,
          [row for evaluator in evaluators for row in evaluator.run(state.params, done)],
          time.monotonic() - began,
        )
        last = {**last, **scores}
        best = _best_value(scores, checkpoint.best_metric)
        progress.away(time.monotonic() - began)
      if write:
        began = time.monotonic()
        checkpoints.save(done, state, best)
        saved = done
        progress.away(time.monotonic() - began)

    # A signal may come at a step that no checkpoint was due at.
    checkpoints.save(done, state)
    checkpoints.wait()

  # What a stream left out since this start is said once by it, and summed up here.
  for what, count in getattr(stream, "lost", {}).items():
    say(f"left out: {count:,} {what}")
  finished = done >= total_steps
  message = (
    f"finished at step {done}"
    if finished
    else f"stopped by {stop.name} at step {done} of {total_steps}, all saved"
  )
  say(f"{message}; checkpoints in {checkpoints.directory}")
  return TrainResult(done, finished, message, last, state)


def _say(line: str) -> None:
  print(line, flush=True)


def _examples(batch: dict[str, Any]) -> int:
  """Captions in a batch of captions, else pictures."""
  tokens = batch.get("target_tokens")
  return tokens.shape[0] * tokens.shape[1] if tokens is not None else len(next(iter(batch.values())))


def _best_value(scores: dict[str, float], name: str | None) -> float | None:
  if name is None:
    return None
  if name not in scores:
    raise UsageError(
      f"CheckpointPolicy.best_metric is {name!r}, but the evaluators measured {', '.join(sorted(scores))}"
    )
  return scores[name]
