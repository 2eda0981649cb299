"""Folders of runs with numbers as real ones write them, made up by formulas."""

import pathlib

import numpy as np

from xmcap.languages import LANGUAGES
from xmcap.training.reporting import metrics_file

START = 1_760_000_000.0
PARTS = {"decoder": 310.0, "encoder": 280.0, "projection": 21.0, "token_embedder": 520.0, "vit": 240.0}


class Writer:
  """Writes the file of a run; its clock is moved by hand."""

  def __init__(self, folder, begins=START):
    self.path = pathlib.Path(folder) / metrics_file.FILE
    self.path.parent.mkdir(parents=True, exist_ok=True)
    self.now = begins

  def write(self, step, values, seconds=0.0):
    self.now += seconds
    with open(self.path, "a") as file:
      file.write(metrics_file.line(step, self.now, values))

  def event(self, step, what, **facts):
    self.write(step, {"event": what, **facts})


def captioner(
  folder, seed, steps, total, rate=3e-4, captions=3900.0, mfu=0.46, diverges=None, ends=None, every=100
):
  """A captioner's run: reports, evaluations every 20 of them, what a TPU slice would say of speed and memory."""
  rng = np.random.default_rng(seed)
  writer = Writer(folder, START + 3600 * seed)
  writer.event(
    0,
    "started",
    total_steps=total,
    parameters=675_876_096,
    devices=64,
    device_kind="TPU v4",
    xla_flags="--xla_a=1",
  )
  step_seconds = 2048 / captions
  for number, step in enumerate(range(every, steps + 1, every)):
    loss = 1.9 + 7.2 * (1 + step / 180) ** -0.62 * (1e-4 / rate) ** 0.05 + rng.normal(0, 0.035)
    grad = 0.35 + 3 * (1 + step / 150) ** -0.7
    if diverges is not None and step > diverges:
      loss += 5.5 * (1 - np.exp(-(step - diverges) / 900)) + abs(rng.normal(0, 0.4))
      grad *= 9 + 5 * rng.random()
    evaluating = 0.38 if number % 20 == 0 and number else 0.0
    waiting = max(0.0, rng.normal(0.012, 0.006)) + (0.12 if 60 < number < 70 else 0)
    slow = 1 + max(0.0, rng.normal(0, 0.01)) + waiting
    saving, compiling = (0.01 if number % 10 == 0 else 0.0), (0.55 if number == 0 else 0.0)
    lr = rate * min(1.0, step / 1000) * min(1.0, (10_000 / step) ** 0.5)
    values = {
      "train/loss": loss,
      "train/accuracy": 1 / (1 + np.exp((loss - 2.6) * 1.1)) * 0.8,
      "train/grad_norm": grad,
      "train/learning_rate": lr,
      "train/skipped": 0.0,
      "speed/step_seconds": step_seconds * slow,
      "speed/step_seconds_p50": step_seconds,
      "speed/step_seconds_p95": step_seconds * (1.03 + 6 * waiting),
      "speed/steps_per_second": 1 / (step_seconds * slow),
      "speed/pictures_per_second": captions / slow,
      "speed/captions_per_second": captions / slow,
      "speed/tokens_per_second": 17.3 * captions / slow,
      "speed/mfu": mfu / slow,
      "time/waiting_for_data": waiting * (1 - evaluating - compiling),
      "time/evaluating": evaluating,
      "time/saving": saving,
      "time/compiling": compiling,
      "time/profiling": 0.0,
      "memory/peak_bytes": 24.6e9,
      "memory/peak_share": 24.6e9 / (30.75 * 2**30),
    }
    for place, (part, size) in enumerate(PARTS.items()):
      share = (0.5, 0.35, 0.2, 0.6, 0.1)[place]
      values[f"grad_norm/{part}"] = grad * share * rng.lognormal(0, 0.12)
      values[f"update_norm/{part}"] = lr * size * 0.9 * rng.lognormal(0, 0.03)
      values[f"param_norm/{part}"] = size * (1 + 0.12 * (1 - np.exp(-step / 6000)))
    writer.write(step, values, every * step_seconds * slow / (1 - evaluating - saving - compiling))
    if number % 20 == 19:
      evaluation(writer, step, loss, rng)
  if ends:
    facts = (
      {}
      if ends != "failed"
      else {"error": f"step {steps}: loss or gradient was not finite 100 steps in a row"}
    )
    writer.event(steps, ends, **facts)
  return writer


def evaluation(writer, step, loss, rng):
  """CIDEr-D in 36 languages, and the loss of a validation split."""
  best = 1.05 / (1 + np.exp(1.4 * (loss - 2.9)))
  scores = {code: best * (0.55 + 0.9 * np.sin(7 * i) ** 2) for i, code in enumerate(LANGUAGES)}
  values = {"eval/cider_d": float(np.mean(list(scores.values()))), "eval/validation/loss": loss + 0.08}
  values.update({f"eval/cider_d/{code}": score * rng.lognormal(0, 0.03) for code, score in scores.items()})
  writer.write(step, values, 60)


def four(folder):
  """Four runs: two on the way, one done, one that diverged; returns the time of the last line."""
  folder = pathlib.Path(folder)
  captioner(folder / "bb-cc3m-k1", 0, 20_000, 20_000, ends="finished")
  captioner(folder / "bb-cc3m-k8", 1, 16_400, 20_000, captions=9_700, mfu=0.39)
  captioner(folder / "bg-cc3m-k8", 2, 9_300, 20_000, rate=1e-4, captions=2_600, mfu=0.52)
  captioner(folder / "bb-lr1e-3", 3, 7_200, 20_000, rate=1e-3, diverges=4_300, ends="failed")
  return max(Writer(path).now for path in folder.iterdir())
