"""What the captioner of quickstart.sh reaches from ViTs that learned in three ways, for about the same time.

tags: runs/pretrain_tags.gin, as in the quickstart; contrastive: runs/contrastive.gin from scratch on the same corpus,
for as many steps as take as long; nothing. The captioner is runs/quickstart.gin each time, for half of its steps, or
runs/contrastive_then_caption.gin, which is the same but for its start.

usage: python benchmarks/contrastive_then_caption.py [FOLDER] [CONTRASTIVE_STEPS] [CAPTION_STEPS]
       FOLDER is runs/quickstart by default, which quickstart.sh fills: its corpus and its run of tags are used.
"""

import json
import pathlib
import subprocess
import sys

import report

_COMMON = ("--gin_file=models/tiny.gin", "--gin_file=data/emoji36.gin")
# The ViT begins from nothing, so it learns at the text's rate.
_SCRATCH = ("--gin.PRETRAINED=()", "--gin.Optimizer.multipliers=[('token_embedder', 30.0), ('', 1.0)]")


def main() -> None:
  """Trains what is not there yet, evaluates, and keeps a row a start."""
  quickstart = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "runs/quickstart")
  steps = int(sys.argv[2]) if len(sys.argv) > 2 else 1500
  caption_steps = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
  folder = quickstart / "starts"
  data = f"--gin.DATA_DIR={quickstart / 'data'}"
  _train(folder / "contrastive", data, "contrastive", steps, *_SCRATCH)
  starts = {"tags": quickstart / "tags", "contrastive": folder / "contrastive", "nothing": None}
  rows = []
  for name, start in starts.items():
    model = folder / f"captioner_{name}"
    pretrained = f"[('{start}', 'vit')]" if start else "()"
    run = "contrastive_then_caption" if name == "contrastive" else "quickstart"
    _train(model, data, run, caption_steps, f"--gin.PRETRAINED={pretrained}")
    _xmcap(
      "eval", f"--model_dir={model}", "--gin_file=runs/eval_emoji36.gin", data,
      f"--gin.REFERENCES={quickstart / 'data/test/captions.jsonl'}", f"--gin.EVAL_DIR={folder / f'eval_{name}'}",
    )  # fmt: skip
    means = _means(folder / f"eval_{name}")
    took = f"{_seconds(start):.0f}" if start else ""
    rows.append((name, took, f"{means['cider_d']:.2f}", f"{means['exact']:.1%}"))
    print("  ".join(rows[-1]), flush=True)
  report.write(
    "contrastive_then_caption",
    f"Captioner of emoji36 after {caption_steps:,} steps, by pretraining of its ViT",
    rows,
    columns=("pretraining of the ViT", "seconds", "CIDEr-D", "exact captions"),
    notes=["Means over 36 languages on unseen combinations; one seed each."],
  )


def _train(model_dir: pathlib.Path, data: str, run: str, steps: int, *options: str) -> None:
  gin = (f"--gin_file=runs/{run}.gin", f"--gin.MODEL_DIR={model_dir}", f"--gin.TOTAL_STEPS={steps}")
  _xmcap("train", *_COMMON, *gin, data, *options)


def _xmcap(*arguments: str) -> None:
  subprocess.run([sys.executable, "-m", "xmcap.cli", *arguments], check=True, stdout=subprocess.DEVNULL)


def _seconds(model_dir: pathlib.Path) -> float:
  """From the first step of a run that was not stopped in between to its end."""
  lines = (model_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
  times = {line["event"]: line["time"] for line in map(json.loads, lines) if "event" in line}
  return times["finished"] - times["started"]


def _means(folder: pathlib.Path) -> dict[str, float]:
  return json.loads((folder / "table.json").read_text(encoding="utf-8"))["means"]["36"]


if __name__ == "__main__":
  main()
