"""The commands that run a model: train, eval."""

import contextlib

from xmcap import platforms, quiet
from xmcap.commands import base, hosts, measure
from xmcap.errors import RestartError, UsageError
from xmcap.files import buckets, outputs

_LOCK_SECONDS = 120  # NFS may keep the lock of a dead host for somewhat less


def add(commands) -> None:
  """Declares the commands."""
  train = base.add_command(
    commands,
    "train",
    _train,
    "train a model as configured in gin files",
    "The same command resumes a run.",
    extra="train",
  )
  check = "check data, vocabulary, weights, folder, one step and the evaluators, without training"
  scratch = "start over if none of the run's checkpoints can be read (they are in MODEL_DIR/damaged)"
  data = "resume from a checkpoint that was trained on other data: another batch size, seed, mixture, ..."
  base.flag(train, "--dry_run", check)
  measure.add(train)
  base.flag(train, "--from_scratch", scratch)
  base.flag(train, "--other_data", data)
  hosts.add(train)
  base.add_gin(train)

  evaluate = base.add_command(
    commands,
    "eval",
    _eval,
    "caption a split with a trained model and score the captions in each language",
    extra="train",
  )
  base.add_model(evaluate)
  base.add_raw(evaluate)
  hosts.add(evaluate)
  base.add_gin(evaluate)


def _train(arguments) -> None:
  if not arguments.gin_file:
    raise UsageError(
      "xmcap train needs gin files, such as --gin_file=models/tiny.gin --gin_file=data/emoji36.gin"
      " --gin_file=runs/train.gin"
    )
  from xmcap import configuration

  platforms.choose()
  if measure.several(arguments):
    measure.compare(arguments)
    return
  measure.use_xla_flags(arguments)
  if not base.configure(arguments):
    return
  if arguments.measure:
    measure.here(arguments)
    return
  allowed = {"from_scratch": arguments.from_scratch, "other_data": arguments.other_data}
  if arguments.dry_run:
    from xmcap.dry_run import run as dry_run

    dry_run.dry_run(**allowed)
    return
  import jax

  from xmcap.evaluation import model_dir
  from xmcap.files import addresses
  from xmcap.training import loop
  from xmcap.training.reporting import goodput
  from xmcap.training.run import Start

  with hosts.joined(arguments, training=True):
    lock = contextlib.nullcontext()
    if jax.process_index() == 0:  # for all processes
      folder = configuration.macro("MODEL_DIR")
      if addresses.is_remote(folder):
        buckets.check_writable(folder)
      lock = outputs.held(folder, arguments.prog, "MODEL_DIR", lease=_LOCK_SECONDS, bucket=True)
    with lock:
      model_dir.check_model_dir()
      result = loop.train(
        start=Start(**allowed, begun=model_dir.write_model_dir, launched=goodput.process_start())
      )
  if not result.finished:
    if "SIGINT" in result.message:
      raise KeyboardInterrupt
    raise RestartError(result.message)


def _eval(arguments) -> None:
  platforms.choose()
  if not base.configure(arguments, arguments.model_dir, ["runs/eval.gin"]):
    return
  from xmcap.evaluation import model_dir

  with hosts.joined(arguments, training=False):
    quiet.die_plainly()
    # What is bound in gin is used unless it is given here.
    options = {"step": arguments.step, "weights": arguments.weights}
    model_dir.evaluate(**{name: value for name, value in options.items() if value is not None})
