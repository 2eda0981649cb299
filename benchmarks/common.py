"""What the benchmarks share: a small emoji36 corpus, the tiny model, and medians."""

import dataclasses
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable

import jax

from xmcap import configuration
from xmcap.corpora.emoji import corpus as emoji_corpus
from xmcap.corpora.emoji.presets import EMOJI36
from xmcap.data import vocabulary

FILES = ("models/tiny.gin", "data/emoji36.gin", "runs/quickstart.gin")


def corpus(pictures: int = 4_096) -> pathlib.Path:
  """A corpus of its own in the temporary folder, made once."""
  out = pathlib.Path(tempfile.gettempdir()) / f"xmcap-benchmark-{pictures}"
  preset = dataclasses.replace(EMOJI36, num_train=pictures, num_validation=64, num_test=256)
  emoji_corpus.build(preset, out)
  if not (out / "vocabulary.model").exists():
    vocabulary.train_vocabulary(
      str(out / "vocabulary_text.txt"), str(out / "vocabulary.model"), 4_500, span_words=True
    )
  return out


def configure(*overrides: str, files: tuple[str, ...] = FILES) -> pathlib.Path:
  """Parses the quickstart's configuration on that corpus; returns its folder."""
  data = corpus()
  configuration.parse(files, [f"DATA_DIR={data}", *overrides])
  return data


def seconds(run: Callable[[], object], repeats: int = 7) -> float:
  """The median time of `run`, after one call that is not counted."""
  jax.block_until_ready(run())
  times = []
  for _ in range(repeats):
    began = time.perf_counter()
    jax.block_until_ready(run())
    times.append(time.perf_counter() - began)
  return statistics.median(times)
