"""Both towers of big_vision's two_towers (SigLIP, LiT) as .npz: a ViT below `img/`, a text transformer below `txt/`."""

import pathlib
import re
from collections.abc import Iterable, Mapping

import numpy as np

from xmcap.convert import big_vision
from xmcap.convert.pairs import SAME, Pair, Shape, WeightKind, below, leading_ones, module_pairs
from xmcap.convert.source import WeightSource, count_layers, make_config, shape_of
from xmcap.errors import UsageError
from xmcap.families.dual.model import DualConfig, DualTower
from xmcap.families.dual.text_tower import TextConfig
from xmcap.families.dual.tokenizer_files import Described, describe
from xmcap.files.tensors import Tensor
from xmcap.models.vit import ViTConfig

_ANCHOR = "img/embedding/kernel"
_BLOCK = "Encoder_0/encoderblock"
_POSITIONS, _OLD_POSITIONS = "pos_embedding", "Encoder_0/pos_embedding"
_KIND = "text_transformer of big_vision"


def open_npz(path: pathlib.Path) -> WeightSource:
  """Opens both towers in a file; a text's vector is at its last position, big_vision's default.

  UsageError if the file is not a complete .npz of numbers, or holds other towers.
  """
  tensors, where = big_vision.read_npz(path), str(path)
  prefix = big_vision.find_prefix(tensors, _ANCHOR, path)
  inside = big_vision.below(tensors, prefix)
  images = big_vision.below(inside, "img/")
  texts = big_vision.one_by_one(big_vision.below(inside, "txt/"), _BLOCK)
  vit = big_vision.find_vit(images, None, where)
  assert isinstance(vit.config, ViTConfig)
  tokenizer = describe(path.parent)
  text = _text_config(texts, tokenizer, where)
  image_head, image_width = _head(images, vit.config.width, where)
  text_head, text_width = _head(texts, text.width, where)
  if image_width != text_width:
    raise UsageError(
      f"{where}: images end in {image_width} numbers, and texts in {text_width}: not one space"
    )
  fields = dict(embed_dim=text_width, image_head=image_head, text_head=text_head, resize="bicubic")
  beside = {name: tensors[name] for name in tensors if not name.startswith(prefix)}
  scalars = {"logit_scale": "t", "logit_bias": "b"}

  def pairs(paths: Mapping[str, Shape]) -> list[Pair]:
    others = below("img/", vit.pairs(paths)) + below("txt/", _text_pairs(texts, text.num_heads, paths))
    others += [Pair((ours,), (theirs,), leading_ones(1)) for ours, theirs in scalars.items() if ours in paths]
    modules = {"image_head": "img/head", "text_head": "txt/head"}
    return module_pairs(paths, modules, others=others, leaf=lambda _, name: (f"/{name}", SAME))

  return WeightSource(
    "two towers of big_vision",
    where,
    {f"img/{name}": tensor for name, tensor in vit.tensors.items()}
    | {f"txt/{name}": tensor for name, tensor in texts.items()}
    | {name: inside[name] for name in scalars.values() if name in inside}
    | beside,
    DualTower(vit.config, text, make_config(DualConfig, where, fields)),
    pairs,
    "its other shapes ask",
    {f"img/{rule}": reason for rule, reason in vit.may_drop.items()}
    | {re.escape(name): "beside the towers" for name in beside},
    absent=[*vit.absent, *(() if "b" in inside else ("logit_bias",))],
    notes=[f"pool {vit.config.pool!r} of pictures, 'last' of texts; {big_vision.PICTURES}"],
    beside=tokenizer.files,
  )


def _head(tower: Mapping[str, Tensor], width: int, where: str) -> tuple[str, int]:
  """Returns the kind of a tower's head, and the width of its embeddings."""
  if "head/kernel" not in tower:
    return "none", width
  return "linear_bias", shape_of(tower, "head/kernel", 2, where, _KIND)[1]


def _text_config(tensors: Mapping[str, Tensor], tokenizer: Described, where: str) -> TextConfig:
  def shape(name: str, rank: int) -> tuple[int, ...]:
    return shape_of(tensors, name, rank, where, _KIND)

  vocab_size, width = shape("Embed_0/embedding", 2)
  if any(name.startswith("MAPHead_0/") for name in tensors):
    raise UsageError(f"{where}: txt/MAPHead_0: the text tower is pooled by attention, which xmcap's is not")
  _, attention, _, mlp = big_vision.numbering(tensors, _BLOCK)
  _, heads, _ = shape(f"{_BLOCK}_0/{attention}/query/kernel", 3)
  _, mlp_dim = shape(f"{_BLOCK}_0/{mlp}/Dense_0/kernel", 2)
  _, max_length, _ = shape(_POSITIONS, 3)
  # SigLIP 2's demo: lower, tok(model="gemma", bos="no", eos="sticky").
  cleaning = "lower_ascii" if tokenizer.has_gemmas_pieces(vocab_size) else "plain"
  pad_id, end_id = tokenizer.siglip_ids(vocab_size)
  fields = dict(
    cleaning=cleaning, pad_id=pad_id, end_id=end_id, vocab_size=vocab_size, width=width,
    depth=count_layers(tensors, f"{_BLOCK}_"), num_heads=heads, mlp_dim=mlp_dim, pool="last", max_length=max_length,
    mask_padding=False, activation="gelu_tanh", norm_epsilon=1e-6,
  )  # fmt: skip
  return make_config(TextConfig, where, fields)


def _text_pairs(tensors: Mapping[str, Tensor], heads: int, paths: Iterable[str]) -> list[Pair]:
  modules = {"final_norm": "Encoder_0/encoder_norm"}
  parts = big_vision.numbering(tensors, _BLOCK)
  modules |= big_vision.block_modules("layers_{n}", [f"{_BLOCK}_{{n}}/{part}" for part in parts])
  ours = ("text_tower/position_embedding",)
  positions = Pair(ours, (_POSITIONS,), leading_ones(1))
  if _OLD_POSITIONS in tensors:
    positions = Pair(ours, (_POSITIONS, _OLD_POSITIONS), _TWICE)
  tokens = Pair(("text_tower/token_embedding",), ("Embed_0/embedding",), SAME)
  return module_pairs(paths, modules, "text_tower/", [tokens, positions], big_vision.leaf(heads))


_TWICE = WeightKind(
  lambda ours: [(1, *ours[0]), (1, *ours[0])],
  lambda theirs, _: [theirs[0][0].astype(np.float32) + theirs[1][0].astype(np.float32)],
  added=(0,),
)
"""Positions that older checkpoints add in two places."""
