"""Both towers of big_vision's two_towers (SigLIP, LiT) as .npz: a ViT below `img/`, a text transformer below `txt/`."""

import pathlib
import re
from collections.abc import Iterable, Mapping

import numpy as np

from xmcap.convert import big_vision
from xmcap.convert.pairs import SAME, Kind, Pair, leading_ones, module_pairs
from xmcap.convert.source import Source, count_layers, make_config, shape_of
from xmcap.errors import UsageError
from xmcap.models.dual import DualConfig, DualTower
from xmcap.models.text_tower import TextConfig
from xmcap.tensors.files import Tensor

_ANCHOR = "img/embedding/kernel"
_BLOCK = "Encoder_0/encoderblock"
_POSITIONS, _OLD_POSITIONS = "pos_embedding", "Encoder_0/pos_embedding"
_KIND = "text_transformer of big_vision"


def open_npz(path: pathlib.Path) -> Source:
  """Both towers in a file. A text is read at its last position, big_vision's default.

  Raises:
    UsageError: it is no whole .npz of numbers, or its towers are others.
  """
  tensors, where = big_vision.read_npz(path), str(path)
  prefix = big_vision.find_prefix(tensors, _ANCHOR, path)
  inside = {name.removeprefix(prefix): tensors[name] for name in tensors if name.startswith(prefix)}
  images, texts = (
    {name.removeprefix(part): inside[name] for name in inside if name.startswith(part)}
    for part in ("img/", "txt/")
  )
  vit = big_vision.find_vit(images, None, where)
  texts = big_vision.one_by_one(texts, _BLOCK)
  text, heads = _sizes(texts, where)
  image_head, text_head = ("linear_bias" if "head/kernel" in tower else "none" for tower in (images, texts))
  widths = {text.width if text_head == "none" else shape_of(texts, "head/kernel", 2, where, _KIND)[1]}
  widths.add(
    vit.config.width if image_head == "none" else shape_of(images, "head/kernel", 2, where, _KIND)[1]
  )
  if len(widths) != 1:
    raise UsageError(
      f"{where}: the towers end in {' and '.join(map(str, sorted(widths)))} numbers: not one space"
    )
  fields = dict(embed_dim=widths.pop(), image_head=image_head, text_head=text_head, resize="bicubic")
  module = DualTower(vit.config, text, make_config(DualConfig, where, fields), 0.0, 0.0, 0.0)
  beside = {name: tensors[name] for name in tensors if not name.startswith(prefix)}
  scalars = {name: inside[name] for name in ("t", "b") if name in inside}
  towers = [("img/", vit.tensors), ("txt/", texts)]

  def pairs(paths: Iterable[str]) -> list[Pair]:
    paths = list(paths)
    found = _below("img/", vit.pairs([path for path in paths if path.startswith("vit/")]))
    found += _below(
      "txt/", _text_pairs(texts, heads, [path for path in paths if path.startswith("text_tower/")])
    )
    found += [Pair((ours,), (theirs,), leading_ones(1)) for ours, theirs in (("logit_scale", "t"), ("logit_bias", "b"))
              if ours in paths]  # fmt: skip
    modules = {"image_head": "img/head", "text_head": "txt/head"}
    return module_pairs(paths, modules, lambda _, name: (f"/{name}", SAME), others=found)

  return Source(
    "two towers of big_vision",
    where,
    {part + name: tensor for part, tower in towers for name, tensor in tower.items()} | scalars | beside,
    module,
    pairs,
    "its other shapes ask",
    {f"img/{rule}": reason for rule, reason in vit.may_drop.items()}
    | {re.escape(name): "beside the towers" for name in beside},
    absent=[*vit.absent, *(() if "b" in inside else ("logit_bias",))],
    notes=[
      f"pool {vit.config.pool!r} of pictures, 'last' of texts; {big_vision.PICTURES}",
      "no tokenizer in an .npz: put its SentencePiece model into --out as spiece.model",
    ],
  )


def _sizes(tensors: Mapping[str, Tensor], where: str) -> tuple[TextConfig, int]:
  """The configuration of the text tower, and its heads."""
  vocab_size, width = shape_of(tensors, "Embed_0/embedding", 2, where, _KIND)
  if any(name.startswith("MAPHead_0/") for name in tensors):
    raise UsageError(f"{where}: txt/MAPHead_0: the text tower is pooled by attention, which xmcap's is not")
  _, attention, _, mlp = big_vision.numbering(tensors, _BLOCK)
  _, heads, _ = shape_of(tensors, f"{_BLOCK}_0/{attention}/query/kernel", 3, where, _KIND)
  fields = dict(
    vocab_size=vocab_size, width=width, depth=count_layers(tensors, f"{_BLOCK}_"), num_heads=heads,
    mlp_dim=shape_of(tensors, f"{_BLOCK}_0/{mlp}/Dense_0/kernel", 2, where, _KIND)[1], pool="last",
    max_length=shape_of(tensors, _POSITIONS, 3, where, _KIND)[1], pad_id=1, mask_padding=False,
    activation="gelu_tanh", norm_epsilon=1e-6,
  )  # fmt: skip
  return make_config(TextConfig, where, fields), heads


def _text_pairs(tensors: Mapping[str, Tensor], heads: int, paths: list[str]) -> list[Pair]:
  modules = {"final_norm": "Encoder_0/encoder_norm"}
  parts = big_vision.numbering(tensors, _BLOCK)
  modules |= big_vision.block_modules("layers_{n}", [f"{_BLOCK}_{{n}}/{part}" for part in parts])
  ours = ("text_tower/position_embedding",)
  positions = Pair(ours, (_POSITIONS,), leading_ones(1))
  if _OLD_POSITIONS in tensors:
    positions = Pair(ours, (_POSITIONS, _OLD_POSITIONS), _TWICE)
  tokens = Pair(("text_tower/token_embedding",), ("Embed_0/embedding",), SAME)
  return module_pairs(paths, modules, big_vision.leaf(heads), "text_tower/", [tokens, positions])


def _below(prefix: str, pairs: Iterable[Pair]) -> list[Pair]:
  return [Pair(pair.ours, tuple(prefix + name for name in pair.theirs), pair.kind) for pair in pairs]


_TWICE = Kind(
  lambda ours: [(1, *ours[0]), (1, *ours[0])],
  lambda theirs, _: [theirs[0][0].astype(np.float32) + theirs[1][0].astype(np.float32)],
  added=(0,),
)
"""Positions that older checkpoints add in two places."""
