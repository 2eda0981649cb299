"""Pictures x languages a second in evaluation: one encoding of a picture for 36 languages against one for each.

usage: python benchmarks/decode.py [--depth N]
Greedy search with the tiny model, 64 pictures in 36 languages, medians of 5 passes in one process. The parameters
are random, so captions have the full length; `--depth` deepens the ViT (2 is tiny's, 12 is ViT-B's).
"""

import argparse

import common
import jax
import numpy as np

from xmcap import languages
from xmcap.models.captioner import Captioner
from xmcap.models.decoding import Generator, Greedy
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.predictor import Predictor

_PICTURES, _LENGTH = 64, 12


def main():
  arguments = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
  arguments.add_argument("--depth", type=int, default=2, help="of the ViT")
  depth = arguments.parse_args().depth
  common.configure(f"ViTConfig.depth={depth}", "Predictor.mixture='emoji36'")
  prompts = Predictor().prompts(tuple(languages.LANGUAGES))
  captioner = Captioner(ViTConfig(), T5Config())
  size = captioner.vit.image_size
  images = np.random.default_rng(0).integers(0, 256, (_PICTURES, size, size, 3), np.uint8)
  targets = np.ones((1, 1, 4), np.int32)
  params = captioner.init(jax.random.key(0), images[:1], prompts[None, :1], targets)["params"]

  shared = Generator(captioner, Greedy(), _LENGTH)
  together = common.seconds(lambda: shared(params, images, prompts), repeats=5)
  apart = common.seconds(
    lambda: [shared(params, images, prompts[i : i + 1]) for i in range(len(prompts))], repeats=5
  )
  captions = _PICTURES * len(prompts)
  print(
    f"ViT of depth {depth}: {captions / together:,.0f} captions/s with one encoding of a picture for 36 languages,"
  )
  print(f"{captions / apart:,.0f} captions/s with one encoding for each language")
  print(f"ratio shared / not shared: {apart / together:.2f}")


if __name__ == "__main__":
  main()
