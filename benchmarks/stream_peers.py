"""The stream of training examples against the loaders of torch, Grain and tf.data, on one core.

usage: python benchmarks/stream_peers.py [--pictures=512] [--turns=5]

Pictures and captions are those of benchmarks/stream.py. All give batches of 64 pictures of 224 x 224 uint8, each with a
caption of 64 tokens by the same SentencePiece model. All but tf.data decode JPEGs scaled in the DCT domain and resize
them with Pillow's antialiased filter: the same pixels. tf.data scales in the DCT domain (`ratio=2`), with the fast DCT,
and resizes without antialiasing; it makes no captions. Peers read a file a picture and hold all captions in memory.

All take turns in one process, a batch each, on the calling thread without prefetching, and are measured in seconds of
CPU. Grain takes part if it is installed. At the end, by how much scaled decoding changes pixels.
"""

import argparse
import pathlib
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator

import gin
import numpy as np
import photographs
import report
import tensorflow as tf
import torch
from PIL import Image
from torch.utils import data as torch_data

from xmcap.data import images
from xmcap.data.registry import register_corpus
from xmcap.data.stream import CaptionStream
from xmcap.data.vocabulary import EOS_ID

try:
  import grain
except ImportError:
  grain = None

_SIZE = 224
_BATCH = 64
_LENGTH = 64


def _pixels(path: str) -> np.ndarray:
  with Image.open(path) as image:
    image.draft("RGB", (_SIZE, _SIZE))
    return np.array(image.convert("RGB").resize((_SIZE, _SIZE), Image.Resampling.BILINEAR))


class _Examples(torch_data.Dataset):
  """Pictures, uint8 [H, W, 3], with a random caption, int32 [T]."""

  def __init__(self, stream: CaptionStream, folder: str):
    self._vocabulary = stream.vocabulary
    self.paths, self._captions = [], []
    for record in stream.source:
      path = pathlib.Path(folder, f"{record.key}.jpg")
      path.write_bytes(record.image)
      self.paths.append(str(path))
      self._captions.append([caption.text for caption in record.captions])

  def __len__(self) -> int:
    return len(self.paths)

  def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
    (ids,) = self._vocabulary.encode_all([random.choice(self._captions[index])])
    tokens = np.zeros(_LENGTH, np.int32)
    ids = [*ids, EOS_ID][:_LENGTH]
    tokens[: len(ids)] = ids
    return _pixels(self.paths[index]), tokens


def _own(stream: CaptionStream) -> Iterator[object]:
  for step in range(len(stream.source) // _BATCH):
    yield stream.batch(step)


def _grain(examples: _Examples) -> Iterator[object]:
  dataset = grain.MapDataset.range(len(examples)).shuffle(seed=0).map(examples.__getitem__).batch(_BATCH)
  return (dataset[number] for number in range(len(dataset)))


def _tf_data(examples: _Examples) -> Iterable[object]:
  def pixels(path: tf.Tensor) -> tf.Tensor:
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, ratio=2, dct_method="INTEGER_FAST")
    return tf.cast(tf.round(tf.image.resize(image, (_SIZE, _SIZE))), tf.uint8)

  dataset = tf.data.Dataset.from_tensor_slices(examples.paths).shuffle(len(examples)).map(pixels)
  options = tf.data.Options()
  # Otherwise its own threads would make batches during the turns of the others.
  options.autotune.enabled = False
  options.experimental_optimization.inject_prefetch = False
  options.experimental_optimization.apply_default_optimizations = False
  return dataset.batch(_BATCH, drop_remainder=True).with_options(options).as_numpy_iterator()


def _endless(make: Callable[[], Iterable[object]]) -> Iterator[object]:
  while True:
    yield from make()


def _differences(stream: CaptionStream) -> tuple[float, int]:
  """The mean and the largest difference of a pixel from that of whole decoding, in grey levels."""
  differences = []
  for record in stream.source.read(range(_BATCH)):
    whole = images.fit(images.decode(record.image, record.key), record.key, _SIZE)
    scaled = images.load(record.image, record.key, _SIZE)
    differences.append(np.abs(scaled.astype(int) - whole))
  return float(np.mean(differences)), int(np.max(differences))


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--pictures", type=int, default=512)
  parser.add_argument("--turns", type=int, default=5)
  arguments = parser.parse_args()
  torch.set_num_threads(1)
  tf.config.threading.set_intra_op_parallelism_threads(1)
  tf.config.threading.set_inter_op_parallelism_threads(1)
  register_corpus("photographs")
  gin.bind_parameter("photographs.data_dir", str(photographs.corpus(arguments.pictures)))
  stream = CaptionStream("photographs", batch_size=_BATCH, target_length=_LENGTH, image_size=_SIZE)
  with tempfile.TemporaryDirectory() as folder:
    examples = _Examples(stream, folder)
    makers: dict[str, Callable[[], Iterable[object]]] = {
      "xmcap": lambda: _own(stream),
      "torch DataLoader, Pillow": lambda: torch_data.DataLoader(
        examples, _BATCH, shuffle=True, drop_last=True
      ),
      "tf.data, other pixels, no captions": lambda: _tf_data(examples),
    }
    if grain is not None:
      makers["Grain, Pillow"] = lambda: _grain(examples)
    runs = {name: _endless(make) for name, make in makers.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    per_turn = arguments.pictures // _BATCH
    for _ in range((arguments.turns + 1) * per_turn):
      for name, run in runs.items():
        began = time.process_time()
        next(run)
        times[name].append(time.process_time() - began)
  rows = []
  for name, values in times.items():
    counted = values[per_turn:]  # in the first turn, files are read for the first time
    ratio = statistics.median(
      own / other for own, other in zip(times["xmcap"][per_turn:], counted, strict=True)
    )
    rows.append((name, f"{_BATCH / statistics.median(counted):.0f}", f"{ratio:.2f}"))
    print("{:<36} {:>6} pictures/s a core, {} of xmcap".format(*rows[-1]))
  mean, largest = _differences(stream)
  note = f"Scaled decoding differs from whole decoding by {mean:.2f} grey levels on average, and by {largest} at most."
  print(note)
  report.write(
    "stream_peers", "Pictures per second of a core, with other loaders", rows,
    columns=("loader", "pictures per second", "of xmcap's, in the same turn"), notes=[note],
  )  # fmt: skip


if __name__ == "__main__":
  main()
