"""Counts the parameters in each part of a model, without allocating them."""

import math

from xmcap.grid import Grid
from xmcap.models import stacking
from xmcap.models.captioner import variable_shapes
from xmcap.models.parts import CAPTIONER_PARAMS, IMAGE, ImageConfig
from xmcap.models.t5 import T5Config


def count_parameters(vit: ImageConfig, t5: T5Config) -> dict[str, int]:
  """Part -> number of parameters, in order of use: `vit/patch_embedding`, `vit/layers` (all), ..., `projection`, ..."""
  params = variable_shapes(vit, t5)["params"]
  counts: dict[str, int] = {}
  for tower in CAPTIONER_PARAMS:
    for path, leaf in sorted(stacking.flatten(params[tower]).items()):
      part = f"{tower}/{path.split('/')[0]}" if tower in (IMAGE, "encoder", "decoder") else tower
      counts[part] = counts.get(part, 0) + math.prod(leaf.shape)
  return counts


def parameter_table(counts: dict[str, int]) -> Grid:
  """A table of the counts by part, and of the ViT, the T5 and the whole captioner."""
  total = sum(counts.values())
  vit = sum(count for part, count in counts.items() if part.startswith(f"{IMAGE}/"))
  projection = counts["projection"]
  sums = {"ViT": vit, "projection": projection, "T5": total - vit - projection, "all": total}
  rows, foot = (tuple((name, f"{count:,}") for name, count in some.items()) for some in (counts, sums))
  return Grid(("part", "parameters"), rows, foot)
