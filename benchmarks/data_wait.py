"""The share of a run's time in which the device waits for data, against a run that reads one batch again and again.

usage: python benchmarks/data_wait.py [--model=tiny|bb --data=FOLDER --steps=N --ks K ... --gin NAME=VALUE ...
                                       --json=FILE]
Trains twice in one process on emoji36: from the stream, and from one fixed batch. Without options, it is the tiny model
of quickstart.sh for 300 steps. On a GPU, benchmarks/gpu gives it BB, which reads larger pictures and is much faster.
"""

import argparse
import itertools
import json
import pathlib
import tempfile
from collections.abc import Sequence

import common
import report

from xmcap import configuration
from xmcap.data.stream import CaptionStream
from xmcap.training import loop
from xmcap.training.hooks import hooks
from xmcap.training.reporting.writers import Writers
from xmcap.training.run import Start

# Compiled as one layer: that takes a tenth of the time.
_BB = (
  "BATCH_SIZE=128",
  "TARGET_LENGTH=32",
  "T5Config.vocab_size=250112",
  "ViTConfig.scan=True",
  "T5Config.scan=True",
)


class _SameBatch:
  """A stream that costs nothing: the batch of step 0 at every step."""

  def __init__(self, stream: CaptionStream):
    self.num_images = stream.num_images
    self._batch = stream.batch(0)

  def batch(self, step, rows=None):
    return self._batch

  def batches(self, start_step=0, rows=None):
    return itertools.repeat(self._batch)


def train(stream, steps: int) -> dict[str, float]:
  """The metrics of the last third of a run (the beginning compiles)."""
  with tempfile.TemporaryDirectory() as model_dir:
    result = loop.train(
      model_dir=model_dir, stream=stream, total_steps=steps, hooks=hooks(log_every=max(1, steps * 2 // 3)),
      pretrained=(), writers=Writers(tensorboard=False), start=Start(say=lambda line: None),
    )  # fmt: skip
  return result.metrics


def configure(
  model: str, data: pathlib.Path, captions_per_image: int | None, bindings: Sequence[str]
) -> None:
  """Parses the configuration of the quickstart, or of BB on the same corpus."""
  files = common.FILES
  options = [
    f"DATA_DIR={data}", "CaptionStream.bucket_window=1", "CaptionStream.target_lengths=(%TARGET_LENGTH,)",
    "CheckpointPolicy.every=0",
  ]  # fmt: skip
  if model == "bb":
    files = ("models/bb.gin", "data/emoji36.gin", "runs/train.gin")
    options += _BB
  if captions_per_image is not None:
    options.append(f"CaptionStream.captions_per_image={captions_per_image}")
  configuration.parse(files, [*options, *bindings])


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
  parser.add_argument("--model", choices=("tiny", "bb"), default="tiny")
  parser.add_argument("--data", type=pathlib.Path, help="emoji36; default: one that is built")
  parser.add_argument("--steps", type=int, default=300)
  parser.add_argument("--ks", type=int, nargs="+", help="captions per image; default: the recipe's")
  parser.add_argument("--gin", nargs="+", default=[], metavar="NAME=VALUE", help="further bindings")
  parser.add_argument("--json", type=pathlib.Path, help="write the figures here, not as a result")
  arguments = parser.parse_args()
  data, found = arguments.data or common.corpus(), []
  for captions_per_image in arguments.ks or [None]:
    configure(arguments.model, data, captions_per_image, arguments.gin)
    streamed = train(CaptionStream(), arguments.steps)
    repeated = train(_SameBatch(CaptionStream()), arguments.steps)
    waiting, ratio = (
      streamed["waiting_for_data"], streamed["captions_per_second"] / repeated["captions_per_second"],
    )  # fmt: skip
    print(f"waiting for data: {waiting:.1%} of the time")
    print(f"ratio of captions/s, stream / one batch again and again: {ratio:.2f}", flush=True)
    found.append({
      "model": arguments.model, "captions_per_image": captions_per_image, "waiting_for_data": waiting,
      "captions_per_second": streamed["captions_per_second"], "of_repeated": ratio,
    })  # fmt: skip
    if arguments.json is not None:
      arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
  if arguments.json is None:
    report.write(
      "data_wait",
      f"Time spent waiting for data ({arguments.model} model)",
      [
        ("share of time that the device waits", f"{waiting:.1%}"),
        ("captions per second, stream / the same batch repeated", f"{ratio:.2f}"),
      ],
    )


if __name__ == "__main__":
  main()
