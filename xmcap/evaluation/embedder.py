"""Texts to embeddings by a dual tower, on the devices that hold its parameters, in constant memory."""

from collections.abc import Sequence
from typing import Any

import gin
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
from xmcap.training.hosts import stopping

_SHORTEST = 8  # pieces; lengths are this and its doubles, so that few programs are compiled


def tower(vit: ViTConfig, text: T5Config | TextConfig, dual: DualConfig) -> DualTower:
  """A dual tower to embed with, which needs no initial scale and bias."""
  return DualTower(vit, text, dual, log_scale=0.0, bias=0.0, max_log_scale=0.0)


def configured_tower() -> DualTower:
  """The dual tower of gin's `ViTConfig`, `T5Config` and `DualConfig`; UsageError if none is configured."""
  text = TextConfig if gin.get_bindings(TextConfig) else T5Config
  try:
    return tower(configuration.bound(ViTConfig), configuration.bound(text), configuration.bound(DualConfig))
  except (TypeError, RuntimeError) as error:  # gin raises these for missing parameters
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
    self, module: Any, sharded: sharded_params.ShardedParams, text_input: TextInput, batch_size: int = 512
  ):
    def embed(params, batch):
      return module.apply({"params": params}, batch["tokens"], method="embed_texts")

    super().__init__(sharded, embed, batch_size, f"{text_input.max_length} pieces")
    self.module, self.text_input = module, text_input

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
    order = np.argsort(lengths, kind="stable")
    parts = []
    for start in range(0, len(order), self.batch_size):
      stopping.evaluation_batch(f"text {first + start}")
      chosen = [encoded[place] for place in order[start : start + self.batch_size]]
      parts.append(self._batch({"tokens": self._padded(chosen)})[: len(chosen)])
    embedded = np.concatenate(parts)
    found = np.empty_like(embedded)
    found[order] = embedded
    return found, np.ones(len(texts), bool)

  def _padded(self, encoded: Sequence[Sequence[int]]) -> np.ndarray:
    """The ids of texts in ascending order of length, int32 [batch_size, T]."""
    most = self.text_input.max_length
    length = most if self.text_input.fixed else _SHORTEST
    while length < len(encoded[-1]):
      length *= 2
    tokens = np.full((self.batch_size, min(length, most)), self.text_input.pad_id, np.int32)
    for row, ids in zip(tokens, encoded, strict=False):
      row[: len(ids)] = ids
    return tokens
