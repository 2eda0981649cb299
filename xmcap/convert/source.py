"""What every format's reader gives: tensors by their names, and the model of ours that they are."""

import dataclasses
from collections.abc import Mapping, Sequence

import jax
import numpy as np

from xmcap.convert.pairs import Pair, Shape
from xmcap.models.t5 import Decoder, Encoder, T5Config, TokenEmbedder
from xmcap.models.vit import ViT, ViTConfig
from xmcap.tensor_files import Tensor

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


def parameter_shapes(config: T5Config | ViTConfig) -> dict[str, Shape]:
  """{path: shape} of every parameter of a T5 or a ViT, layers one by one, as the model itself makes them."""
  config = dataclasses.replace(
    config, dtype="float32", **({"scan": False} if hasattr(config, "scan") else {})
  )
  if isinstance(config, ViTConfig):
    size = config.image_size
    image = np.zeros((1, size, size, 3), np.uint8)
    trees = {"vit": jax.eval_shape(lambda: ViT(config).init(jax.random.key(0), image))}
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
