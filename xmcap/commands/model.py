"""The commands that run a model: train, eval, caption."""

import contextlib
import functools

from xmcap import platforms, quiet
from xmcap.commands import base
from xmcap.errors import RestartError, UsageError
from xmcap.storage import outputs

_LOCK_SECONDS = 120  # for which NFS may keep the lock of a host that has died, with a margin


def add(commands) -> None:
  """Declares the commands."""
  train = base.add_command(
    commands, "train", _train, "train a model as gin files say", "Started again, a run goes on where it was."
  )
  check = "check data, vocabulary, weights, folder, one step and the evaluators; train nothing"
  scratch = "begin anew where none of the run's checkpoints can be read (MODEL_DIR/damaged holds them)"
  data = "go on from a checkpoint that was trained on other data: another batch size, seed, mixture, ..."
  base.flag(train, "--dry_run", check)
  base.flag(train, "--from_scratch", scratch)
  base.flag(train, "--other_data", data)
  _add_hosts(train)
  base.add_gin(train)

  evaluate = base.add_command(
    commands, "eval", _eval, "decode a split with a trained model and score it in each language"
  )
  folder = "the folder that a training run wrote"
  base.text(evaluate, "--model_dir", "DIR", folder, required=True)
  _add_hosts(evaluate)
  base.add_gin(evaluate)

  caption = base.add_command(commands, "caption", _caption, "caption pictures in the languages asked for")
  base.text(caption, "--model_dir", "DIR", folder, required=True)
  base.text(caption, "--languages", "CODES", "codes such as en,th,ar; all; trained", "en")
  base.flag(caption, "--json", "print predictions as JSONL")
  base.number(caption, "--step", "the checkpoint to use; default: the best or newest")
  base.text(caption, "images", "IMAGE", "JPEG or PNG files", nargs="+")
  base.add_gin(caption)


def _add_hosts(command) -> None:
  group = command.add_argument_group("several processes", "TPU VMs, GKE and SLURM need none of these.")
  base.text(group, "--coordinator_address", "HOST:PORT", "of process 0, reached by all")
  base.text(group, "--num_processes", "N", "processes of the run", type=int)
  base.text(group, "--process_id", "I", "which of them this is, from 0", type=int)


def _joined(arguments, training: bool):
  from xmcap.training.hosts import join as hosts
  from xmcap.training.hosts import watch

  limits = watch.HangLimits() if training else None
  process = (arguments.coordinator_address, arguments.num_processes, arguments.process_id)
  return hosts.joined(*process, preemption=training, limits=limits)


def _train(arguments) -> None:
  if not arguments.gin_file:
    raise UsageError(
      "xmcap train needs gin files, such as --gin_file=models/tiny.gin --gin_file=data/emoji36.gin"
      " --gin_file=runs/train.gin"
    )
  from xmcap import configuration

  platforms.take_gpu()
  if not base.configure(arguments):
    return
  allowed = {"from_scratch": arguments.from_scratch, "other_data": arguments.other_data}
  if arguments.dry_run:
    from xmcap.dry_run import run as dry_run

    dry_run.dry_run(**allowed)
    return
  import jax

  from xmcap.evaluation import model_dir
  from xmcap.training import loop

  with _joined(arguments, training=True), contextlib.ExitStack() as stack:
    # The first process locks the run's folder for all.
    if jax.process_index() == 0:
      folder = configuration.macro("MODEL_DIR")
      stack.enter_context(outputs.held(folder, arguments.prog, "MODEL_DIR", lease=_LOCK_SECONDS))
    model_dir.check_model_dir()
    result = loop.train(begun=model_dir.write_model_dir, **allowed)
  if not result.finished:
    if "SIGINT" in result.message:
      raise KeyboardInterrupt
    raise RestartError(result.message)


def _parse_folder(*arguments) -> None:
  from xmcap.evaluation import model_dir  # takes seconds, which an error in the options should not wait for

  model_dir.parse(*arguments)


def _eval(arguments) -> None:
  platforms.take_gpu()
  if not base.configure(arguments, functools.partial(_parse_folder, arguments.model_dir), ["runs/eval.gin"]):
    return
  from xmcap.evaluation import model_dir

  with _joined(arguments, training=False):
    quiet.die_plainly()
    model_dir.evaluate()


def _caption(arguments) -> None:
  from xmcap import languages

  codes = languages.parse(arguments.languages)
  platforms.take_gpu()
  base.check_macros(arguments)
  from xmcap.evaluation import model_dir

  # Pictures first, as an error in one should not wait for the model.
  contents = model_dir.read_pictures(arguments.images)
  if not base.configure(arguments, functools.partial(model_dir.parse, arguments.model_dir)):
    return
  model_dir.caption_files(arguments.model_dir, contents, codes, arguments.json, arguments.step)
