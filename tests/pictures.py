"""Streams of made-up pictures, for evaluations: what belongs to a picture is a function of its number."""

import types

import numpy as np

from xmcap.data.batch_maker import BatchRows
from xmcap.data.image_stream import ImageStream
from xmcap.data.order import Order

SIDE, VOCABULARY = 16, 64


class _Numbers:
  """The source: numbers in place of records."""

  is_remote = False

  def __init__(self, count):
    self._count = count

  def __len__(self):
    return self._count


class _Made(ImageStream):
  """So many pictures, whose rows a function makes from their numbers."""

  def __init__(self, count, batch):
    super().__init__("made up", batch_size=batch, image_size=SIDE)
    self._open(_Numbers(count), Order(0, [count]))
    self.reader = self._read

  def _read(self, pixels, positions, counted, places):
    rows = [self._row(index) for index in places.indices]
    made = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    pixels[...] = made.pop("image")
    keys = made.pop("key").tolist()
    return BatchRows(keys, self._weighted(made, counted.astype(np.float32)), {}, {})


class Captions(_Made):
  """So many pictures with K = 2 captions each, of 2 to 5 tokens."""

  def _row(self, index):
    return caption(index)

  def _weighted(self, made, weights):
    return {**made, "target_weights": made["target_weights"] * weights[:, None, None]}


class Tags(_Made):
  """So many pictures with up to 2 tags of 5."""

  def _row(self, index):
    return tagged(index)

  def _weighted(self, made, weights):
    return {**made, "weights": weights}


def caption(number):
  """The row of a picture in a batch of `Captions`."""
  rng = np.random.default_rng(int(number))
  weights = (np.arange(5) < rng.integers(2, 6, (2, 1))).astype(np.float32)
  return {
    "image": rng.integers(0, 256, (SIDE, SIDE, 3)).astype(np.uint8),
    "prompt_tokens": rng.integers(3, VOCABULARY, (2, 1)).astype(np.int32),
    "target_tokens": (rng.integers(3, VOCABULARY, (2, 5)) * weights).astype(np.int32),
    "target_weights": weights,
    "key": np.array(f"{number:02d}"),
  }


def tagged(number):
  """The row of a picture in a batch of `Tags`, without its weight."""
  rng = np.random.default_rng(int(number))
  tags = rng.integers(1, 6, 2) * (np.arange(2) < rng.integers(1, 3))
  return {
    "image": rng.integers(0, 256, (SIDE, SIDE, 3)).astype(np.uint8),
    "tags": tags.astype(np.int32),
    "key": np.array(f"{number:02d}"),
  }


def registration(name):
  """Stands for `registry.registration`: a vocabulary whose captions are their tokens."""
  vocabulary = types.SimpleNamespace(
    marks=lambda stabilizer: None,
    prompt=lambda code: [2 + len(code)],
    decode=lambda tokens: " ".join(map(str, tokens)),
  )
  return types.SimpleNamespace(vocabulary=lambda: vocabulary)
