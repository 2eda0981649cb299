"""All that is used of jax beyond its public API, in one place; setup.py bounds the jax that it was tried with.

- The client of the coordination service: keys, values and barriers between processes that work without a device, and
  while a collective hangs. The public API has collectives of the devices only.
- The search for a cluster: `jax.distributed.initialize` finds the place of a process and joins the others in one call,
  and the roll call needs the place before.

`tests/training/hosts/test_jax_internals.py` fails where a release of jax moves them.
"""

from collections.abc import Sequence
from typing import Any

import jax

from xmcap.errors import XmcapError


def coordination_client() -> Any:
  """The client of the coordination service that `jax.distributed.initialize` connected; None before.

  Raises:
    XmcapError: this jax has it in another place.
  """
  try:
    from jax._src import distributed

    return distributed.global_state.client
  except (ImportError, AttributeError) as error:
    raise _moved("jax._src.distributed.global_state.client") from error


def find_cluster(seconds: int) -> tuple[str | None, int | None, int | None, Sequence[int] | None]:
  """(address of process 0, number of processes, index of this one, its local devices), as the cluster that this machine
  is part of says; all None on any other machine.

  Args:
    seconds: to wait for the name of the first host to become known.

  Raises:
    XmcapError: this jax has it in another place.
    Exception: of any kind, where the cluster's variables are not what jax expects.
  """
  try:
    from jax._src.clusters import ClusterEnv

    find = ClusterEnv.auto_detect_unset_distributed_params
  except (ImportError, AttributeError) as error:
    raise _moved("jax._src.clusters.ClusterEnv.auto_detect_unset_distributed_params") from error
  return find(None, None, None, None, None, seconds)


def _moved(name: str) -> XmcapError:
  return XmcapError(f"jax {jax.__version__} has no {name}: install a jax that setup.py of xmcap names")
