"""The quickstart's captioner trained and asked for captions on the GPU, beside the same on the CPU.

usage: python benchmarks/gpu/quickstart.py --json=FILE --data=FOLDER [--steps=400] [--tiny]
By the command `xmcap`, as a user has it. Both platforms train from scratch with the same seed and batches, the GPU in
bfloat16 (the default there) and the CPU in float32; their losses are close, not equal. Captions are those of the model
that the GPU has trained, and three times the same pictures in 36 languages: on the CPU, on the GPU in float32 (which
must say the same), and on the GPU in bfloat16.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import recipe

_COMMON = ("--gin_file=models/tiny.gin", "--gin_file=data/emoji36.gin", "--gin_file=runs/quickstart.gin")
_CPU = {"JAX_PLATFORMS": "cpu"}
# Otherwise a GPU multiplies float32 with ten bits of the fraction.
_EXACT = {"JAX_DEFAULT_MATMUL_PRECISION": "highest"}
_TINY = (
  "--gin.BATCH_SIZE=16", "--gin.CaptionStream.target_lengths=(24,)", "--gin.ViTConfig.depth=1",
  "--gin.T5Config.num_decoder_layers=1",
)  # fmt: skip
_FLOAT32 = ("--gin.ViTConfig.dtype=float32", "--gin.T5Config.dtype=float32")


def main() -> None:
  parser = recipe.options(__doc__)
  parser.add_argument("--data", type=pathlib.Path, required=True, help="a corpus emoji36")
  parser.add_argument("--steps", type=int, default=400)
  arguments = parser.parse_args()
  found = {"steps": arguments.steps}
  with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    pictures = sorted((arguments.data / "test" / "images").glob("*.png"))[: 2 if arguments.tiny else 64]
    options = (
      f"--gin.DATA_DIR={arguments.data}",
      f"--gin.TOTAL_STEPS={arguments.steps}",
      *_TINY * arguments.tiny,
    )
    found["gpu"] = train(folder / "gpu", options, {})
    recipe.write(arguments.json, found)
    on_cpu = captions(folder / "gpu", pictures, folder / "cpu.jsonl", _CPU)
    for name, environment, dtypes in (("float32", _EXACT, _FLOAT32), ("bfloat16", {}, ())):
      on_gpu = captions(folder / "gpu", pictures, folder / f"{name}.jsonl", environment, dtypes)
      same = [on_gpu[key] == caption for key, caption in on_cpu.items()]
      found[f"same_captions_{name}"] = sum(same) / len(same)
      found["captions"] = len(same)
      recipe.write(arguments.json, found)
    found["cpu"] = train(folder / "cpu", options, _CPU)
  recipe.write(arguments.json, found)
  print(found)


def train(model_dir: pathlib.Path, options: tuple[str, ...], environment: dict[str, str]) -> dict[str, float]:
  """Trains from scratch; seconds of the command, and the losses of the last report."""
  options += (f"--gin.MODEL_DIR={model_dir}", "--gin.PRETRAINED=()", "--gin.Writers.tensorboard=False")
  began = time.monotonic()
  run(["train", *_COMMON, *options], environment)
  seconds = time.monotonic() - began
  measured = [json.loads(line) for line in (model_dir / "metrics.jsonl").read_text().splitlines()]
  values = {name: value for line in measured for name, value in line.items() if re.search(r"loss$", name)}
  return {"seconds": seconds, **values}


def captions(
  model_dir: pathlib.Path,
  pictures: list[pathlib.Path],
  out: pathlib.Path,
  environment: dict[str, str],
  options: tuple[str, ...] = (),
) -> dict[tuple[str, str], str]:
  """(key, language) -> caption, of pictures in all languages."""
  run(
    ["caption", f"--model_dir={model_dir}", "--languages=all", f"--out={out}", *options, *pictures],
    environment,
  )
  rows = map(json.loads, out.read_text(encoding="utf-8").splitlines())
  return {(row["image/key"], row["language"]): row["caption"] for row in rows}


def run(arguments: list, environment: dict[str, str]) -> None:
  """The command `xmcap`."""
  subprocess.run([sys.executable, "-m", "xmcap.cli", *arguments], env=os.environ | environment, check=True)


if __name__ == "__main__":
  main()
