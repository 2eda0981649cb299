"""t5x's side of train_step.py: its Trainer, its EncoderDecoderModel and its Adafactor, as its mT5 run files have them.

Runs where t5x imports (`train_step.py --t5x_python=PATH`). The variant `t5x` looks tokens up by a one-hot product, as
t5x does; `t5x_gather` is told to gather.
"""

import argparse
import importlib.metadata
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import seqio
import turns
from flax import linen as nn
from flax import traverse_util
from flax.core import freeze
from t5x import adafactor, models, partitioning, trainer, utils
from t5x.examples.t5 import layers, network


class GatherTransformer(network.Transformer):
  """t5x's network with `one_hot` off in its embedding, and nothing else changed."""

  def setup(self):
    config = self.config
    self.shared_embedding = layers.Embed(
      num_embeddings=config.vocab_size, features=config.emb_dim, dtype=config.dtype, attend_dtype=jnp.float32,
      embedding_init=nn.initializers.normal(stddev=1.0), one_hot=False, name="token_embedder",
    )  # fmt: skip
    self.encoder = network.Encoder(config=config, shared_embedding=self.shared_embedding)
    self.decoder = network.Decoder(config=config, shared_embedding=self.shared_embedding)


def main():
  parser = argparse.ArgumentParser()
  turns.add_options(parser)
  shape = turns.shape_of(parser.parse_args())
  config = network.T5Config(
    vocab_size=shape.vocabulary, dtype=jnp.dtype(shape.dtype), emb_dim=shape.width, num_heads=shape.heads,
    num_encoder_layers=shape.encoder_layers, num_decoder_layers=shape.decoder_layers, head_dim=shape.head_dim,
    mlp_dim=shape.mlp, mlp_activations=("gelu", "linear"), dropout_rate=0.0,
  )  # fmt: skip
  given = turns.tokens(shape)
  targets = given["targets"]
  batch = {
    "encoder_input_tokens": given["inputs"],
    "decoder_input_tokens": np.concatenate([np.zeros_like(targets[:, :1]), targets[:, :-1]], 1),
    "decoder_target_tokens": targets,
    "decoder_loss_weights": (targets > 0).astype(np.int32),
  }
  shapes = {name: array.shape for name, array in batch.items()}
  types = {name: array.dtype for name, array in batch.items()}
  vocabulary = seqio.PassThroughVocabulary(size=shape.vocabulary)
  rules = partitioning.standard_logical_axis_rules()
  partitioner = partitioning.PjitPartitioner(num_partitions=1, logical_axis_rules=rules)

  trainers, state = {}, None
  for variant, network_class in (("t5x", network.Transformer), ("t5x_gather", GatherTransformer)):
    optimizer = adafactor.Adafactor(
      decay_rate=0.8, step_offset=0, logical_factor_rules=adafactor.standard_logical_factor_rules()
    )
    model = models.EncoderDecoderModel(network_class(config), vocabulary, vocabulary, optimizer, z_loss=1e-4)
    initializer = utils.TrainStateInitializer(
      optimizer, model.get_initial_variables, shapes, partitioner, types
    )
    if state is None:
      state = initializer.from_scratch(jax.random.PRNGKey(0))
      flat = traverse_util.flatten_dict(state.params, sep="/")
      sizes = {path: leaf.shape for path, leaf in flat.items()}
      state = state.replace_params(None)
      del flat
      params = {path: jnp.asarray(turns.weights(path, size)) for path, size in sizes.items()}
      state = state.replace_params(freeze(traverse_util.unflatten_dict(params, sep="/")))
      del params
    trainers[variant] = trainer.Trainer(
      model=model,
      train_state=state,
      partitioner=partitioner,
      eval_names=[],
      summary_dir=None,
      train_state_axes=initializer.train_state_axes,
      rng=jax.random.PRNGKey(0),
      learning_rate_fn=utils.create_learning_rate_scheduler(
        "constant * rsqrt_decay", base_learning_rate=0.1, warmup_steps=10_000
      ),
      num_microbatches=None,
    )
    trainers[variant].train_state = None

  notes = {}
  for variant, one in trainers.items():
    one.train_state = state
    one.compile_train(batch)
    costs = one._compiled_train_step.cost_analysis()
    temporaries = one._compiled_train_step.memory_analysis().temp_size_in_bytes
    notes[variant] = {
      "gigaflops": costs["flops"] / 1e9,
      "gigabytes": costs["bytes accessed"] / 1e9,
      "temporaries": temporaries / 2**30,
    }
    one.train_state = None

  def steps(variant: str):
    one = trainers[variant]

    def run(count: int):
      nonlocal state
      # One state for both: it is donated to whoever takes the steps.
      one.train_state, state = state, None
      metrics = one.train(itertools.repeat(batch), count, start_step=0)
      state = jax.block_until_ready(one.train_state)
      one.train_state = None
      return lambda: float(metrics.result()["loss_per_nonpadding_target_token"].value)

    return run

  turns.serve(
    f"t5x, jax {importlib.metadata.version('jax')}", {name: steps(name) for name in trainers}, notes
  )


if __name__ == "__main__":
  main()
