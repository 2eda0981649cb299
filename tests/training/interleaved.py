"""A mesh on which the devices of processes alternate, as those of a TPU slice's hosts do; for runs by gin.

A 2 x 2 x 1 host of a v4 slice holds two and two chips along an axis: of two such hosts the first has the rows
[0, 1, 4, 5]. So the devices come here: half of each process's, then the other half of each.
"""

import dataclasses

import gin
import jax

from xmcap.training.sharding import Partitioning


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Interleaved(Partitioning):
  """`Partitioning` over the devices in that order."""

  def mesh(self, devices=None):
    devices = jax.devices() if devices is None else devices
    half = max(1, len(devices) // jax.process_count() // 2)
    by_process = {}
    for device in devices:
      by_process.setdefault(device.process_index, []).append(device)
    halves = [one[:half] for one in by_process.values()] + [one[half:] for one in by_process.values()]
    return super().mesh([device for part in halves for device in part])
