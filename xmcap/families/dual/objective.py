"""Contrastive learning: B images with K captions each, every caption against every image of the global batch.

Zhai et al., "Sigmoid Loss for Language Image Pre-Training" (2023); Radford et al., "Learning Transferable Visual Models
From Natural Language Supervision" (2021) for InfoNCE. With K = 1 both equal transformers' losses.

Each device keeps its images and passes its captions around a ring. After as many turns as there are devices, every
caption has met every image. A device only ever holds the similarities of its images with one device's captions.
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
from xmcap.families.dual.model import DualConfig, DualTower, Embeddings
from xmcap.families.dual.text_tower import TextConfig
from xmcap.models.parts import ImageConfig
from xmcap.models.t5 import T5Config
from xmcap.training.objectives import Batch, Metrics
from xmcap.training.sharding import BATCH_AXES

LOSSES = ("sigmoid", "infonce")
_NEVER = -1e30  # a similarity that adds nothing to a sum of exponentials
_LOG_100 = math.log(100)


class LossInputs(NamedTuple):
  """The inputs of the losses: B images and M = B K captions, either of the whole batch or of one device.

  The K captions of an image are adjacent.

  Attributes:
    image, text: embeddings, float32 [B, E] and [M, E].
    image_present, text_present: bool [B] and [M], False for padding.
    same: uint32 [M], a hash of the caption's tokens: equal captions have equal hashes.
  """

  image: jax.Array
  image_present: jax.Array
  text: jax.Array
  text_present: jax.Array
  same: jax.Array


@gin.configurable
class ContrastiveObjective:
  """Contrasts each image's captions with all other captions in the batch.

  With microbatches, the contrast is only within a microbatch.

  Args:
    vit: configuration of the image tower.
    text: configuration of the text tower: @T5Config(), of which the encoder is used, or @TextConfig().
    dual: configuration of the embedding space.
    kind: `sigmoid` or `infonce`.
    mask_equal: whether an image ignores captions of other images that are equal to one of its own.
  """

  def __init__(
    self,
    vit: ImageConfig = gin.REQUIRED,
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
      batch: `image` uint8 [B, H, W, 3], `target_tokens` and `target_weights` [B, K, T]; captions whose weights are all
        0 are padding.

    Returns:
      The loss, float32 [], a mean over captions; and the metrics `similarity` (mean cosine of a caption and its
      image), `scale`, `bias` and `weight` (number of captions).
    """
    tokens, present = batch["target_tokens"], jnp.any(batch["target_weights"] > 0, axis=-1)
    outputs = self.module.apply(
      {"params": params}, batch["image"], tokens, deterministic, rngs={"dropout": rng}
    )
    embeddings = cast(Embeddings, outputs)
    rows = LossInputs(
      embeddings.image,
      jnp.any(present, axis=1),
      embeddings.text.reshape(-1, embeddings.text.shape[-1]),
      present.reshape(-1),
      _hashes(tokens).reshape(-1),
    )
    losses = spread(self.losses, self.mask_equal)(rows, embeddings.scale, embeddings.bias)
    weight = jnp.sum(present.astype(jnp.float32))
    count = jnp.maximum(weight, 1e-9)
    own = jnp.einsum("be,bke->bk", embeddings.image, embeddings.text)
    metrics = {
      "similarity": jnp.sum(own * present) / count,
      "scale": embeddings.scale,
      "bias": embeddings.bias,
      "weight": weight,
    }
    return jnp.sum(losses) / count, metrics


def sigmoid_losses(
  rows: LossInputs, scale: jax.Array, bias: jax.Array, mask_equal: bool, axes: tuple[str, ...], devices: int
) -> jax.Array:
  """The sigmoid loss of each image, float32 [B]: the sum over all captions of -log sigmoid(y (scale z_i z_j + bias)).

  y is 1 for the image's own captions and -1 for all others. `rows` are those of this device, one of `devices` along
  the mesh's `axes`.
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
  rows: LossInputs, scale: jax.Array, bias: jax.Array, mask_equal: bool, axes: tuple[str, ...], devices: int
) -> jax.Array:
  """The InfoNCE loss of each caption, float32 [M]: the mean of both directions.

  From text to image, the softmax is over all images. From image to text, it is over this caption and those of
  other images: the image's other captions are right too, so they are left out of the sum. `bias` cancels out.
  """
  captions = len(rows.text) // len(rows.image)

  def meet(turn, others, texts):
    text, present, same, among_images = texts
    own, counts = _pairs(rows, turn, present, same, mask_equal)
    logits = jnp.where(counts, scale * (rows.image @ text.T), _NEVER)
    of_others = jax.nn.logsumexp(jnp.where(own, _NEVER, logits), axis=1)
    among_images = jnp.logaddexp(among_images, jax.nn.logsumexp(logits, axis=0))
    return jnp.logaddexp(others, of_others), (text, present, same, among_images)

  nothing = _NEVER + 0 * rows.text[:, 0]
  others, (*_, among_images) = _round(
    meet,
    _NEVER + 0 * rows.image[:, 0],
    (rows.text, rows.text_present, rows.same, nothing),
    axes,
    devices,
  )
  own = scale * jnp.sum(jnp.repeat(rows.image, captions, axis=0) * rows.text, axis=1)
  to_text = jnp.logaddexp(jnp.repeat(others, captions), own) - own
  return jnp.where(rows.text_present, (among_images - own + to_text) / 2, 0.0)


def one_way_losses(
  rows: LossInputs, scale: jax.Array, bias: jax.Array, mask_equal: bool, axes: tuple[str, ...], devices: int
) -> jax.Array:
  """InfoNCE from `image` to `text` alone, one of each: float32 [B], the softmax over all texts. `bias` cancels out."""

  def meet(turn, total, texts):
    text, present, same = texts
    _, counts = _pairs(rows, turn, present, same, mask_equal)
    logits = jnp.where(counts, scale * (rows.image @ text.T), _NEVER)
    return jnp.logaddexp(total, jax.nn.logsumexp(logits, axis=1)), texts

  start = _NEVER + 0 * rows.image[:, 0]
  total, _ = _round(meet, start, (rows.text, rows.text_present, rows.same), axes, devices)
  own = scale * jnp.sum(rows.image * rows.text, axis=1)
  return jnp.where(rows.image_present, total - own, 0.0)


def spread(losses: Callable, mask_equal: bool) -> Callable[[LossInputs, jax.Array, jax.Array], jax.Array]:
  """Maps `losses` over the current mesh, with rows sharded over `data` and `fsdp`; without a mesh, calls it as is."""
  sizes = jax.sharding.get_abstract_mesh().shape
  axes = tuple(axis for axis in BATCH_AXES if axis in sizes)
  devices = math.prod(sizes[axis] for axis in axes)

  def of_device(rows: LossInputs, scale: jax.Array, bias: jax.Array) -> jax.Array:
    return losses(rows, scale, bias, mask_equal, axes, devices)

  if not axes:
    return of_device
  cut, whole = PartitionSpec(axes), PartitionSpec()
  return jax.shard_map(of_device, in_specs=(cut, whole, whole), out_specs=cut)


def _round(meet: Callable, stays: Any, travels: Any, axes: tuple[str, ...], devices: int) -> tuple[Any, Any]:
  """Calls `(stays, travels) = meet(turn, stays, travels)` once per device, passing `travels` on around the ring."""
  ring = [(device, (device + 1) % devices) for device in range(devices)]

  def turn(carried, number):
    stays, travels = meet(number, *carried)
    if devices > 1:
      travels = jax.tree.map(lambda x: lax.ppermute(x, axes, ring), travels)
    return (stays, travels), None

  # The gradient recomputes the similarities; storing them for all turns would take too much memory.
  carried, _ = lax.scan(jax.checkpoint(turn), (stays, travels), jnp.arange(devices))
  return carried


def _pairs(
  rows: LossInputs, turn: jax.Array, present: jax.Array, same: jax.Array, mask_equal: bool
) -> tuple[jax.Array, jax.Array]:
  """Whether a caption belongs to the image, and whether the pair counts: both bool [B, M]."""
  captions = len(rows.text) // len(rows.image)
  image = jnp.arange(len(rows.text)) // captions
  own = (image[None] == jnp.arange(len(rows.image))[:, None]) & (turn == 0)
  counts = rows.image_present[:, None] & present[None]
  if mask_equal:
    own_ids = rows.same.reshape(len(rows.image), captions)
    equal = jnp.any(own_ids[:, :, None] == same[None, None], axis=1)
    counts &= own | ~equal
  return own, counts


def _hashes(tokens: jax.Array) -> jax.Array:
  """Hashes captions, int32 [..., T] padded with 0, to uint32 [...], independently of the padding."""
  places = jnp.arange(1, tokens.shape[-1] + 1, dtype=jnp.uint32)
  mixed = (tokens.astype(jnp.uint32) * jnp.uint32(2654435761)) ^ (places * jnp.uint32(2246822519))
  mixed = (mixed ^ (mixed >> 15)) * jnp.uint32(3266489917)
  return jnp.sum(jnp.where(tokens != 0, mixed, 0), axis=-1, dtype=jnp.uint32)
