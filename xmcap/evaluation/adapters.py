"""Combines a dual tower with the adapter of a language."""

import pathlib
from typing import Any

import jax

from xmcap.errors import UsageError
from xmcap.evaluation import embedder
from xmcap.evaluation.sharded_params import ShardedParams
from xmcap.models import model_json, stacking
from xmcap.models.t5 import T5Config
from xmcap.models.text_tower import TextConfig
from xmcap.training.checkpoints import weights
from xmcap.training.optimizer import merge


def of_language(texts: embedder.TextEmbedder, folder: str, code: str) -> embedder.TextEmbedder:
  """Returns a text embedder with the adapter of a language, or `texts` if the language has none.

  The tower's parameters are shared, not copied.

  Args:
    texts: embeds texts with the tower alone.
    folder: has a folder CODE, which `xmcap convert --part=adapter` wrote, for each language with an adapter; "": none.
    code: the language.

  Raises:
    UsageError: CODE holds no adapter, or that of another tower.
  """
  path = pathlib.Path(folder, code)
  if not folder or not path.is_dir():
    return texts
  where = path / model_json.NAME
  if not where.is_file():
    raise UsageError(
      f"{path}: not an adapter ({model_json.NAME} is missing): give the output of `convert --part=adapter`"
    )
  model = model_json.read(where)
  config = model.config("t5" if model.text is None else "text")
  if not isinstance(config, T5Config | TextConfig) or config.adapter == "none":
    raise UsageError(f"{path}: holds no adapter: give the output of `convert --part=adapter`")
  module: Any = embedder.tower(texts.module.vit, config, texts.module.dual)
  held = stacking.flatten(weights.read_all(path))
  wanted = jax.eval_shape(
    lambda: module.init(jax.random.key(0), jax.numpy.ones((1, 8), int), method="embed_texts")["params"]
  )
  sharded = texts.sharded
  base = stacking.flatten(sharded.params)
  for name, leaf in stacking.flatten(wanted).items():
    found = held.get(name, base.get(name))
    if found is None or found.shape != leaf.shape:
      shape = "is missing" if found is None else f"has shape {found.shape}, but {leaf.shape} in the tower"
      raise UsageError(f"{path}: {name} {shape}: this adapter belongs to another tower")
  params = merge(sharded.params, jax.device_put(stacking.nested(held), sharded.replicated))
  return embedder.TextEmbedder(
    module, ShardedParams(params, sharded.mesh, sharded.rules), texts.text_input, texts.batch_size
  )
