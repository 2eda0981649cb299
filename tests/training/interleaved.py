"""What runs of several processes are given by gin: a mesh on which their devices alternate, as those of a TPU slice's
hosts do, and objectives that compile at once.

A 2 x 2 x 1 host of a v4 slice holds two and two chips along an axis: of two such hosts the first has the rows
[0, 1, 4, 5]. So the devices come here: half of each process's, then the other half of each.
"""

import dataclasses

import gin
import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen import partitioning as nn_partitioning

from tests.training import late
from tests.training.toy import CLASSES, HIDDEN, WIDTH, ToyObjective
from xmcap.families.dual.model import Embeddings
from xmcap.families.dual.objective import ContrastiveObjective, infonce_losses, sigmoid_losses
from xmcap.training.deferred import Deferred
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


@gin.configurable
class LateNorm:
  """The sum of the parameters' sizes, as rows that are computed while the run trains."""

  def __init__(self):
    self._norm = jax.jit(lambda params: sum(jnp.sum(jnp.abs(leaf)) for leaf in jax.tree.leaves(params)))

  def run(self, params, step):
    yield Deferred(late.rows, ({"": float(self._norm(params))},))


class ToyTowers(nn.Module):
  """Two towers of a layer each, as `DualTower` is called; captions are sums of embedded tokens."""

  scale: float

  @nn.compact
  def __call__(self, image, tokens, deterministic=True):
    init = nn.initializers.normal(0.3)
    wi = nn_partitioning.param_with_axes("wi", init, (WIDTH, HIDDEN), axes=("embed", "mlp"))
    table = nn_partitioning.param_with_axes("table", init, (64, HIDDEN), axes=("vocab", "mlp"))
    scale = nn_partitioning.param_with_axes("scale", nn.initializers.constant(self.scale), (), axes=())
    bias = nn_partitioning.param_with_axes("bias", nn.initializers.constant(-1.0), (), axes=())
    pictures = jnp.mean(image.reshape(len(image), WIDTH, -1) / 255, -1) @ wi
    texts = jnp.sum(jax.nn.one_hot(tokens % 64, 64), axis=2) @ table
    pictures, texts = (x / jnp.linalg.norm(x, axis=-1, keepdims=True) for x in (pictures, texts))
    return Embeddings(pictures, texts, scale, bias)


@gin.configurable
class DualToy(ContrastiveObjective):
  """The contrastive objective with towers that compile at once."""

  def __init__(self, kind):
    self.module = ToyTowers(10.0)
    self.losses = {"sigmoid": sigmoid_losses, "infonce": infonce_losses}[kind]
    self.mask_equal = True
