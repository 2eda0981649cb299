"""A small objective and a stream, whose batch is a function of the step, for tests of the loop."""

import os
import threading
import time

import flax.linen as nn
import flax.linen.partitioning as nn_partitioning
import jax
import jax.numpy as jnp
import numpy as np

WIDTH, HIDDEN, CLASSES = 16, 32, 8


class Toy(nn.Module):
  """Two layers with dropout; logical axes as the real models name them."""

  hidden: int = HIDDEN

  @nn.compact
  def __call__(self, x, deterministic):
    init = nn.initializers.normal(0.3)
    wi = nn_partitioning.param_with_axes("wi", init, (WIDTH, self.hidden), axes=("embed", "mlp"))
    wo = nn_partitioning.param_with_axes("wo", init, (self.hidden, CLASSES), axes=("mlp", "vocab"))
    bias = nn_partitioning.param_with_axes("bias", nn.initializers.zeros, (CLASSES,), axes=("vocab",))
    x = nn_partitioning.with_sharding_constraint(jnp.tanh(x @ wi), ("batch", "mlp"))
    return nn.Dropout(0.1)(x, deterministic=deterministic) @ wo + bias


class ToyObjective:
  def __init__(self, hidden=HIDDEN):
    self.module = Toy(hidden)

  def init(self, rng, batch):
    return self.module.init(rng, batch["x"], True)

  def loss(self, params, batch, rng, deterministic):
    logits = self.module.apply({"params": params}, batch["x"], deterministic, rngs={"dropout": rng})
    labels = jax.nn.one_hot(batch["y"], CLASSES)
    losses = -jnp.sum(jax.nn.log_softmax(logits) * labels, -1)
    weight = jnp.sum(batch["w"])
    return jnp.sum(losses * batch["w"]) / weight, {"weight": weight}


class ToyStream:
  """32 rows a step with a rule to learn; `bad_steps` hold infinite inputs."""

  def __init__(self, rows=32, bad_steps=(), on_batch=None):
    self.num_images, self.bad_steps, self.on_batch = rows, set(bad_steps), on_batch

  def batch(self, step, rows=None):
    rng = np.random.default_rng(step)
    x = rng.normal(size=(self.num_images, WIDTH)).astype(np.float32)
    batch = {
      "x": x,
      "y": np.argmax(x[:, :CLASSES], 1).astype(np.int32),
      "w": rng.integers(1, 4, self.num_images).astype(np.float32),
      "key": np.array([f"{step}-{i}" for i in range(self.num_images)]),
    }
    if step in self.bad_steps:
      batch["x"][0, 0] = np.inf
    return batch if rows is None else {name: array[rows] for name, array in batch.items()}

  def batches(self, start_step, rows=None):
    step = start_step
    while True:
      if self.on_batch:
        self.on_batch(step)
      yield self.batch(step, rows)
      step += 1


def main(model_dir, total_steps, number=None, seconds=0.0):
  """A run that takes seconds, and gets signal `number` so many seconds after its state is there."""
  from xmcap.training.checkpoints.retention import CheckpointPolicy
  from xmcap.training.hooks import hooks
  from xmcap.training.loop import train
  from xmcap.training.optimizer import Optimizer, adam
  from xmcap.training.reporting.writers import Writers
  from xmcap.training.run import Start
  from xmcap.training.schedule import ConstantThenRsqrt

  def begun(step):
    if number is not None:
      threading.Timer(seconds, os.kill, (os.getpid(), number)).start()

  optimizer = Optimizer(adam, ConstantThenRsqrt(learning_rate=1e-2, constant_steps=None))
  stream = ToyStream(on_batch=lambda step: time.sleep(0.01))
  train(
    str(model_dir), ToyObjective(), stream, total_steps, optimizer, hooks=hooks(log_every=50),
    checkpoint=CheckpointPolicy(every=25), writers=Writers(tensorboard=False), start=Start(begun=begun),
  )  # fmt: skip
