"""Options for commands that run in several processes."""

import contextlib
from collections.abc import Iterator

from xmcap.commands import base
from xmcap.files import outputs


def add(command) -> None:
  """Adds the options that identify this process."""
  group = command.add_argument_group(
    "several processes", "Detected on TPU VMs, GKE, SLURM and more: docs/pods.md."
  )
  base.text(group, "--coordinator_address", "HOST:PORT", "address of process 0 that all can reach")
  base.text(group, "--num_processes", "N", "number of processes", type=int)
  base.text(group, "--process_id", "I", "number of this process, from 0", type=int)


def joined(arguments, training: bool) -> contextlib.AbstractContextManager[None]:
  """Joins the processes of the run; enter it before any use of jax's devices."""
  from xmcap.training.hosts import join, watch

  limits = watch.HangLimits() if training else None
  process = (arguments.coordinator_address, arguments.num_processes, arguments.process_id)
  return join.joined(*process, preemption=training, limits=limits)


@contextlib.contextmanager
def writing(arguments, folder: bool = True) -> Iterator[bool]:
  """Joins the processes of a command; the first locks --out for all. Yields whether this process is the first."""
  import jax

  with joined(arguments, training=False):
    first = jax.process_index() == 0
    lock = outputs.held(arguments.out, arguments.prog, folder=folder) if first else contextlib.nullcontext()
    with lock:
      yield first
