"""Combines a dual tower with the adapter of a language."""

import pathlib
from typing import Any

import jax

from xmcap.data.text_input import TextInput
from xmcap.errors import UsageError
from xmcap.evaluation import embedder
from xmcap.evaluation.sharded_params import ShardedParams
from xmcap.models import model_json, stacking
from xmcap.models.t5 import T5Config
from xmcap.training.checkpoints import weights
from xmcap.training.optimizer import merge


def find(folder: str, code: str) -> str:
  """The folder of a language's adapter in a folder of adapters, or "" if there is none."""
  path = pathlib.Path(folder, code)
  return str(path) if folder and path.is_dir() else ""


def adapted(
  module: Any, sharded: ShardedParams, text_input: TextInput, adapter: str, batch_size: int = 512
) -> embedder.TextEmbedder:
  """A text embedder for a dual tower with an adapter; the tower's parameters are shared, not copied.

  Args:
    module: the tower.
    sharded: the tower's parameters.
    text_input: the tower's tokenizer.
    adapter: the folder that `xmcap convert --part=adapter` wrote.
    batch_size: texts per batch.

  Raises:
    UsageError: the folder holds no adapter, or that of another tower.
  """
  where = pathlib.Path(adapter, model_json.NAME)
  if not where.is_file():
    raise UsageError(
      f"{adapter}: not an adapter ({model_json.NAME} is missing): give the output of `convert --part=adapter`"
    )
  text = model_json.read(where).config("t5")
  if not isinstance(text, T5Config) or text.adapter == "none":
    raise UsageError(f"{adapter}: holds no adapter: give the output of `convert --part=adapter`")
  made = embedder.tower(module.vit, text, module.dual)
  held = stacking.flatten(weights.read_all(adapter))
  wanted = jax.eval_shape(
    lambda: made.init(jax.random.key(0), jax.numpy.ones((1, 8), int), method="embed_texts")["params"]
  )
  base = stacking.flatten(sharded.params)
  for path, leaf in stacking.flatten(wanted).items():
    found = held.get(path, base.get(path))
    if found is None or found.shape != leaf.shape:
      shape = "is missing" if found is None else f"has shape {found.shape}, but {leaf.shape} in the tower"
      raise UsageError(f"{adapter}: {path} {shape}: this adapter belongs to another tower")
  put = jax.device_put(stacking.nested(held), sharded.replicated)
  params = merge(sharded.params, put)
  return embedder.TextEmbedder(
    made, ShardedParams(params, sharded.mesh, sharded.rules), text_input, batch_size
  )
