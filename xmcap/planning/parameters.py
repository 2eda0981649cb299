"""What a model comes to before anything is paid for: how many parameters each of its parts has."""

import math

import jax
import numpy as np
from flax import traverse_util

from xmcap.models.captioner import Captioner
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.scoring.grid import Grid


def count_parameters(vit: ViTConfig, t5: T5Config) -> dict[str, int]:
  """Counts the parameters of a captioner; none of them is made.

  Returns:
    Part -> parameters, each parameter in one part: `vit/patch_embedding`, `vit/layers` (all of them), ...,
    `projection`, `token_embedder`, `encoder/layers`, ..., `decoder/logits_dense`.
  """
  image = np.zeros((1, vit.image_size, vit.image_size, 3), np.uint8)
  tokens = np.zeros((1, 1, 1), np.int32)
  params = jax.eval_shape(Captioner(vit, t5).init, jax.random.key(0), image, tokens, tokens)["params"]
  counts: dict[str, int] = {}
  for path, leaf in traverse_util.flatten_dict(params).items():
    names = path[:2] if path[0] in ("vit", "encoder", "decoder") else path[:1]
    part = "/".join(names)
    counts[part] = counts.get(part, 0) + math.prod(leaf.shape)
  return counts


def parameter_table(counts: dict[str, int]) -> Grid:
  """The counts by part, then of the ViT, of the T5 (all that mT5 has) and of the whole captioner."""
  total = sum(counts.values())
  vit = sum(count for part, count in counts.items() if part.startswith("vit/"))
  sums = {
    "ViT": vit,
    "projection": counts["projection"],
    "T5": total - vit - counts["projection"],
    "all": total,
  }
  return Grid(
    ("part", "parameters"),
    tuple((part, f"{count:,}") for part, count in sorted(counts.items(), key=_order)),
    tuple((name, f"{count:,}") for name, count in sums.items()),
  )


def _order(item: tuple[str, int]) -> tuple[int, str]:
  """As data flow."""
  towers = ("vit", "projection", "token_embedder", "encoder", "decoder")
  return towers.index(item[0].split("/")[0]), item[0]
