"""Examples a second of one training step in BB's shape, against t5x's own trainer and against transformers + torch.

usage: python benchmarks/train_step.py [--t5x_python=PATH] [--batch=8 --encoder_layers=2 ...]

All train a T5.1.1 of mT5-base's widths and its 250,112 rows, of reduced depth, on the same tokens, from the same
weights (xmcap and t5x), with Adafactor, without dropout. t5x runs where the interpreter PATH imports it: its Trainer,
its EncoderDecoderModel, its Adafactor. It looks tokens up by a one-hot product; `t5x_gather` is the same with its
`one_hot` off. Each is a process that compiles first; then the two of a pair take turns, medians. With the default shape
each process holds 5 to 7 GB.
"""

import argparse
import statistics
import sys

import report
import turns
from turns import Rival


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
  turns.add_options(parser)
  parser.add_argument("--t5x_python", help="an interpreter that imports t5x; without it t5x is left out")
  parser.add_argument("--turns", type=int, default=3, help="of each, after one that does not count")
  parser.add_argument("--steps", type=int, default=2, help="in a turn")
  parser.add_argument("--without", nargs="*", default=[], choices=("t5x", "torch"), help="leave out")
  arguments = parser.parse_args()
  shape = turns.shape_of(arguments)
  print(f"{shape}; examples/s, medians of {arguments.turns} turns of {arguments.steps} steps")

  ours = Rival("xmcap_train_step.py", shape)
  say_costs("xmcap", ours.notes)
  measure = Measure(shape.batch, arguments.turns, arguments.steps)
  ratios = []
  if "t5x" not in arguments.without:
    ratios += against_t5x(ours, shape, arguments.t5x_python, measure)
  if "torch" not in arguments.without:
    theirs = Rival("torch_train_step.py", shape)
    if theirs.notes["parameters"] != ours.notes["parameters"]:
      sys.exit(f"parameters: xmcap {ours.notes['parameters']:,}, torch {theirs.notes['parameters']:,}")
    rates = measure({"xmcap": (ours, "xmcap"), "torch": (theirs, "torch")})
    ratios.append(("xmcap / transformers + torch", f"{rates['xmcap'] / rates['torch']:.2f}"))
    print(f"torch is {theirs.notes['name']}: no z-loss, otherwise the same step")
    print(f"ratio xmcap / transformers + torch: {rates['xmcap'] / rates['torch']:.2f}")
    theirs.close()
  ours.close()
  report.write(
    "train_step",
    "Training speed compared with t5x and torch, BB's text shape",
    ratios,
    notes=[
      f"{shape}; examples per second; medians of {arguments.turns} alternating rounds of {arguments.steps} steps."
    ],
  )


class Measure:
  """Takes turns and prints; called with name -> (rival, variant), returns name -> examples a second."""

  def __init__(self, batch: int, turns_of_each: int, steps: int):
    self._batch, self._turns, self._steps = batch, turns_of_each, steps

  def __call__(self, who):
    runs = {
      name: lambda rival=rival, variant=variant: rival.turn(variant, self._steps)
      for name, (rival, variant) in who.items()
    }
    seconds = turns.in_turns(runs, self._turns)
    for name, (rival, variant) in who.items():
      busy = statistics.median(rival.busy[variant][-self._turns :])
      print(
        f"{name:16s} {self._batch / seconds[name]:7.3f} examples/s, {seconds[name]:6.2f} s a step, {busy:6.2f} s of "
        f"all threads; it held {rival.memory:.1f} GB at most"
      )
    return {name: self._batch / value for name, value in seconds.items()}


def against_t5x(
  ours: Rival, shape: turns.Shape, python: str | None, measure: Measure
) -> list[tuple[str, str]]:
  """Prints and returns both ratios, and that the two had the same loss before the first update and after it."""
  if python is None:
    print("t5x: not measured; give --t5x_python=PATH, an interpreter that imports it")
    return []
  theirs = Rival("t5x_train_step.py", shape, python)
  for variant in ("t5x", "t5x_gather"):
    say_costs(variant, theirs.notes[variant])
  for _ in range(2):
    ours.turn("xmcap", 1)
    theirs.turn("t5x", 1)
  pairs = list(zip(ours.losses["xmcap"], theirs.losses["t5x"], strict=True))
  print("loss of the first steps, xmcap / t5x: " + ", ".join(f"{a:.5f} / {b:.5f}" for a, b in pairs))
  if any(abs(a - b) > 1e-3 * abs(b) for a, b in pairs):
    sys.exit("the two do not train the same model: their losses differ")
  who = {"xmcap": (ours, "xmcap"), "t5x": (theirs, "t5x"), "t5x_gather": (theirs, "t5x_gather")}
  rates = measure(who)
  print(f"ratio xmcap / t5x: {rates['xmcap'] / rates['t5x']:.2f}")
  print(f"ratio xmcap / t5x where both gather: {rates['xmcap'] / rates['t5x_gather']:.2f}")
  theirs.close()
  return [
    ("xmcap / t5x", f"{rates['xmcap'] / rates['t5x']:.2f}"),
    ("xmcap / t5x with a gathering embedding", f"{rates['xmcap'] / rates['t5x_gather']:.2f}"),
  ]


def say_costs(name: str, notes: dict) -> None:
  """What bounds a step: arithmetic, and what it moves through memory, as XLA counts them."""
  print(
    f"{name}: a step is {notes['gigaflops']:,.0f} Gflop and moves {notes['gigabytes']:.1f} GB; temporaries "
    f"{notes['temporaries']:.1f} GB"
  )


if __name__ == "__main__":
  main()
