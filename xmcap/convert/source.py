"""What every format's reader gives: tensors by their names, and the model of ours that they are."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from xmcap.convert.pairs import Pair, Shape
from xmcap.errors import UsageError
from xmcap.models import stacking
from xmcap.models.limits import FieldError
from xmcap.models.t5 import Decoder, Encoder, T5Config, TokenEmbedder
from xmcap.models.vit import ViT, ViTConfig
from xmcap.tensors.files import Tensor

T5_PARTS = ("token_embedder", "encoder", "decoder")


@dataclasses.dataclass(frozen=True)
class Source:
  """A model that was found, not yet read.

  Attributes:
    what: names it, such as `MT5ForConditionalGeneration`.
    where: file or folder.
    tensors: by their names.
    config: the model of ours that they are.
    pairs: which tensor is which parameter.
    asked_by: what says how large the tensors must be, such as `config.json asks`.
    may_drop: {pattern of a whole name: reason}: see `pairs.import_outputs`.
    absent: prefixes of parameters that the source cannot have; they begin fresh.
    notes: what else the user has to know, a line each.
  """

  what: str
  where: str
  tensors: Mapping[str, Tensor]
  config: T5Config | ViTConfig
  pairs: Sequence[Pair]
  asked_by: str
  may_drop: Mapping[str, str] = dataclasses.field(default_factory=dict)
  absent: Sequence[str] = ()
  notes: Sequence[str] = ()


def make_config(
  kind: type[T5Config] | type[ViTConfig],
  where: str,
  values: Mapping[str, Any],
  names: Mapping[str, str] | None = None,
) -> Any:
  """A configuration with somebody else's numbers.

  Args:
    kind: the class.
    where: begins the messages: the file that the numbers are from.
    values: the fields.
    names: what that file calls them, where it does otherwise.

  Raises:
    UsageError: one is of another type, or out of its limits; names it.
  """
  try:
    return kind(**values)
  except FieldError as error:
    raise UsageError(f"{where}: {(names or {}).get(error.field, error.field)} {error.reason}") from None
  except UsageError as error:
    # Gin adds the chain of configurables that called, on lines of its own.
    raise UsageError(f"{where}: {str(error).splitlines()[0]}") from None


def parameter_shapes(config: T5Config | ViTConfig) -> dict[str, Shape]:
  """{path: shape} of every parameter of a T5 or a ViT, layers one by one, as the model itself makes them."""
  shapes = {}
  for path, shape in _shapes(dataclasses.replace(config, dtype="float32", scan=True)).items():
    shapes |= stacking.one_by_one(path, shape[0], lambda _, shape=shape: shape[1:]) or {path: shape}
  return shapes


def _shapes(config: T5Config | ViTConfig) -> dict[str, Shape]:
  if isinstance(config, ViTConfig):
    image = jax.ShapeDtypeStruct((1, config.image_size, config.image_size, 3), np.uint8)
    trees = {"vit": jax.eval_shape(lambda image: ViT(config).init(jax.random.key(0), image), image)}
  else:
    tokens, mask = np.zeros((1, 1), np.int32), np.ones((1, 1), bool)
    vectors = np.zeros((1, 1, config.emb_dim), np.float32)
    embedder, encoder, decoder = TokenEmbedder(config), Encoder(config), Decoder(config)

    def with_logits(module, *inputs):
      return module.logits(module(*inputs))

    trees = jax.eval_shape(
      lambda key: {
        "token_embedder": embedder.init(key, tokens),
        "encoder": encoder.init(key, vectors, mask),
        "decoder": decoder.init(key, vectors, vectors, mask, method=with_logits),
      },
      jax.random.key(0),
    )
  shapes = {}
  for part, variables in trees.items():
    for path, leaf in jax.tree_util.tree_leaves_with_path(variables["params"]):
      shapes[f"{part}/{jax.tree_util.keystr(path, simple=True, separator='/')}"] = tuple(leaf.shape)
  return shapes
