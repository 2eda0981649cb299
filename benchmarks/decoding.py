"""Captions a second of BB or Bg in 36 languages, beside transformers and beside encoding the picture for each language.

usage: python benchmarks/decoding.py [--vit=b|g] [--pictures=2] [--depth=12] [--vit_depth=N] [--vocabulary=250112]
                                     [--search=greedy|beam] [--length=24] [--full_length] [--repeats=2]
                                     [--usual_languages=4] [--no_peer] [--static_cache]
                                     [--dtype=float32|bfloat16] [--json=FILE]
All sides have the same random weights and the same search, and take turns in one process; what is printed
are medians and their ratios. The logits of EOS are made such that half of what captions could be long is their mean
length; with --full_length none ends. `--depth` is that of both T5 stacks. With transformers and torch installed:
- best: pictures encoded once and the encoder's output handed to one `generate` for all pictures and languages, on a CPU
  with the number of threads that is fastest;
- usual: for each language its own `generate`, and the pictures encoded again; measured on --usual_languages of
  them, as each is a call of its own.
Full BB takes 6 GB with the peer and 3.5 GB without. Both sides use a GPU if their frameworks have one; benchmarks/gpu
measures there, with --json.
"""

import argparse
import importlib.util
import json
import pathlib
import resource
import statistics
import time

import jax
import numpy as np
import report
from jax.tree_util import tree_map_with_path

from xmcap.models import stacking
from xmcap.models.captioner import Captioner
from xmcap.models.decoding.beam_search import Beam
from xmcap.models.decoding.generator import Generator
from xmcap.models.decoding.search import Greedy
from xmcap.models.stacking import path_name
from xmcap.models.t5 import EOS_ID, T5Config
from xmcap.models.vit import ViTConfig

_LANGUAGES, _OURS = 36, "xmcap"
_PEER = (
  "Best case: the encoder output is shared between languages by custom code. Usual way: one call per language, which"
  " encodes the picture again."
)
_VITS = {
  "b": dict(width=768, depth=12, mlp_dim=3072, num_heads=12, patch_size=16),
  "g": dict(width=1408, depth=40, mlp_dim=6144, num_heads=16, patch_size=14),
}
# As ViTModel of transformers is, so that both sides can be the same.
_VARIANT = dict(image_size=224, pool="tok", activation="gelu", norm_epsilon=1e-12)


def options() -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
  parser.add_argument("--vit", choices=_VITS, default="b")
  parser.add_argument("--pictures", type=int, default=2)
  parser.add_argument("--depth", type=int, default=12, help="of both T5 stacks")
  parser.add_argument("--vit_depth", type=int, default=0, help="of the ViT; 0: its own")
  parser.add_argument("--vocabulary", type=int, default=250_112)
  parser.add_argument("--search", choices=("greedy", "beam"), default="greedy")
  parser.add_argument("--length", type=int, default=24, help="the most tokens of a caption")
  parser.add_argument("--full_length", action="store_true", help="no caption ends before that")
  parser.add_argument("--repeats", type=int, default=2)
  parser.add_argument("--usual_languages", type=int, default=4, help="of the 36, for the usual way")
  parser.add_argument("--no_peer", action="store_true", help="leave transformers out")
  parser.add_argument(
    "--static_cache", action="store_true", help="of transformers, which then compiles the step"
  )
  parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
  parser.add_argument(
    "--json", type=pathlib.Path, help="write the figures here, not as a result of benchmarks/results"
  )
  return parser.parse_args()


def random_params(captioner: Captioner, prompts: np.ndarray):
  """Unit-variance embedding, kernels that keep the variance, scales of one, all else zero."""
  size, rng = captioner.vit.image_size, np.random.default_rng(0)
  inputs = np.zeros((1, size, size, 3), np.uint8), prompts[None], np.ones((1, len(prompts), 2), np.int32)
  shapes = jax.eval_shape(captioner.init, jax.random.key(0), *inputs)["params"]

  def draw(path, leaf):
    name = path[-1].key
    if name in ("scale", "bias"):
      return jax.numpy.full(leaf.shape, float(name == "scale"))
    layer = leaf.shape[1:] if stacking.is_stacked(path_name(path)) else leaf.shape
    fan_in = int(np.prod(layer[:-1])) if name == "kernel" else 1
    values = rng.standard_normal(leaf.shape, np.float32)
    values *= fan_in**-0.5
    return jax.device_put(values)

  return tree_map_with_path(draw, shapes)


def with_eos(params, scale: float):
  """The same but for EOS, whose logits vary by `scale` times what those of another token do."""
  kernel = params["decoder"]["logits_dense"]["kernel"]
  column = np.random.default_rng(1).standard_normal(len(kernel)) * len(kernel) ** -0.5
  kernel = kernel.at[:, EOS_ID].set(column * scale)
  return {**params, "decoder": {**params["decoder"], "logits_dense": {"kernel": kernel}}}


def lengths(tokens) -> np.ndarray:
  return np.asarray(tokens != 0).sum(-1)


def eos_scale(generate: Generator, params, images, prompts) -> float:
  """What makes captions half as long as they could be, on the mean."""
  low, high = 0.0, 64.0
  for _ in range(7):
    middle = (low + high) / 2
    tokens, _ = generate(with_eos(params, middle), images, prompts)
    low, high = (middle, high) if lengths(tokens).mean() > generate.max_length / 2 else (low, middle)
  return (low + high) / 2


def take_turns(runs: dict, repeats: int) -> dict[str, float]:
  """Median seconds of each, after one call that is not counted."""
  times = {name: [] for name in runs}
  for repeat in range(repeats + 1):
    for name, run in runs.items():
      began = time.perf_counter()
      jax.block_until_ready(run())
      if repeat:
        times[name].append(time.perf_counter() - began)
  return {name: statistics.median(seconds) for name, seconds in times.items()}


def main():
  chosen = options()
  vit = ViTConfig(
    **_VITS[chosen.vit] | ({"depth": chosen.vit_depth} if chosen.vit_depth else {}),
    **_VARIANT,
    dtype=chosen.dtype,
  )
  t5 = T5Config(chosen.vocabulary, 768, 12, 64, chosen.depth, chosen.depth, 2048, dtype=chosen.dtype)
  captioner = Captioner(vit, t5)
  # transformers' defaults, which Beam has by its convention.
  search = Greedy() if chosen.search == "greedy" else Beam(4, 1.0, "transformers", early_stopping=False)
  rng = np.random.default_rng(0)
  images = rng.integers(0, 256, (chosen.pictures, 224, 224, 3), np.uint8)
  prompts = rng.integers(2, chosen.vocabulary, (_LANGUAGES, 4)).astype(np.int32)
  prompts[::3, 3] = 0
  params = random_params(captioner, prompts)

  shared = Generator(captioner, search, chosen.length)
  scale = 0.0 if chosen.full_length else eos_scale(shared, params, images, prompts)
  params = with_eos(params, scale)
  tokens, _ = shared(params, images, prompts)
  long = lengths(tokens)
  captions = chosen.pictures * _LANGUAGES
  print(
    f"ViT-{chosen.vit} of depth {vit.depth}, mT5-base of depth {chosen.depth} with {chosen.vocabulary:,} rows, "
    f"{chosen.dtype}; {chosen.search}, {chosen.pictures} pictures x {_LANGUAGES} languages; "
    f"captions of {long.min()} to {long.max()} tokens, {long.mean():.1f} on the mean\n"
    f"medians of {chosen.repeats}; the second column is how many times slower than xmcap",
    flush=True,
  )

  # The same rows in one call: what differs is how often a picture is encoded.
  each = np.repeat(images, _LANGUAGES, axis=0), np.tile(prompts, (chosen.pictures, 1))[:, None]
  runs = {
    _OURS: lambda: shared(params, images, prompts),
    f"{_OURS}, picture encoded once per language": lambda: shared(params, *each),
  }
  peer = usual = None
  if chosen.no_peer or not all(importlib.util.find_spec(name) for name in ("torch", "transformers")):
    print("not measured: transformers (left out, or it or torch is not installed)")
  else:
    import decoding_peer

    peer = decoding_peer.Peer(vit, t5, params, search, chosen.length, chosen.static_cache)
    best = "transformers, best case" + ", static cache" * chosen.static_cache
    if peer.device.type == "cpu":
      best += f" ({peer.choose_threads(images, prompts)} threads)"
    runs[best] = lambda: peer.best(images, prompts)
    some = prompts[:: max(1, _LANGUAGES // chosen.usual_languages)]
    usual = f"transformers, usual way ({len(some)} of the languages)"
    runs[usual] = lambda: peer.usual(images, some)
  seconds = take_turns(runs, chosen.repeats)
  rows = []
  for name, taken in seconds.items():
    speed = (captions if name != usual else chosen.pictures * len(some)) / taken
    print(f"{speed:8.2f} captions/s  {captions / seconds[_OURS] / speed:6.2f}  {name}")
    rows.append((name, f"{speed:.2f}", f"{captions / seconds[_OURS] / speed:.2f}"))
  same = None
  if peer is not None:
    pairs = zip(tokens.reshape(captions, -1), peer.best(images, prompts), strict=True)
    same = statistics.mean(decoding_peer.same_caption(*pair) for pair in pairs)
    print(f"{same:.1%} of the captions are the same, token for token")
  print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB of memory at most")
  if chosen.json is not None:
    facts = {name: getattr(chosen, name) for name in ("dtype", "search", "pictures", "length")}
    rates = {name: float(speed) for name, speed, _ in rows}
    found = {**facts, "mean_length": float(long.mean()), "captions_per_second": rates, "same_captions": same}
    chosen.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return
  beam, large = chosen.search == "beam", chosen.vit == "g"
  report.write(
    "decoding" + "_beam" * beam + "_vit_g" * large,
    f"Captions in 36 languages, {'Bg' if large else 'BB'} at full size, {chosen.search}",
    rows,
    columns=("", "captions per second", "slowdown relative to xmcap"),
    notes=[
      f"{chosen.dtype}, {chosen.pictures} pictures, all {vit.depth} layers of the ViT; captions have"
      f" {long.mean():.1f} tokens on average; median of {chosen.repeats} turn(s).",
      *([_PEER] if peer else []),
    ],
  )


if __name__ == "__main__":
  main()
