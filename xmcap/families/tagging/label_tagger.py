"""Networks that predict an image's tags in one or several languages from the vector of the image.

Li et al., "COCO-CN" (2019), section IV-B: a multilayer perceptron for one language; one hidden layer with a head for
each language (multi-task); and the cascade, in which the tags that a first network predicts in one language are an
input of a second network for another. `families/tagging/vit_objective.py` has the head that pretrains a ViT.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import linen as nn

from xmcap import languages
from xmcap.models import limits
from xmcap.models.layers import VIT_KERNEL_INIT, Dense, Dropout
from xmcap.models.parts import ImageConfig, image_tower

Sizes = tuple[tuple[str, limits.MlpWidth], ...]
"""(language code, its number of labels) of each language."""


@dataclasses.dataclass(frozen=True)
class TaggerConfig:
  """The networks of a tagger.

  Attributes:
    sizes: languages and their numbers of labels.
    first: the same for the first network of a cascade; (): no cascade.
    hidden, dropout_rate: see `TagMlp`.
  """

  sizes: Sizes
  first: Sizes = ()
  hidden: limits.MlpWidth | tuple[limits.MlpWidth, ...] = 1024
  dropout_rate: limits.Rate = 0.5

  def __post_init__(self):
    if isinstance(self.hidden, list):  # of gin or `model.json`
      object.__setattr__(self, "hidden", tuple(self.hidden))
    limits.check(self)
    if self.hidden == ():
      raise limits.FieldError("TaggerConfig", "hidden", "is (): give the width of at least one layer")
    for name in ("sizes", "first"):  # of `model.json`: lists
      object.__setattr__(self, name, tuple((language, size) for language, size in getattr(self, name)))
    codes = [language for language, _ in self.sizes]
    unknown = [
      language
      for language in [*codes, *(language for language, _ in self.first)]
      if not languages.is_known(language)
    ]
    if unknown or not codes or len(set(codes)) < len(codes):
      raise limits.FieldError(
        "TaggerConfig", "sizes", f"is of {codes}: give languages by their codes, each once"
      )
    if self.dropout_rate == 1:
      raise limits.FieldError("TaggerConfig", "dropout_rate", "is 1: give a rate below it")


class TagMlp(nn.Module):
  """Hidden layers with ReLU and dropout, and a linear head for each language. Float32 throughout.

  Parameters: `hidden`, `hidden_2` and so on, and a head named by the code of each language, such as `zh`.

  Attributes:
    sizes: languages and their numbers of labels.
    hidden: width of the hidden layer, or widths of several.
    dropout_rate: dropout of the hidden layers.
  """

  sizes: Sizes
  hidden: int | tuple[int, ...]
  dropout_rate: float

  @nn.compact
  def __call__(self, x: jax.Array, deterministic: bool) -> jax.Array:
    """[B, D] -> logits float32 [B, L], those of all languages side by side."""
    widths = self.hidden if isinstance(self.hidden, tuple) else (self.hidden,)
    for number, width in enumerate(widths, 1):
      name = "hidden" if number == 1 else f"hidden_{number}"
      x = nn.relu(self._dense(width, ("embed", "mlp"), name)(x))
      x = Dropout(self.dropout_rate, broadcast_dims=())(x, deterministic)
    heads = [self._dense(size, ("mlp", "classes"), language)(x) for language, size in self.sizes]
    return jnp.concatenate(heads, axis=-1)

  def _dense(self, features: int, axes: tuple[str, str], name: str) -> Dense:
    return Dense(features, axes, use_bias=True, kernel_init=VIT_KERNEL_INIT, name=name)


class LabelTagger(nn.Module):
  """Predicts labels from an image or from its stored features.

  Parameters: `vit`, if there is one; `tags`, the network; in a cascade `tags` is the first network, as a run for its
  languages alone has trained it, and `cascade` the second.

  Attributes:
    vit: the image tower, with pool `none` the patch tokens are averaged; None: features are given.
    tagger: the networks.
  """

  vit: ImageConfig | None
  tagger: TaggerConfig

  def setup(self):
    if self.vit is not None:
      self.image_tower = image_tower(self.vit)
    sizes, first, *how = dataclasses.astuple(self.tagger)
    self.tags = TagMlp(first or sizes, *how)
    if first:
      self.cascade = TagMlp(sizes, *how)

  def vector(self, inputs: jax.Array, deterministic: bool = True) -> jax.Array:
    """Images [B, H, W, 3] with values 0..255, or features [B, D] without a ViT -> float32 [B, D]."""
    if self.vit is not None:
      inputs = jnp.mean(self.image_tower(inputs, deterministic), axis=1)
    return inputs.astype(jnp.float32)

  def __call__(self, inputs: jax.Array, deterministic: bool = True) -> jax.Array:
    """The inputs of `vector` -> logits float32 [B, L], those of all languages side by side.

    The first network of a cascade is used without dropout, and no gradient flows through its predictions.
    """
    x = self.vector(inputs, deterministic)
    if not self.tagger.first:
      return self.tags(x, deterministic)
    predicted = jax.lax.stop_gradient(nn.sigmoid(self.tags(x, True)))
    return self.cascade(jnp.concatenate([predicted, x], axis=-1), deterministic)


def columns(sizes: Sequence[tuple[str, int]]) -> dict[str, slice]:
  """Language code -> its columns among the logits or labels of all languages."""
  slices, start = {}, 0
  for language, size in sizes:
    slices[language] = slice(start, start + size)
    start += size
  return slices
