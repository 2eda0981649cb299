"""Texts to embeddings by a dual tower, on the devices that hold its parameters, in constant memory."""

from collections.abc import Sequence
from typing import Any

import gin
import jax
import numpy as np

from xmcap import configuration
from xmcap.data.text_input import TextInput
from xmcap.errors import UsageError, one_line
from xmcap.evaluation import sharded_params
from xmcap.evaluation.text_embedding import EmbedsTexts
from xmcap.models.dual import DualConfig, DualTower
from xmcap.models.t5 import T5Config
from xmcap.models.text_tower import TextConfig
from xmcap.models.vit import ViTConfig
from xmcap.terminal import shown
from xmcap.training import sharding
from xmcap.training.hosts import stopping

_SHORTEST = 8  # pieces; lengths are this and its doubles, so that few programs are compiled


def tower(vit: ViTConfig, text: T5Config | TextConfig, dual: DualConfig) -> DualTower:
  """A dual tower to embed with: what its scale and bias begin with is not asked for."""
  return DualTower(vit, text, dual, log_scale=0.0, bias=0.0, max_log_scale=0.0)


def configured_tower() -> DualTower:
  """The dual tower of gin's `ViTConfig`, `T5Config` and `DualConfig`; UsageError if none is configured."""
  text = TextConfig if gin.get_bindings(TextConfig) else T5Config
  try:
    return tower(configuration.bound(ViTConfig), configuration.bound(text), configuration.bound(DualConfig))
  except (TypeError, RuntimeError) as error:  # gin, for parameters that nothing binds
    raise UsageError(
      f"no dual tower is configured ({one_line(error)}): give the folder of a run of runs/contrastive.gin"
    ) from None


class TextEmbedder(EmbedsTexts):
  """Embeds texts with a dual tower, in batches of about equal length.

  If the parameters are sharded over several processes, all call it with the same texts, each feeds those of its own
  devices, and all get all embeddings.

  Args:
    module: a `DualTower`.
    sharded: its parameters.
    text_input: the tokenizer that it was trained with.
    batch_size: texts at once; rounded up to what the devices share evenly.
  """

  def __init__(
    self,
    module: Any,
    sharded: sharded_params.ShardedParams,
    text_input: TextInput,
    batch_size: int = 512,
  ):
    super().__init__(sharded, batch_size, f"{text_input.max_length} pieces")
    self.text_input = text_input
    self._embed = jax.jit(
      lambda params, batch: module.apply({"params": params}, batch["tokens"], method="embed_texts"),
      out_shardings=sharded.replicated,  # whole on every host
    )

  def _window(
    self, texts: Sequence[str], tokenized: Sequence[str], first: int, language: str
  ) -> tuple[np.ndarray, np.ndarray]:
    del tokenized
    encoded, cut = self.text_input.encode_all(texts, language)
    lengths = np.array([len(ids) for ids in encoded])
    if lengths.min() <= self.text_input.added:
      place = int(lengths.argmin())
      raise UsageError(f"text {first + place} ('{shown(texts[place])}'): is empty; leave it out")
    self.cut += cut
    found: np.ndarray | None = None
    order = np.argsort(lengths, kind="stable")
    for start in range(0, len(order), self.batch_size):
      stopping.evaluation_batch(f"text {first + start}")
      chosen = order[start : start + self.batch_size]
      embedded = self._batch([encoded[place] for place in chosen], int(lengths[chosen[-1]]))
      if found is None:
        found = np.empty((len(texts), embedded.shape[-1]), np.float32)
      found[chosen] = embedded[: len(chosen)]
    assert found is not None
    return found, np.ones(len(texts), bool)

  def _batch(self, encoded: Sequence[Sequence[int]], longest: int) -> np.ndarray:
    most = self.text_input.max_length
    length = most if self.text_input.fixed else _SHORTEST
    while length < longest:
      length *= 2
    length = min(length, most)
    tokens = np.full((self.batch_size, length), self.text_input.pad_id, np.int32)
    for row, ids in zip(tokens, encoded, strict=False):
      row[: len(ids)] = ids
    batch = sharding.put_batch({"tokens": tokens[self._fed]}, self._sharded.mesh, self.batch_size, self._fed)
    with self._sharded.computing():
      return np.asarray(self._embed(self._sharded.params, batch))
