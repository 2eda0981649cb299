"""`xmcap embed` on names of classes in prompts: texts a second, and memory that does not grow with their number.

Babel-ImageNet with 80 prompts a language has 2,938,570 texts. Here are made-up names and prompts of 375 classes, 30,000
texts a language, all of them distinct, for the untrained dual tower of models/tiny.gin. Two runs have different numbers
of languages; the rate comes from their difference, so that start and compilation do not count. It is a rate per second
of CPU time, which other programs on the machine hardly change.

usage: python benchmarks/ensembles.py [languages]     (default: 12; the first run has a quarter of them)
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import common
import jax
import numpy as np
import report

from xmcap import configuration, languages
from xmcap.evaluation.predictor import VOCABULARY
from xmcap.families.dual.model import DualConfig
from xmcap.families.dual.objective import ContrastiveObjective
from xmcap.models import model_json
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.training.checkpoints.write import Checkpoints
from xmcap.training.optimizer import Optimizer, adam
from xmcap.training.step import create_state

_FILES = ("models/tiny.gin", "data/emoji36.gin", "runs/contrastive.gin")
_CLASSES, _PROMPTS, _TEXTS = 375, 80, 2_938_570


def main() -> None:
  """Prints what the docstring says."""
  most = int(sys.argv[1]) if len(sys.argv) > 1 else 12
  rows, found = [], []
  with tempfile.TemporaryDirectory() as held:
    folder = pathlib.Path(held)
    words = _tower(folder / "run")
    for count in (most // 4, most):
      _names(folder, list(languages.LANGUAGES)[:count], words)
      seconds, cpu_seconds, megabytes = _embed(folder, folder / f"out-{count}")
      texts = count * _CLASSES * _PROMPTS
      found.append((texts, cpu_seconds))
      rows.append((str(count), f"{texts:,}", f"{seconds:.1f}", f"{cpu_seconds:.1f}", f"{megabytes:,.0f}"))
      print("  ".join(rows[-1]), flush=True)
  (fewer, first), (more, second) = found
  rate = (more - fewer) / (second - first)
  report.write(
    "ensembles",
    "Names of classes in 80 prompts, embedded by the tiny dual tower",
    rows,
    columns=("languages", "texts", "seconds", "CPU seconds", "MB at most"),
    notes=[
      f"From the difference of the runs: {rate:,.0f} texts a CPU second. By extrapolation Babel-ImageNet's {_TEXTS:,} "
      f"texts take {_TEXTS / rate / 60:.0f} CPU minutes with this tower, fewer where prompts are equal.",
      "Memory is the largest resident set of the process. No more than a language's sums are kept. Other programs "
      "lengthen the seconds of the clock, and hardly the CPU seconds.",
    ],
  )


def _tower(folder: pathlib.Path) -> list[str]:
  """Writes the folder of a run, untrained; returns the words of its corpus."""
  corpus = common.configure("PRETRAINED=()", files=_FILES)
  vit, t5, dual = (configuration.bound(kind) for kind in (ViTConfig, T5Config, DualConfig))
  batch = {
    "image": np.zeros((1, vit.image_size, vit.image_size, 3), np.uint8),
    "target_tokens": np.ones((1, 1, 8), np.int32),
  }
  params = ContrastiveObjective(vit, t5, dual).init(jax.random.key(0), batch)["params"]
  run = Checkpoints(folder)
  run.save(1, create_state(params, Optimizer(adam)))
  run.close()
  model = model_json.Model(
    {name: model_json.of_config(config) for name, config in {"vit": vit, "t5": t5, "dual": dual}.items()}
  )
  (folder / model_json.NAME).write_text(model_json.as_text(model))
  (folder / VOCABULARY).write_bytes((corpus / "vocabulary.model").read_bytes())
  return sorted(set((corpus / "vocabulary_text.txt").read_text(encoding="utf-8").split()))


def _names(folder: pathlib.Path, codes: list[str], words: list[str]) -> None:
  rng = np.random.default_rng(0)

  def drawn(count: int) -> str:
    return " ".join(rng.choice(words, count))

  labels, prompts = {}, {}
  for code in codes:
    labels[code] = [list(range(_CLASSES)), [f"{drawn(2)} {i}" for i in range(_CLASSES)]]
    prompts[code] = [f"{drawn(3)} {{}} {drawn(1)} {i}" for i in range(_PROMPTS)]
  (folder / "labels.json").write_text(json.dumps(labels))
  (folder / "prompts.json").write_text(json.dumps(prompts))


def _embed(folder: pathlib.Path, out: pathlib.Path) -> tuple[float, float, float]:
  """Returns the seconds, the CPU seconds and the megabytes of `xmcap embed`."""
  command = [
    sys.executable, "-m", "xmcap.cli", "embed", f"--model_dir={folder / 'run'}", f"--out={out}",
    f"--labels={folder / 'labels.json'}", f"--prompts={folder / 'prompts.json'}",
  ]  # fmt: skip
  began = time.perf_counter()
  process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
  _, status, used = os.wait4(process.pid, 0)
  process.returncode = os.waitstatus_to_exitcode(status)
  if process.returncode:
    raise SystemExit(f"failed: {' '.join(command[:4])} ...")
  return time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


if __name__ == "__main__":
  main()
