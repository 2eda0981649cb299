"""The toy's objective on a mixture of two corpora, in this process or in one that kills itself at a step."""

import functools
import os
import signal

import gin
import numpy as np

from tests.training.toy import CLASSES, WIDTH, ToyObjective

STEPS = 12


class MixedStream:
  """The class to learn is the length of the caption; the input has the colour of the picture, and tokens."""

  def __init__(self, root, killed_at=-1):
    from xmcap.data.stream import CaptionStream

    _register()
    with gin.unlock_config():
      for name in ("toy_one", "toy_two"):
        gin.bind_parameter(f"{name}.data_dir", f"{root}/{name}")
    self.stream = CaptionStream("toy_mixture", batch_size=8, target_length=12, image_size=8, seed=3)
    self.num_images, self.killed_at = self.stream.num_images, killed_at
    self.signature = self.stream.signature

  def batch(self, step, rows=None):
    return self._numbers(self.stream.batch(step, rows))

  def batches(self, start_step, rows=None):
    for step, batch in enumerate(self.stream.batches(start_step, rows), start_step):
      if step == self.killed_at:
        os.kill(os.getpid(), signal.SIGKILL)
      yield self._numbers(batch)

  @staticmethod
  def _numbers(batch):
    tokens = batch["target_tokens"][:, 0].astype(np.float32)
    x = np.concatenate([batch["image"][:, 0, 0], tokens], 1)[:, :WIDTH] / 255
    x = np.pad(x, ((0, 0), (0, WIDTH - x.shape[1])))
    lengths = batch["target_weights"][:, 0].sum(1).astype(np.int32)
    return {"x": x, "y": lengths % CLASSES, "w": np.ones(len(x), np.float32), "key": batch["key"]}


@functools.cache
def _register():
  from xmcap.data.registry import Part, register_corpus, register_mixture

  for name in ("toy_one", "toy_two"):
    register_corpus(name, languages=("de", "en"))
  register_mixture(
    "toy_mixture", [Part("toy_one", rate=3), Part("toy_two", languages=("en",), sources=("mt",))]
  )


def run(root, model_dir, killed_at=-1):
  """Trains for STEPS steps with a checkpoint every 4."""
  from xmcap.training.checkpoints.retention import CheckpointPolicy
  from xmcap.training.hooks import hooks
  from xmcap.training.loop import train
  from xmcap.training.optimizer import Optimizer, adam
  from xmcap.training.reporting.writers import Writers
  from xmcap.training.run import Start
  from xmcap.training.schedule import ConstantThenRsqrt

  lines = []
  optimizer = Optimizer(adam, ConstantThenRsqrt(learning_rate=1e-2, constant_steps=None))
  result = train(
    str(model_dir), ToyObjective(), MixedStream(root, killed_at), STEPS, optimizer, hooks=hooks(log_every=4),
    checkpoint=CheckpointPolicy(every=4), writers=Writers(tensorboard=False), start=Start(say=lines.append),
  )  # fmt: skip
  return result, lines
