"""The options by which a command runs as one of several processes."""

import contextlib

from xmcap.commands import base


def add(command) -> None:
  """Adds the options that say which process of how many this is."""
  group = command.add_argument_group("several processes", "TPU VMs, GKE and SLURM need none of these.")
  base.text(group, "--coordinator_address", "HOST:PORT", "of process 0, reached by all")
  base.text(group, "--num_processes", "N", "processes of the run", type=int)
  base.text(group, "--process_id", "I", "which of them this is, from 0", type=int)


def joined(arguments, training: bool) -> contextlib.AbstractContextManager[None]:
  """Joins the processes of the run; enter it before any use of jax's devices."""
  from xmcap.training.hosts import join, watch

  limits = watch.HangLimits() if training else None
  process = (arguments.coordinator_address, arguments.num_processes, arguments.process_id)
  return join.joined(*process, preemption=training, limits=limits)
