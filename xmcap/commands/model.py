"""The commands that run a model: train, eval."""

import contextlib

from xmcap import extras, platforms, quiet
from xmcap.commands import base, captioners, eval_captions, hosts, measure
from xmcap.errors import RestartError, UsageError
from xmcap.files import buckets, outputs

_WITHOUT_WEIGHTS = ("endpoint", "captioner", "predictions")
_OF_WEIGHTS = ("step", "weights", "coordinator_address", "num_processes", "process_id")
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
    "caption a split and score the captions in each language",
    "With --model_dir it needs the extra train, with --endpoint or --captioner the extra endpoint (docs/install.md).",
  )
  base.add_model(evaluate, required=False)
  captioners.add_endpoint(evaluate.add_argument_group(captioners.TITLE))
  others = evaluate.add_argument_group("other captions")
  captioners.add_function(others)
  files = (
    "captions that are there, as for xmcap score; of several evaluators, NAME=FILE for the one of this name"
  )
  base.text(others, "--predictions", "FILE", files, **base.SEVERAL)
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
  if sum(bool(getattr(arguments, name)) for name in ("model_dir", *_WITHOUT_WEIGHTS)) != 1:
    raise UsageError(
      "give --model_dir of a trained model, --endpoint and --model of any other, --captioner of a function, or"
      " --predictions (see xmcap eval --help)"
    )
  default = ["runs/eval.gin"]
  if not arguments.model_dir:
    base.refuse(arguments, _OF_WEIGHTS, "is of a trained model, and of nothing else: leave it out")
    if arguments.predictions:
      base.refuse(arguments, captioners.OF_ENDPOINT, "is of an endpoint, and not of a file: leave it out")
    eval_captions.run(arguments, default)
    return
  base.refuse(
    arguments, captioners.OF_ENDPOINT, "is of an endpoint, and not of a trained model: leave it out"
  )
  extras.check(f"{arguments.prog} --model_dir", "train")
  platforms.choose()
  if not base.configure(arguments, arguments.model_dir, default):
    return
  from xmcap.evaluation import model_dir

  with hosts.joined(arguments, training=False):
    quiet.die_plainly()
    # What is bound in gin is used unless it is given here.
    options = {"step": arguments.step, "weights": arguments.weights}
    model_dir.evaluate(**{name: value for name, value in options.items() if value is not None})
