"""Parameter counts of BB, Bg and Lg: exact, part by part, from the sizes that the papers print."""

import pytest

from tests.make.command import xmcap
from xmcap import configuration
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.planning import parameters

_VOCABULARY = 250_112
# Dosovitskiy et al. (2021), Table 1, and Zhai et al. (2022), Table 2: width, depth, MLP, patch.
_B16, _G14 = (768, 12, 3072, 16), (1408, 40, 6144, 14)
# Xue et al. (2021): width, layers of a stack, MLP, heads (of 64).
_BASE, _LARGE = (768, 12, 2048, 12), (1024, 24, 2816, 16)


def _vit(width, depth, mlp, patch):
  attention = 4 * (width * width + width)
  block = attention + 2 * width * mlp + mlp + width
  return {
    "vit/patch_embedding": patch * patch * 3 * width + width,
    "vit/position_embedding": (224 // patch) ** 2 * width,
    "vit/layers": depth * (block + 4 * width),
    "vit/final_norm": 2 * width,
    "vit/map_head": block + 2 * width + width,
  }


def _t5(width, layers, mlp, heads):
  attention, gated = 4 * width * heads * 64, 3 * width * mlp
  return {
    "token_embedder": _VOCABULARY * width,
    "encoder/layers": layers * (attention + gated + 2 * width),
    "encoder/relpos_bias": 32 * heads,
    "encoder/encoder_norm": width,
    "decoder/layers": layers * (2 * attention + gated + 3 * width),
    "decoder/relpos_bias": 32 * heads,
    "decoder/decoder_norm": width,
    "decoder/logits_dense": _VOCABULARY * width,
  }


@pytest.mark.parametrize(
  "name, vit, t5, total",
  [("bb", _B16, _BASE, 675_876_096), ("bg", _G14, _BASE, 1_619_931_776), ("lg", _G14, _LARGE, 2_267_472_512)],
)  # fmt: skip
def test_parameter_counts_of_vit_and_t5(name, vit, t5, total):
  configuration.parse([f"models/{name}.gin"])
  counts = parameters.count_parameters(ViTConfig(), T5Config())
  expected = {**_vit(*vit), "projection": (vit[0] + 1) * t5[0], **_t5(*t5)}
  assert counts == expected and sum(counts.values()) == total


def test_parameter_count_of_mt5_base():
  # 582,401,280: transformers' MT5ForConditionalGeneration and t5x's own network with mT5-base's sizes.
  assert sum(_t5(*_BASE).values()) == 582_401_280


def test_parameter_count_is_the_same_with_scanned_layers():
  configuration.parse(["models/bb.gin"])
  single = parameters.count_parameters(ViTConfig(), T5Config())
  assert parameters.count_parameters(ViTConfig(scan=True), T5Config(scan=True)) == single


def test_plan_params_prints_parts_and_sums():
  printed = xmcap("plan", "--gin_file=models/bb.gin", "--params").succeeded().out
  lines = dict(line.split() for line in printed.splitlines() if "--" not in line)
  assert (
    lines["vit/layers"] == "85,054,464" and lines["T5"] == "582,401,280" and lines["all"] == "675,876,096"
  )
