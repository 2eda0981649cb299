"""Texts to embeddings by a dual tower, on the devices that hold its parameters, in constant memory."""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import gin
import jax
import numpy as np

from xmcap import configuration
from xmcap.data.text_input import TextInput
from xmcap.errors import UsageError, one_line
from xmcap.evaluation import sharded_params
from xmcap.models.dual import DualConfig, DualTower
from xmcap.models.t5 import T5Config
from xmcap.models.text_tower import TextConfig
from xmcap.models.vit import ViTConfig
from xmcap.scoring import embedding_files, prompts
from xmcap.terminal import shown
from xmcap.training import sharding
from xmcap.training.hosts import stopping

_WINDOW = 16  # batches that are ordered by length together
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


def of_split(
  stream: Any,
  count: int,
  function: Callable[[Any, Any], tuple[jax.Array, ...]],
  sharded: sharded_params.ShardedParams,
  name: str,
) -> tuple[np.ndarray, ...]:
  """Returns what a function makes of the first pictures of a stream, all of them whole on every host.

  Args:
    count: so many pictures; rows beyond them are included, and have weight 0.
    function: (parameters, batch) -> arrays [B, ...].
    name: of the evaluation, for the watch over hanging processes.
  """
  stream, steps = stream.first(count, sharded.groups)
  rows = sharding.process_rows(sharded.mesh, stream.pictures)
  compiled = jax.jit(function, out_shardings=sharded.replicated)
  found = []
  with contextlib.closing(stream.batches(0, rows, num_steps=steps)) as batches:
    for number, batch in enumerate(batches, 1):
      stopping.evaluation_batch(f"batch {number} of {name}")
      arrays = sharding.put_batch(batch, sharded.mesh, stream.pictures, rows)
      with sharded.computing():
        found.append(jax.device_get(compiled(sharded.params, arrays)))
  return tuple(np.concatenate(part) for part in zip(*found, strict=True))


class TextEmbedder:
  """Embeds texts in batches of about equal length.

  If the parameters are sharded over several processes, all call it with the same texts, each feeds those of its own
  devices, and all get all embeddings.

  Args:
    module: a `DualTower`.
    sharded: its parameters.
    text_input: the tokenizer that it was trained with.
    batch_size: texts at once; rounded up to what the devices share evenly.

  Attributes:
    cut: how many texts were longer than the tokenizer takes.
  """

  def __init__(
    self,
    module: Any,
    sharded: sharded_params.ShardedParams,
    text_input: TextInput,
    batch_size: int = 512,
  ):
    self.text_input = text_input
    self.batch_size = -(-batch_size // sharded.groups) * sharded.groups
    self.cut = 0
    self._sharded = sharded
    self._fed = sharding.process_rows(sharded.mesh, self.batch_size)
    self._embed = jax.jit(
      lambda params, batch: module.apply({"params": params}, batch["tokens"], method="embed_texts"),
      out_shardings=sharded.replicated,  # whole on every host
    )

  def __call__(self, texts: Iterable[str], language: str = "") -> Iterator[np.ndarray]:
    """Yields the embeddings of texts in their order, float32 [some, E] at a time; UsageError for an empty text.

    `language`: their code, for a tokenizer that asks.
    """
    texts = iter(texts)
    seen = 0
    while window := list(itertools.islice(texts, _WINDOW * self.batch_size)):
      yield self._window(window, seen, language)
      seen += len(window)

  def all(self, texts: Sequence[str], language: str = "") -> np.ndarray:
    """Returns the embeddings of texts, float32 [N, E]; equal texts are embedded once."""
    unique = list(dict.fromkeys(texts))
    place = {text: number for number, text in enumerate(unique)}
    return np.concatenate(list(self(unique, language)))[[place[text] for text in texts]]

  def ensemble(self, names: Sequence[str], templates: Sequence[str], language: str = "") -> np.ndarray:
    """Returns the embedding of each name in all templates, float32 [N, E]: the normalised mean of the normalised.

    Each distinct text is embedded once, and no more than the sums of the names are kept.
    """
    unique = list(dict.fromkeys(names))
    weights = prompts.distinct(templates)
    counts = np.array(list(weights.values()), np.float64)
    total, done = None, 0
    filled = (prompts.fill(template, name) for name in unique for template in weights)
    for block in self(filled, language):
      total = np.zeros((len(unique), block.shape[-1])) if total is None else total
      place = np.arange(done, done + len(block))
      np.add.at(total, place // len(counts), block * counts[place % len(counts), None])
      done += len(block)
    assert total is not None
    place = {name: number for number, name in enumerate(unique)}
    mean = embedding_files.normalized(total, "mean of prompts")
    return mean[[place[name] for name in names]]

  def _window(self, texts: Sequence[str], first: int, language: str) -> np.ndarray:
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
    return found

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
