"""Sizes and times of exported captioners, beside xmcap's own decoding of the same pictures.

usage: python benchmarks/export.py [--model_dir=DIR]      where the quickstart ran; it trains the model
Each format is exported by the command, and loaded and run in a process of its own: the first call compiles.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection

import numpy as np
import report

_PICTURES = 32
_REPEATS = 5
_TITLES = {
  "xmcap": "xmcap's Predictor", "stablehlo": "jax, `--to=stablehlo`", "savedmodel": "TensorFlow, `--to=savedmodel`",
  "hf": "torch, `--to=hf`",
}  # fmt: skip


def stablehlo(folder: pathlib.Path, pictures: np.ndarray) -> Callable[[], object]:
  """Loads the program; returns a call of it."""
  import jax
  from jax import export

  about = json.loads((folder / "captioner.json").read_text())
  program = jax.jit(export.deserialize(bytearray((folder / "captioner.stablehlo").read_bytes())).call)
  params = jax.device_put(dict(np.load(folder / "params.npz")))
  prompts = np.array(list(about["prompts"].values()), np.int32)
  return lambda: np.asarray(program(params, pictures, prompts)[0])


def savedmodel(folder: pathlib.Path, pictures: np.ndarray) -> Callable[[], object]:
  """As `stablehlo`."""
  import tensorflow as tf

  about = json.loads((folder / "captioner.json").read_text())
  model = tf.saved_model.load(str(folder))
  return lambda: model.caption(pictures, tf.constant(list(about["prompts"])))["captions"].numpy()


def hf(folder: pathlib.Path, pictures: np.ndarray, languages: Collection[str] = ()) -> Callable[[], object]:
  """As `stablehlo`, for a model whose ViT gives all patches; in these languages, or all."""
  import torch
  from safetensors.torch import load_file
  from transformers import AutoModel, DynamicCache, EncoderDecoderCache, MT5ForConditionalGeneration

  about = json.loads((folder / "captioner.json").read_text())
  if about["image_features"] != "all":
    raise SystemExit(
      "benchmarks/export.py: give a model with ViTConfig.pool = 'none', such as models/tiny.gin"
    )
  vit = AutoModel.from_pretrained(folder / "vit").eval()
  t5 = MT5ForConditionalGeneration.from_pretrained(folder / "t5").eval()
  projection = load_file(folder / "projection.safetensors")
  prompts = torch.tensor([about["prompts"][code] for code in languages or about["prompts"]])
  images = torch.tensor(pictures).permute(0, 3, 1, 2) / 127.5 - 1

  @torch.inference_mode()
  def run():
    features = torch.nn.functional.linear(vit(images).last_hidden_state, **projection)
    features = features.repeat_interleave(len(prompts), 0)
    inputs = torch.cat([features, t5.shared(prompts).repeat(len(images), 1, 1)], 1)
    mask = torch.ones(inputs.shape[:2], dtype=torch.long)
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    return t5.generate(inputs_embeds=inputs, attention_mask=mask, past_key_values=cache, **about["generate"])

  return run


def xmcap(folder: pathlib.Path, pictures: np.ndarray) -> Callable[[], object]:
  """xmcap's own generator, on the folder of the model."""
  import jax

  from xmcap.evaluation import model_dir
  from xmcap.export import program

  model_dir.parse(str(folder))
  made = program.load(str(folder))
  params = jax.device_put(model_dir.load_params(str(folder)))
  prompts = np.array(list(made.prompts.values()), np.int32)
  return lambda: np.asarray(made.generator(params, pictures, prompts)[0])


def measure(kind: str, folder: pathlib.Path) -> None:
  """Prints the seconds of loading, of the first call, and the median of later ones."""
  # Flat colours, so that captions have the lengths of captions.
  colours = np.random.RandomState(0).randint(0, 256, (_PICTURES, 1, 1, 3))
  side = json.loads((folder / "model.json").read_text())["vit"]["image_size"] if kind == "xmcap" else None
  side = side or json.loads((folder / "captioner.json").read_text())["image_size"]
  pictures = np.broadcast_to(colours, (_PICTURES, side, side, 3)).astype(np.uint8)
  began = time.perf_counter()
  run = globals()[kind](folder, pictures)
  loaded = time.perf_counter()
  run()
  first = time.perf_counter()
  times = []
  for _ in range(_REPEATS):
    start = time.perf_counter()
    run()
    times.append(time.perf_counter() - start)
  print(json.dumps([loaded - began, first - loaded, statistics.median(times)]))


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--model_dir", type=pathlib.Path, default="runs/quickstart/model")
  parser.add_argument("--kind", choices=_TITLES)
  arguments = parser.parse_args()
  if arguments.kind:
    return measure(arguments.kind, arguments.model_dir)
  rows = []
  with tempfile.TemporaryDirectory() as parent:
    for kind, title in _TITLES.items():
      folder, size, seconds = arguments.model_dir, "", ""
      if kind != "xmcap":
        folder = pathlib.Path(parent, kind)
        began = time.perf_counter()
        command = ["export", f"--model_dir={arguments.model_dir}", f"--to={kind}", f"--out={folder}"]
        subprocess.run([sys.executable, "-m", "xmcap.cli", *command], check=True, capture_output=True)
        seconds = f"{time.perf_counter() - began:.1f}"
        size = f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()) / 1e6:.1f}"
      own = [sys.executable, __file__, f"--model_dir={folder}", f"--kind={kind}"]
      run = subprocess.run(own, check=True, capture_output=True, text=True)
      load, first, later = json.loads(run.stdout.splitlines()[-1])
      rows.append((title, size, seconds, f"{load:.1f}", f"{first:.1f}", f"{later * 1e3:,.0f}"))
      print(*rows[-1], sep=" | ")
  report.write(
    "export", "Exported captioners", rows,
    columns=("format", "MB", "export, s", "load, s", "first call, s", "later calls, ms"),
    notes=[
      f"The quickstart's model; a call captions {_PICTURES} pictures in all languages of its vocabulary with greedy"
      " search, in a separate process. Loading includes imports; the first call includes compilation."
    ],
  )  # fmt: skip


if __name__ == "__main__":
  main()
