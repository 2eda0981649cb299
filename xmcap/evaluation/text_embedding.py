"""The base class of text embedders, for dual towers and for Word2VisualVec."""

import abc
import collections
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from xmcap.evaluation import sharded_params
from xmcap.ranked import prompts
from xmcap.reading import embedding_rows
from xmcap.training import sharding

_WINDOW = 16  # batches that are ordered by length together


class EmbedsTexts(abc.ABC):
  """Embeds texts in windows of several batches.

  Attributes:
    sharded: the model's parameters.
    batch_size: texts at once; rounded up to what the devices share evenly.
    longest: the longest text that is read whole, as in `64 pieces`.
    cut: number of embedded texts so far that were longer than `longest`.
    unread: number of texts of `all` so far that have nothing that the model knows, and are embedded as empty ones.
  """

  def __init__(
    self,
    sharded: sharded_params.ShardedParams,
    embed: Callable[[Any, Any], Any],
    batch_size: int,
    longest: str,
  ):
    self.sharded, self.batch_size, self.longest = sharded, sharded.rounded(batch_size), longest
    self.cut = self.unread = 0
    self._embed = jax.jit(embed)

  def __call__(self, texts: Iterable[str], language: str = "") -> Iterator[np.ndarray]:
    """Yields the embeddings of texts in their order, float32 [some, E] at a time, of length 1.

    UsageError for a text that is not empty, but in which the tokenizer finds nothing. `language`: their code.
    """
    for embedded, _ in self._windows(((text, "") for text in texts), language):
      yield embedded

  def all(self, texts: Sequence[str], language: str = "", tokenized: Sequence[str] = ()) -> np.ndarray:
    """Returns the embeddings of texts, float32 [N, E]; equal texts are embedded once.

    `tokenized` has the words of each text, joined by spaces, where a release has split it, else "". Only a model that
    reads words uses them.
    """
    pairs = list(zip(texts, tokenized or itertools.repeat(""), strict=False))
    place = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
    embedded, is_read = map(np.concatenate, zip(*self._windows(place, language), strict=True))
    rows = [place[pair] for pair in pairs]
    self.unread += int((~is_read[rows]).sum())
    return embedded[rows]

  def ensemble(self, names: Sequence[str], templates: Sequence[str], language: str = "") -> np.ndarray:
    """Returns the embedding of each name in all templates, float32 [N, E]: the normalised mean of the normalised.

    Each distinct text is embedded once, and no more than the sums of the names are kept.
    """
    unique = list(dict.fromkeys(names))
    weights = collections.Counter(templates)  # translated templates often coincide
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
    mean = embedding_rows.normalized(total, "mean of prompts")
    return mean[[place[name] for name in names]]

  def _windows(
    self, pairs: Iterable[tuple[str, str]], language: str
  ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    pairs, seen = iter(pairs), 0
    while window := list(itertools.islice(pairs, _WINDOW * self.batch_size)):
      texts, tokenized = zip(*window, strict=True)
      yield self._window(texts, tokenized, seen, language)
      seen += len(window)

  def _batch(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the embeddings of a batch, float32 [B, E]; `arrays` has all its rows."""
    fed = sharding.process_rows(self.sharded.mesh, self.batch_size)
    own = {name: array[fed] for name, array in arrays.items()}
    return self.sharded.compute(self._embed, own, self.batch_size, fed)

  @abc.abstractmethod
  def _window(
    self, texts: Sequence[str], tokenized: Sequence[str], first: int, language: str
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns the embeddings of some texts, float32 [N, E], and whether each has something that the model knows, [N].

    `first` is the number of the first, for messages.
    """
