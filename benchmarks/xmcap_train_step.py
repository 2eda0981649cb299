"""xmcap's side of train_step.py: the text part of a captioner, without a picture, through the real step."""

import argparse
import importlib.metadata

import jax
import jax.numpy as jnp
import numpy as np
import turns
from flax import linen as nn
from flax import traverse_util

from xmcap.models import stacking
from xmcap.models.captioner import shift_right
from xmcap.models.t5 import PAD_ID, Decoder, Encoder, T5Config, TokenEmbedder
from xmcap.models.vit import ViTConfig
from xmcap.training import step as step_lib
from xmcap.training.objectives import CaptionObjective
from xmcap.training.optimizer import Optimizer


class Text(nn.Module):
  """What `CaptionObjective` asks of a captioner, without the picture: t5x's model on the same tokens."""

  vit: ViTConfig
  t5: T5Config

  def setup(self):
    self.token_embedder = TokenEmbedder(self.t5)
    self.encoder = Encoder(self.t5)
    self.decoder = Decoder(self.t5)

  def __call__(self, image, prompt_tokens, target_tokens, deterministic=True):
    return self.logits(self.hidden(image, prompt_tokens, target_tokens, deterministic))

  def hidden(self, image, prompt_tokens, target_tokens, deterministic=True):
    inputs, targets = (x.reshape(-1, x.shape[-1]) for x in (prompt_tokens, target_tokens))
    mask = inputs != PAD_ID
    tokens = jnp.concatenate([inputs, shift_right(targets)], axis=-1)
    embedded, shifted = jnp.split(self.token_embedder(tokens), [inputs.shape[-1]], axis=1)
    encoded = self.encoder(embedded, mask, deterministic)
    hidden = self.decoder(shifted, encoded, mask, deterministic)
    return hidden.reshape(*target_tokens.shape, -1)

  def logits(self, hidden):
    return self.decoder.logits(hidden)


def _weights(path, shape):
  """The same numbers as for the others, who have layers one by one."""
  layers = stacking.one_by_one(path, shape[0], lambda n: n)
  return (
    np.stack([turns.weights(name, shape[1:]) for name in layers]) if layers else turns.weights(path, shape)
  )


def main():
  parser = argparse.ArgumentParser()
  turns.add_options(parser)
  shape = turns.shape_of(parser.parse_args())

  t5 = T5Config(
    shape.vocabulary, shape.width, shape.heads, shape.head_dim, shape.encoder_layers, shape.decoder_layers,
    shape.mlp, dtype=shape.dtype,
  )  # fmt: skip
  vit = ViTConfig(shape.width, 1, 4 * shape.width, shape.heads, 16, 224, dtype=shape.dtype)
  objective = CaptionObjective(vit, t5)
  objective.module = Text(vit, t5)

  tokens = turns.tokens(shape)
  targets = tokens["targets"][:, None]
  batch = {
    "image": jnp.zeros((shape.batch, 224, 224, 3), jnp.uint8),
    "prompt_tokens": jnp.asarray(tokens["inputs"][:, None]),
    "target_tokens": jnp.asarray(targets),
    "target_weights": jnp.asarray(targets > 0, jnp.float32),
  }
  shapes = jax.eval_shape(objective.init, jax.random.key(0), batch)["params"]
  flat = traverse_util.flatten_dict(shapes, sep="/")
  params = {path: jnp.asarray(_weights(path, leaf.shape)) for path, leaf in flat.items()}
  optimizer = Optimizer()
  state = step_lib.create_state(traverse_util.unflatten_dict(params, sep="/"), optimizer)
  del params
  train_step = jax.jit(step_lib.make_train_step(objective, optimizer, total_steps=1_000), donate_argnums=0)
  compiled = train_step.lower(state, batch).compile()

  def steps(count: int):
    nonlocal state
    for _ in range(count):
      state, metrics = compiled(state, batch)
    jax.block_until_ready(state)
    return lambda: float(metrics["loss"])

  memory = compiled.memory_analysis()
  turns.serve(
    f"xmcap, jax {importlib.metadata.version('jax')}",
    {"xmcap": steps},
    {
      "parameters": sum(leaf.size for leaf in flat.values()),
      "gigaflops": compiled.cost_analysis()["flops"] / 1e9,
      "gigabytes": compiled.cost_analysis()["bytes accessed"] / 1e9,
      "temporaries": memory.temp_size_in_bytes / 2**30,
    },
  )


if __name__ == "__main__":
  main()
