"""The training loop for every objective, top to bottom: mesh, state, step, loop."""

import contextlib
import functools
import time
from collections.abc import Iterator, Sequence
from typing import Any

import gin
import jax

from xmcap import configuration, xla_flags
from xmcap.errors import RestartError, UsageError, one_line
from xmcap.training import sharding
from xmcap.training.checkpoints.settings import of_run as run_settings
from xmcap.training.checkpoints.start import Pretrained, starting_state
from xmcap.training.checkpoints.write import CheckpointPolicy, Checkpoints
from xmcap.training.compilation_cache import CompilationCache
from xmcap.training.device_faults import DeviceFaults
from xmcap.training.feed import Feed
from xmcap.training.hooks import hooks as make_hooks
from xmcap.training.hosts import watch
from xmcap.training.hosts.join import total as total_over_hosts
from xmcap.training.hosts.stopping import stop_requests
from xmcap.training.metrics import TrainingProgress
from xmcap.training.optimizer import Optimizer
from xmcap.training.reporting import flops, metrics_file
from xmcap.training.reporting.goodput import Goodput
from xmcap.training.reporting.writers import Writers
from xmcap.training.run import Hook, Run, Start
from xmcap.training.schedule import says_of_more_steps
from xmcap.training.state import plan_state
from xmcap.training.step import make_train_step


@gin.configurable(denylist=["start"])
def train(
  model_dir: str = gin.REQUIRED,
  objective: Any = gin.REQUIRED,
  stream: Any = gin.REQUIRED,
  total_steps: int = gin.REQUIRED,
  optimizer: Optimizer | None = None,
  checkpoint: CheckpointPolicy | None = None,
  partitioning: sharding.Partitioning | None = None,
  initial_checkpoint: str | None = None,
  pretrained: Pretrained = (),
  seed: int = 0,
  microbatches: int = 1,
  writers: Writers | None = None,
  hooks: Sequence[Hook] | None = None,
  rng_impl: str | None = None,
  data_timeout: float = 900,
  compilation_cache: CompilationCache | None = None,
  start: Start | None = None,
) -> Run:
  """Trains a model, and resumes by itself: however a run ended, the same call continues from the newest checkpoint.

  Returns the run as it ended, with all its steps saved.

  Args:
    model_dir: folder for checkpoints, `metrics.jsonl`, TensorBoard's files and traces.
    objective: `init(rng, batch) -> {"params", "params_axes"}` and `loss(params, batch, rng, deterministic) ->
      (loss [], metrics)`, see `objectives.py`. Optional: `check(params, stream)`, called before the first step.
    stream: has `num_images` (per batch), `batch(step, rows)` and `batches(start_step, rows)`. A batch is a dict of
      numpy arrays [N, ...] with the N rows asked for, and is a function of the step. Optional: `lost`, reason -> count
      of examples left out, printed at the end; `skipped`, see `SkippedImages`; `signature()`, the settings that decide
      which example is at a position, name -> JSON value.
    total_steps: length of the run, counted from step 0.
    optimizer, checkpoint, partitioning, writers, hooks, compilation_cache: None: as configured in gin.
    initial_checkpoint, pretrained: see `starting_state`.
    seed, microbatches, rng_impl: see `step.make_train_step`; the seed also initializes the parameters.
    data_timeout: seconds to wait for a batch before the run exits, to be restarted; 0: no limit. Longer than
      `ObjectStore.seconds`, whose error says what does not answer.
    start: what belongs to this start alone; None: its defaults.

  Raises:
    UsageError: the configuration is inconsistent.
    XmcapError: the folder cannot be written, a checkpoint does not fit, the loss stays non-finite, or a device fails
      in the first step, or twice at the same one.
    RestartError: the data source stalls, a device fails, or another process of the run is lost.
  """
  start = start or Start()
  goodput = Goodput(start.launched)
  # Made here because default arguments are evaluated before gin has read its files.
  optimizer = optimizer or Optimizer()
  checkpoint = checkpoint or CheckpointPolicy()
  partitioning = partitioning or sharding.Partitioning()
  writers = writers or Writers()
  hooks = make_hooks() if hooks is None else hooks
  say = start.say or (functools.partial(print, flush=True) if jax.process_index() == 0 else lambda line: None)
  if total_steps < 1 or microbatches < 1:
    raise UsageError("train: total_steps and microbatches must be at least 1")
  jax.eval_shape(lambda: optimizer.schedule(0, total_steps))  # refuses phases that are longer than the run
  if stream.num_images % microbatches:
    raise UsageError(
      f"train: a batch of {stream.num_images} pictures cannot be split into {microbatches} equal microbatches: change "
      "one of them"
    )
  watch.progress("start")
  checkpoints = Checkpoints(model_dir, checkpoint, run_settings(stream))
  compilation_cache = compilation_cache or CompilationCache()
  compilation_cache.open(model_dir, say)

  # ---- mesh --------------------------------------------------------------------------------------

  mesh, rules = partitioning.mesh(), partitioning.logical_rules()
  feed = Feed(stream, mesh, data_timeout, model_dir)

  # ---- state: shapes and shardings, then values --------------------------------------------------

  plan = plan_state(objective, optimizer, feed.sample(), mesh, rules, seed, rng_impl)
  watch.progress("restore", "the state that the run begins with")
  goodput.phase("restoring")
  state, origin = starting_state(
    checkpoints,
    plan.create,
    plan.target,
    initial_checkpoint,
    pretrained,
    start.from_scratch,
    start.other_data,
    say,
  )
  first = int(state.step)
  goodput.phase("starting")
  if jax.process_index() == 0:  # which writes the metrics
    goodput.resume(model_dir, first, say)
    with contextlib.suppress(Exception):  # `resume` has reported a file that cannot be read
      before = metrics_file.total_steps(metrics_file.read(model_dir)) if first else None
      if line := says_of_more_steps(optimizer.schedule, first, before, total_steps):
        say(line)
  if first > total_steps:
    raise UsageError(
      f"train.total_steps (TOTAL_STEPS) is {total_steps:,}, but the run is already at step {first:,} ({origin}): give "
      "more steps, or another MODEL_DIR"
    )
  if hasattr(objective, "check"):
    with sharding.use(mesh, rules):
      objective.check(state.params, stream)
  start.begun(first)
  say(f"{plan.num_parameters:,} parameters on {sharding.described(mesh)}; {origin}")

  # ---- step --------------------------------------------------------------------------------------

  train_step = plan.jit(
    make_train_step(objective, optimizer, total_steps, seed, microbatches, rng_impl, plan.shardings.params)
  )

  # ---- loop --------------------------------------------------------------------------------------

  devices = mesh.devices.flatten().tolist()
  ideal_seconds = functools.partial(flops.ideal_seconds, objective, optimizer, plan.target.params, devices)
  lengths = getattr(stream, "target_lengths", ())
  progress = TrainingProgress(
    total_steps, first, writers.open(model_dir, say), say, ideal_seconds, goodput, lengths
  )
  progress.event(
    "started", total_steps=total_steps, parameters=plan.num_parameters, devices=mesh.size,
    device_kind=devices[0].device_kind, xla_flags=" ".join(xla_flags.in_use().values()),
  )  # fmt: skip
  # Markdown shows lines indented by four spaces verbatim.
  explained = "\n".join(f"    {line}" for line in configuration.explain().splitlines())
  progress.show(first, {"configuration": explained}, {})
  run = Run(model_dir, first, total_steps, state, feed, progress, checkpoints, say)
  device_faults = DeviceFaults(model_dir, progress)
  with contextlib.ExitStack() as stack:
    stack.enter_context(device_faults)
    stack.enter_context(progress)
    stack.callback(compilation_cache.close)
    stack.callback(checkpoints.close)
    stack.enter_context(sharding.use(mesh, rules))
    stop = stack.enter_context(stop_requests())
    stack.callback(feed.close)
    for hook in hooks:
      stack.callback(hook.end)
      hook.begin(run)
    feed.begin(first)  # last, as a hook measures how fast this host reads
    goodput.phase("steps")

    while run.step < total_steps and not stop.asked():
      with _saved_if_it_must_restart(run, hooks):
        batch = feed.next(run.step + 1)
      with progress.step(batch, feed.seconds_waited), jax.transfer_guard("disallow"):
        run.state, metrics = train_step(run.state, batch)
      run.step += 1
      progress.add(metrics)
      device_faults.check()
      checkpoints.check()
      for hook in hooks:
        hook(run)

    # A signal may come at a step at which no checkpoint was due.
    began = time.monotonic()
    checkpoints.save(run.step, run.state)
    checkpoints.wait()
    progress.beside("saving", time.monotonic() - began)
    for hook in hooks:
      hook.finish(run)
    run.finished = run.is_last and not run.evaluation_stopped
    if run.finished:
      device_faults.forget()
    progress.event("finished" if run.finished else "stopped")
  watch.progress("")

  # Each process counts the examples that its stream left out since this start.
  for kind, count in total_over_hosts("left out", getattr(stream, "lost", {})).items():
    say(f"left out: {count:,} {kind}")
  if run.finished:
    run.message = f"finished at step {run.step}"
  else:
    run.message = f"stopped by {stop.name} at step {run.step} of {total_steps}, everything is saved"
  say(f"{run.message}; checkpoints in {checkpoints.directory}")
  return run


@contextlib.contextmanager
def _saved_if_it_must_restart(run: Run, hooks: Sequence[Hook]) -> Iterator[None]:
  """Saves the state before a RestartError, such as of a bucket that does not answer, ends the run.

  Only if there is one process: the others may be in a step, and do not save.
  """
  try:
    yield
  except RestartError:
    if jax.process_count() == 1:
      try:
        run.checkpoints.save(run.step, run.state)
        run.checkpoints.wait()
        for hook in hooks:
          hook.finish(run)
      except Exception as failure:  # where the checkpoints go may not answer either
        run.say(f"step {run.step} was not saved as a whole: {one_line(failure)}")
    raise
