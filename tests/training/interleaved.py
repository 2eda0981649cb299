"""What runs of several processes are given by gin: a mesh on which their devices alternate, as those of a TPU slice's
hosts do, and an objective that compiles at once.

A 2 x 2 x 1 host of a v4 slice holds two and two chips along an axis: of two such hosts the first has the rows
[0, 1, 4, 5]. So the devices come here: half of each process's, then the other half of each.
"""

import dataclasses

import gin
import jax
import jax.numpy as jnp

from tests.training.toy import CLASSES, WIDTH, ToyObjective
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


@gin.configurable
class CaptionToy(ToyObjective):
  """The toy on the batches of a captioner: every picture, caption and weight counts."""

  def init(self, rng, batch):
    return super().init(rng, self._rows(batch))

  def loss(self, params, batch, rng, deterministic):
    return super().loss(params, self._rows(batch), rng, deterministic)

  def _rows(self, batch):
    image = batch["image"]
    pieces = sum(jnp.sum(batch[name], (1, 2)) for name in ("prompt_tokens", "target_tokens"))
    return {
      "x": jnp.mean(image.reshape(len(image), WIDTH, -1) / 255, -1),
      "y": pieces % CLASSES,
      "w": jnp.sum(batch["target_weights"], (1, 2)),
    }
