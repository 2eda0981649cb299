"""What an adapter gives a dual tower in languages that it never saw, by what the adapter learned from.

The tower is that of examples/emoji100.sh, trained again without five languages. Each gets an adapter by the squared
distance to English captions, by InfoNCE with them, and by InfoNCE with pictures; all else stays frozen. The paper's
adapters are 1/16 as wide as the model, which is 8 in a tower of width 128. It has one layer, and the tokens of a new
language have random embeddings, so wider ones are compared too.

usage: python benchmarks/adapters.py [FOLDER] [STEPS] [ROWS]
       FOLDER is runs/emoji100 by default, which the example fills: its corpus and its run of tags are used.
       ROWS are some of the rows, such as none,mse_wide (there must be none); all by default.
"""

import json
import math
import pathlib
import statistics
import subprocess
import sys

import report

from xmcap import languages

_LEFT_OUT = ("fi", "sw", "ka", "te", "th")
_KINDS = {  # folder -> heading, kind and width of the adapter
  "none": ("no adapter", "", 0),
  "mse": ("distance to English, 8 wide", "mse", 8),
  "contrastive": ("InfoNCE with English, 8 wide", "contrastive", 8),
  "lit": ("InfoNCE with pictures, 8 wide", "lit", 8),
  "mse_wide": ("distance to English, 128 wide", "mse", 128),
  "contrastive_wide": ("InfoNCE with English, 128 wide", "contrastive", 128),
  "lit_wide": ("InfoNCE with pictures, 128 wide", "lit", 128),
}
_COMMON = ("--gin_file=models/tiny.gin", "--gin_file=data/emoji100.gin")


def main() -> None:
  """Trains what is not there yet, evaluates, and keeps a row a kind."""
  folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "runs/emoji100")
  steps = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
  chosen = sys.argv[3].split(",") if len(sys.argv) > 3 else list(_KINDS)
  data, base, teacher = f"--gin.DATA_DIR={folder / 'data'}", folder / "base", folder / "teacher"
  kept = tuple(code for code in languages.WIDE if code not in _LEFT_OUT)
  _xmcap(
    "train", *_COMMON, "--gin_file=runs/contrastive.gin", data, f"--gin.MODEL_DIR={base}",
    f"--gin.PRETRAINED=[('{folder / 'tags'}', 'vit')]", f"--gin.CaptionStream.languages={kept}",
    "--gin.hooks.eval_every=0",
  )  # fmt: skip
  _xmcap("embed", f"--model_dir={base}", f"--corpus={folder / 'data'}", "--languages=en", f"--out={teacher}")
  rows, others = [], {}
  for name in chosen:
    heading, kind, width = _KINDS[name]
    adapters = folder / "adapters" / name
    for code in _LEFT_OUT if kind else ():
      run = folder / "adapter_runs" / name / code
      _xmcap(
        "train", *_COMMON, "--gin_file=runs/adapter.gin", data, f"--gin.BASE={base}", f"--gin.TEACHER={teacher}",
        f"--gin.LANGUAGE={code}", f"--gin.MODEL_DIR={run}", f"--gin.TOTAL_STEPS={steps}",
        f"--gin.AdapterObjective.kind={kind}", f"--gin.T5Config.adapter_dim={width}",
        f"--gin.ConstantThenRsqrt.warmup_steps={steps // 5}",
        f"--gin.ConstantThenRsqrt.cooldown_steps={steps - steps // 5}",
      )  # fmt: skip
      if not (adapters / code).exists():
        _xmcap("convert", "--part=adapter", f"--input={run}", f"--out={adapters / code}")
    out = folder / "eval_adapters" / name
    _xmcap(
      "eval", f"--model_dir={base}", "--gin_file=data/emoji100.gin", "--gin_file=runs/eval_emoji100.gin", data,
      f"--gin.LABELS={folder / 'data/labels.json'}", f"--gin.EVAL_DIR={out}",
      "--gin.evaluate.evaluators=[@noto/ZeroShotEvaluator()]", f"--gin.ZeroShotEvaluator.adapters={adapters}",
    )  # fmt: skip
    top1 = _top1(out / "noto")
    values = [top1[code] for code in _LEFT_OUT]
    others[name] = {code: value for code, value in top1.items() if code not in _LEFT_OUT}
    rows.append((heading, f"{statistics.mean(values):.1%}", *(f"{value:.1%}" for value in values)))
    print("  ".join(rows[-1]), flush=True)
  if any(found != others["none"] for found in others.values()):
    raise SystemExit("an adapter changed another language")
  report.write(
    "adapters",
    "Language adapters: top-1 accuracy in languages that the dual tower never saw",
    rows,
    columns=("adapter", "mean", *(languages.get(code).english_name for code in _LEFT_OUT)),
    notes=[
      f"Noto emoji. The mean over the {len(kept)} languages of the tower is "
      f"{statistics.mean(others['none'].values()):.1%}, "
      "the same with every adapter; chance is 1.7%.",
      f"{steps:,} steps of 256 captions each; one seed. An adapter of width 8 is {_share(folder, 'mse')} of the tower, "
      f"one of width 128 {_share(folder, 'mse_wide')}.",
    ],
  )


def _xmcap(*arguments: str) -> None:
  subprocess.run([sys.executable, "-m", "xmcap.cli", *arguments], check=True, stdout=subprocess.DEVNULL)


def _top1(folder: pathlib.Path) -> dict[str, float]:
  rows = json.loads((folder / "table.json").read_text(encoding="utf-8"))["languages"]
  values = {code: row["top1"] for code, row in rows.items()}
  return {code: value["score"] if isinstance(value, dict) else value for code, value in values.items()}


def _share(folder: pathlib.Path, name: str) -> str:
  from xmcap.training.checkpoints import weights

  def count(path: pathlib.Path) -> int:
    return sum(math.prod(tensor.shape) for tensor in weights.open_weights(path).tensors.values())

  return f"{count(folder / 'adapters' / name / _LEFT_OUT[0]) / count(folder / 'base'):.2%}"


if __name__ == "__main__":
  main()
