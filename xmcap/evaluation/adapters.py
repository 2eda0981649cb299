"""A language's adapter, put on a dual tower by its name and taken off again."""

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
  """The folder of a language's adapter within a folder of them, or "" if it has none."""
  path = pathlib.Path(folder, code)
  return str(path) if folder and path.is_dir() else ""


def adapted(
  module: Any, sharded: ShardedParams, text_input: TextInput, adapter: str, batch_size: int = 512
) -> embedder.TextEmbedder:
  """Embeds texts by a dual tower with an adapter; the tower's own parameters are shared, not copied.

  Args:
    module, sharded: the tower, and its parameters.
    text_input: its tokenizer.
    adapter: the folder that `xmcap convert --part=adapter` wrote.
    batch_size: texts at once.

  Raises:
    UsageError: the folder holds no adapter, or one of another tower.
  """
  where = pathlib.Path(adapter, model_json.NAME)
  if not where.is_file():
    raise UsageError(
      f"{adapter}: no adapter ({model_json.NAME} is absent): give what `convert --part=adapter` wrote"
    )
  text = model_json.read(where).config("t5")
  if not isinstance(text, T5Config) or text.adapter == "none":
    raise UsageError(f"{adapter}: holds no adapter: give what `convert --part=adapter` wrote")
  made = embedder.tower(module.vit, text, module.dual)
  held = stacking.flatten(weights.read_all(adapter))
  wanted = jax.eval_shape(
    lambda: made.init(jax.random.key(0), jax.numpy.ones((1, 8), int), method="embed_texts")["params"]
  )
  base = stacking.flatten(sharded.params)
  for path, leaf in stacking.flatten(wanted).items():
    found = held.get(path, base.get(path))
    if found is None or found.shape != leaf.shape:
      shape = "is absent" if found is None else f"has shape {found.shape}, and the tower {leaf.shape}"
      raise UsageError(f"{adapter}: {path} {shape}: this adapter is of another tower")
  put = jax.device_put(stacking.nested(held), sharded.replicated)
  params = merge(sharded.params, put)
  return embedder.TextEmbedder(
    made, ShardedParams(params, sharded.mesh, sharded.rules), text_input, batch_size
  )
