"""The training loop, for every objective: mesh, state, where to start, step, loop. It reads top to bottom."""

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import gin
import jax
import numpy as np

from xmcap.data.probe import reading_rate
from xmcap.errors import UsageError
from xmcap.training import hooks as hooks_lib
from xmcap.training import sharding
from xmcap.training import step as step_lib
from xmcap.training.checkpoints import settings as settings_lib
from xmcap.training.checkpoints import start as start_lib
from xmcap.training.checkpoints import write as checkpoints_lib
from xmcap.training.hosts import join as hosts
from xmcap.training.hosts import stall, watch
from xmcap.training.hosts.stopping import stop_requests
from xmcap.training.metrics import Progress
from xmcap.training.optimizer import Optimizer
from xmcap.training.reporting import flops
from xmcap.training.reporting import profiler as profiler_lib
from xmcap.training.reporting import writers as writers_lib
from xmcap.training.state import plan_state


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


# Said at a start, and not kept with the run.
@gin.configurable(denylist=["from_scratch", "other_data", "begun", "say"])
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
  writers: writers_lib.Writers | None = None,
  profiler: profiler_lib.Profiler | None = None,
  rng_impl: str | None = None,
  data_timeout: float = 600,
  from_scratch: bool = False,
  other_data: bool = False,
  begun: Callable[[int], None] | None = None,
  say: Callable[[str], None] | None = None,
) -> TrainResult:
  """Trains, and resumes by itself: the same call after any kind of end goes on from the newest checkpoint.

  Args:
    model_dir: checkpoints, `metrics.jsonl`, TensorBoard's files and traces go there.
    objective: `init(rng, batch) -> {"params", "params_axes"}` and `loss(params, batch, rng, deterministic) ->
      (loss [], metrics)`, see `objectives.py`.
    stream: `pictures` a batch, `batch(step, rows)` and `batches(start_step, rows)`; each batch is a dict of numpy
      arrays [N, ...], of the N rows asked for. What lies at a step is a function of the step. `lost`, if it has it:
      reason -> count of what it left out, said at the end. `skipped`, if it has it: see `SkippedPictures`.
      `signature()`, if it has it: what decides which example lies at a position, name -> value of JSON.
    total_steps: of the run, from its very beginning.
    optimizer: see there; this, `checkpoint`, `partitioning`, `writers` and `profiler` are made, with what gin binds for
      them, where None is given.
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
    writers: where else the numbers go.
    profiler: which steps are traced.
    rng_impl: see `step.make_train_step`.
    data_timeout: seconds to wait for a batch before the run ends, to be started again; 0: for ever.
    from_scratch, other_data: see `start.starting_state`.
    begun: called with the step that the run begins at, once it is sure that it does.
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
  writers = writers or writers_lib.Writers()
  profiler = profiler or profiler_lib.Profiler()
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
  watch.progress("start")
  checkpoints = checkpoints_lib.Checkpoints(model_dir, checkpoint, settings_lib.of_run(stream))

  # ---- mesh --------------------------------------------------------------------------------------

  mesh, rules = partitioning.mesh(), partitioning.logical_rules()
  rows = sharding.process_rows(mesh, stream.pictures)
  if stream.pictures % microbatches:
    raise UsageError(
      f"train: {stream.pictures} pictures a batch do not divide into {microbatches} microbatches: change one of them"
    )

  # ---- state: shapes, where they lie, where they come from ---------------------------------------

  patience = stall.Patience(data_timeout, stall.describe(stream))
  if skipped := getattr(stream, "skipped", None):
    skipped.list_in(os.path.join(model_dir, f"skipped-pictures-{jax.process_index()}.jsonl"))
  sample = patience.call(lambda: stream.batch(0, rows), "start")
  numeric = {name: array for name, array in sample.items() if np.asarray(array).dtype.kind in "biuf"}
  plan = plan_state(objective, optimizer, numeric, mesh, rules, seed, rng_impl)
  watch.progress("restore", "the state that the run begins with")
  state, origin = start_lib.starting_state(
    checkpoints, plan.create, plan.target, initial_checkpoint, pretrained, from_scratch, other_data, say
  )
  start = int(state.step)
  if begun:
    begun(start)
  say(f"{plan.num_parameters:,} parameters on {mesh.size} device(s); {origin}")
  reads = patience.call(lambda: reading_rate(stream, len(rows), start), "start") if start < total_steps else 0
  if reads:
    say(f"this host reads {reads:,.0f} pictures a second with {stream.workers} workers")

  # ---- step --------------------------------------------------------------------------------------

  train_step = plan.jit(
    step_lib.make_train_step(
      objective, optimizer, total_steps, seed, microbatches, rng_impl, plan.shardings.params
    )
  )

  # ---- loop --------------------------------------------------------------------------------------

  devices = mesh.devices.flatten().tolist()
  ideal_seconds = functools.partial(flops.ideal_seconds, objective, optimizer, plan.target.params, devices)
  progress = Progress(total_steps, start, writers.open(model_dir, tensorboard, say), say, ideal_seconds)
  progress.event(
    "started", total_steps=total_steps, parameters=plan.num_parameters, devices=mesh.size,
    device_kind=devices[0].device_kind,
  )  # fmt: skip
  run = hooks_lib.Run(start, total_steps, state, progress, checkpoints)
  run.saved = start if checkpoints.steps() else None
  report = hooks_lib.Report(log_every, skip_limit)
  evaluate = hooks_lib.Evaluate(report, evaluators, eval_every)
  profile = profiler_lib.Profile(profiler, model_dir, start, log_every, say)
  starving = hooks_lib.Starving(len(rows), reads)
  hooks = [report, starving, hooks_lib.Save(report, evaluate, checkpoint), evaluate, profile]
  with contextlib.ExitStack() as stack:
    stack.enter_context(progress)
    stack.callback(checkpoints.close)
    stack.enter_context(profile)
    stop = stack.enter_context(stop_requests())
    batches = stream.batches(start, rows)
    stack.callback(patience.close, batches)
    stack.enter_context(sharding.use(mesh, rules))

    evaluate.make_up(run)
    while run.step < total_steps and not stop.asked():
      began = time.monotonic()
      batch = patience.call(lambda: next(batches), f"step {run.step + 1}")
      if progress.device_is_idle() and run.step > start:
        progress.waited(time.monotonic() - began)
      watch.progress("step", f"step {run.step + 1}")
      placed = sharding.put_batch(batch, mesh, stream.pictures, rows)
      if progress.compiles(placed):
        watch.progress("compile", f"step {run.step + 1}")
      with progress.step(placed), jax.transfer_guard("disallow"):
        run.state, metrics = train_step(run.state, placed)
      run.step += 1
      progress.add(metrics)
      progress.throttle(ahead=2)
      checkpoints.check()
      for hook in hooks:
        hook(run)

    # A signal may come at a step that no checkpoint was due at.
    checkpoints.save(run.step, run.state)
    checkpoints.wait()
    finished = run.is_last and not evaluate.stopped
    progress.event("finished" if finished else "stopped")
  watch.progress("")

  # What a stream left out since this start is said once by it, and summed up here.
  for what, count in hosts.total("left out", getattr(stream, "lost", {})).items():
    say(f"left out: {count:,} {what}")
  message = (
    f"finished at step {run.step}"
    if finished
    else f"stopped by {stop.name} at step {run.step} of {total_steps}, all saved"
  )
  say(f"{message}; checkpoints in {checkpoints.directory}")
  return TrainResult(run.step, finished, message, run.metrics, run.state)


def _say(line: str) -> None:
  print(line, flush=True)
