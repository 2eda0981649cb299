"""Contrastive learning: B pictures with K captions each, every caption against every picture of the whole batch.

Zhai et al., "Sigmoid Loss for Language Image Pre-Training" (2023); Radford et al., "Learning Transferable Visual Models
From Natural Language Supervision" (2021) for InfoNCE. With K = 1 both equal transformers' losses.

Each device keeps its pictures, and the captions go round: in as many turns as there are devices every caption meets
every picture, and no device holds more similarities than those of its own pictures with one device's captions.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import gin
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from xmcap.errors import UsageError
from xmcap.models.dual import DualConfig, DualTower, Embeddings
from xmcap.models.t5 import T5Config
from xmcap.models.text_tower import TextConfig
from xmcap.models.vit import ViTConfig
from xmcap.training.objectives import Batch, Metrics
from xmcap.training.sharding import BATCH_AXES

LOSSES = ("sigmoid", "infonce")
_NEVER = -1e30  # a similarity that adds nothing to a sum of exponentials
_LOG_100 = math.log(100)


class Rows(NamedTuple):
  """What the losses need of B pictures and M captions, B or M rows of which may lie on each device.

  image float32 [B, E], text [M, E]; present bool [B] and [M], False for rows that fill up a batch; `same` uint32 [M]: a
  number that captions with the same pieces share. The captions of a picture stand together, K = M / B of them.
  """

  image: jax.Array
  image_present: jax.Array
  text: jax.Array
  text_present: jax.Array
  same: jax.Array


@gin.configurable
class ContrastiveObjective:
  """The agreement of pictures with their captions, against all others of the batch.

  Where a step is cut into microbatches, the pictures of each meet its own captions alone.

  Args:
    vit: of the image tower.
    text: of the text tower: @T5Config(), whose encoder it is, or @TextConfig().
    dual: of the space.
    kind: `sigmoid` or `infonce`.
    mask_equal: whether captions of other pictures that equal one of a picture's own are left out for it.
  """

  def __init__(
    self,
    vit: ViTConfig = gin.REQUIRED,
    text: T5Config | TextConfig = gin.REQUIRED,
    dual: DualConfig = gin.REQUIRED,
    kind: str = "sigmoid",
    mask_equal: bool = True,
  ):
    if kind not in LOSSES:
      raise UsageError(f"ContrastiveObjective.kind is {kind!r}: give {' or '.join(LOSSES)}")
    sigmoid = kind == "sigmoid"
    self.module = DualTower(
      vit,
      text,
      dual,
      log_scale=math.log(10) if sigmoid else math.log(1 / 0.07),
      bias=-10.0 if sigmoid else 0.0,
      max_log_scale=math.inf if sigmoid else _LOG_100,
    )
    self.losses = sigmoid_losses if sigmoid else infonce_losses
    self.mask_equal = mask_equal

  def init(self, rng: jax.Array, batch: Batch) -> Mapping[str, Any]:
    """Fresh variables: `params` and `params_axes`. Only the shapes of `batch` matter."""
    return self.module.init(rng, batch["image"], batch["target_tokens"])

  def loss(self, params: Any, batch: Batch, rng: jax.Array, deterministic: bool) -> tuple[jax.Array, Metrics]:
    """The loss of a batch.

    Args:
      batch: `image` uint8 [B, H, W, 3], `target_tokens` and `target_weights` [B, K, T]; a caption whose weights are all
        0 counts nowhere.

    Returns:
      The loss, float32 [], a mean over captions; and metrics: `similarity` (the mean cosine of a caption and its
      picture), `scale`, `bias`, `weight` (the number of captions).
    """
    tokens, present = batch["target_tokens"], jnp.any(batch["target_weights"] > 0, axis=-1)
    outputs = self.module.apply(
      {"params": params}, batch["image"], tokens, deterministic, rngs={"dropout": rng}
    )
    found = cast(Embeddings, outputs)
    rows = Rows(
      found.image,
      jnp.any(present, axis=1),
      found.text.reshape(-1, found.text.shape[-1]),
      present.reshape(-1),
      _hashes(tokens).reshape(-1),
    )
    losses = spread(self.losses, self.mask_equal)(rows, found.scale, found.bias)
    weight = jnp.sum(present.astype(jnp.float32))
    count = jnp.maximum(weight, 1e-9)
    own = jnp.einsum("be,bke->bk", found.image, found.text)
    metrics = {
      "similarity": jnp.sum(own * present) / count,
      "scale": found.scale,
      "bias": found.bias,
      "weight": weight,
    }
    return jnp.sum(losses) / count, metrics


def sigmoid_losses(
  rows: Rows, scale: jax.Array, bias: jax.Array, mask_equal: bool, axes: tuple[str, ...], devices: int
) -> jax.Array:
  """float32 [B]: of each picture, the sum over all captions of -log sigmoid(y (scale z_i z_j + bias)).

  y is 1 for a caption of the picture and -1 for one of another. The rows are those of this device, one of `devices`
  along the mesh's `axes`.
  """

  def meet(turn, sums, texts):
    text, present, same = texts
    own, counts = _pairs(rows, turn, present, same, mask_equal)
    logits = scale * (rows.image @ text.T) + bias
    losses = jax.nn.softplus(jnp.where(own, -logits, logits))
    return sums + jnp.sum(losses * counts, axis=1), texts

  sums, _ = _round(meet, 0 * rows.image[:, 0], (rows.text, rows.text_present, rows.same), axes, devices)
  return sums


def infonce_losses(
  rows: Rows, scale: jax.Array, bias: jax.Array, mask_equal: bool, axes: tuple[str, ...], devices: int
) -> jax.Array:
  """float32 [M]: of each caption, half of -log of the share of its picture, and half of its own share.

  From text to picture, the share is among all pictures. From picture to text, it is among this caption and those of
  other pictures: the picture's other captions are as right, and stay out of the sum. `bias` cancels out.
  """
  captions = len(rows.text) // len(rows.image)

  def meet(turn, others, texts):
    text, present, same, among_pictures = texts
    own, counts = _pairs(rows, turn, present, same, mask_equal)
    logits = jnp.where(counts, scale * (rows.image @ text.T), _NEVER)
    of_others = jax.nn.logsumexp(jnp.where(own, _NEVER, logits), axis=1)
    among_pictures = jnp.logaddexp(among_pictures, jax.nn.logsumexp(logits, axis=0))
    return jnp.logaddexp(others, of_others), (text, present, same, among_pictures)

  nothing = _NEVER + 0 * rows.text[:, 0]
  others, (*_, among_pictures) = _round(
    meet,
    _NEVER + 0 * rows.image[:, 0],
    (rows.text, rows.text_present, rows.same, nothing),
    axes,
    devices,
  )
  own = scale * jnp.sum(jnp.repeat(rows.image, captions, axis=0) * rows.text, axis=1)
  to_text = jnp.logaddexp(jnp.repeat(others, captions), own) - own
  return jnp.where(rows.text_present, (among_pictures - own + to_text) / 2, 0.0)


def spread(losses: Callable, mask_equal: bool) -> Callable[[Rows, jax.Array, jax.Array], jax.Array]:
  """The losses of rows that lie over the mesh that is set, `data` and `fsdp`; of all rows here where none is."""
  sizes = jax.sharding.get_abstract_mesh().shape
  axes = tuple(axis for axis in BATCH_AXES if axis in sizes)
  devices = math.prod(sizes[axis] for axis in axes)

  def of_device(rows: Rows, scale: jax.Array, bias: jax.Array) -> jax.Array:
    return losses(rows, scale, bias, mask_equal, axes, devices)

  if not axes:
    return of_device
  cut, whole = PartitionSpec(axes), PartitionSpec()
  return jax.shard_map(of_device, in_specs=(cut, whole, whole), out_specs=cut)


def _round(meet: Callable, stays: Any, travels: Any, axes: tuple[str, ...], devices: int) -> tuple[Any, Any]:
  """Calls `meet(turn, stays, travels)`, which gives both anew, once for each device; what travels comes home."""
  ring = [(device, (device + 1) % devices) for device in range(devices)]

  def turn(carried, number):
    stays, travels = meet(number, *carried)
    if devices > 1:
      travels = jax.tree.map(lambda x: lax.ppermute(x, axes, ring), travels)
    return (stays, travels), None

  # Similarities are computed again for the gradient, rather than kept for all turns.
  carried, _ = lax.scan(jax.checkpoint(turn), (stays, travels), jnp.arange(devices))
  return carried


def _pairs(
  rows: Rows, turn: jax.Array, present: jax.Array, same: jax.Array, mask_equal: bool
) -> tuple[jax.Array, jax.Array]:
  """Bool [B, M] each: whether a caption is the picture's own, and whether the pair counts."""
  captions = len(rows.text) // len(rows.image)
  picture = jnp.arange(len(rows.text)) // captions
  own = (picture[None] == jnp.arange(len(rows.image))[:, None]) & (turn == 0)
  counts = rows.image_present[:, None] & present[None]
  if mask_equal:
    known = rows.same.reshape(len(rows.image), captions)
    equal = jnp.any(known[:, :, None] == same[None, None], axis=1)
    counts &= own | ~equal
  return own, counts


def _hashes(tokens: jax.Array) -> jax.Array:
  """uint32 [...]: numbers that equal captions, int32 [..., T] with 0 at their ends, have in common whatever T is."""
  places = jnp.arange(1, tokens.shape[-1] + 1, dtype=jnp.uint32)
  mixed = (tokens.astype(jnp.uint32) * jnp.uint32(2654435761)) ^ (places * jnp.uint32(2246822519))
  mixed = (mixed ^ (mixed >> 15)) * jnp.uint32(3266489917)
  return jnp.sum(jnp.where(tokens != 0, mixed, 0), axis=-1, dtype=jnp.uint32)
