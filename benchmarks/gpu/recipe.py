"""What is measured: BB on COCO-35L, as `xmcap train` reads it from gin files; turns at the GPU; files of figures."""

import argparse
import contextlib
import fcntl
import json
import os
import pathlib
import signal
from collections.abc import Iterator
from typing import Any

FILES = ("models/bb.gin", "runs/train_coco35l.gin")
TOKENS = 32
# The same architecture, so small that a CPU compiles and runs it within seconds.
TINY = {
  "IMAGE_SIZE": 32, "ViTConfig.width": 32, "ViTConfig.depth": 1, "ViTConfig.mlp_dim": 64, "ViTConfig.num_heads": 2,
  "T5Config.vocab_size": 512, "T5Config.emb_dim": 32, "T5Config.num_heads": 2, "T5Config.head_dim": 16,
  "T5Config.num_encoder_layers": 1, "T5Config.num_decoder_layers": 1, "T5Config.mlp_dim": 64,
  "T5Config.dropout_rate": 0.0,
}  # fmt: skip


def bindings(captions: int, captions_per_image: int, tiny: bool = False) -> list[str]:
  """Gin bindings, `NAME=VALUE`, of a step of so many captions."""
  given = {
    "BATCH_SIZE": captions,
    "CAPTIONS_PER_IMAGE": captions_per_image,
    "TARGET_LENGTH": TOKENS,
    **(TINY if tiny else {}),
  }
  return [f"{name}={value}" for name, value in given.items()]


def topology(device_kind: str) -> str:
  """The name that `xmcap plan` has for a GPU; h100 in a rehearsal without one."""
  return "h200" if "H200" in device_kind else "h100"


def options(description: str) -> argparse.ArgumentParser:
  """The options of every part."""
  parser = argparse.ArgumentParser(description=description.split("\n", maxsplit=1)[0])
  parser.add_argument("--json", type=pathlib.Path, required=True, help="the file to write")
  parser.add_argument("--tiny", action="store_true", help="a rehearsal at a size for CPUs")
  return parser


TURN = "XMCAP_GPU_TURN"
"""The environment's name of the file by which the parts that run side by side take turns at the GPU."""
_MOST_ALONE, _MOST_BESIDE = 120, 240  # seconds


@contextlib.contextmanager
def turn(alone: bool) -> Iterator[None]:
  """Waits until the GPU may be used.

  A process that measures is alone on it; those that compile, which uses the GPU too, may do so beside each other. Who
  hangs is ended by a signal, for the others wait; a rehearsal may take its time.
  """
  if not (name := os.environ.get(TURN)):
    yield
    return
  with open(name, "a", encoding="utf-8") as file:
    fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
    if os.environ.get("JAX_PLATFORMS") != "cpu":
      signal.alarm(_MOST_ALONE if alone else _MOST_BESIDE)
    try:
      yield
    finally:
      signal.alarm(0)
      # A process that was forked meanwhile has the file too, and would keep the lock.
      fcntl.flock(file, fcntl.LOCK_UN)


def write(file: pathlib.Path, document: Any) -> None:
  """Replaces a file of JSON at once, so that whoever is killed leaves the last whole one."""
  partial = file.with_suffix(".partial")
  partial.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
  partial.replace(file)


def read(file: pathlib.Path) -> Any:
  """The document of a file; {} if the part that writes it has failed."""
  return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
