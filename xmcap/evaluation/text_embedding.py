"""What embeds texts, whatever the model: the base class of dual towers' and Word2VisualVec's."""

import abc
import collections
import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from xmcap.evaluation import sharded_params
from xmcap.scoring import embedding_files, prompts
from xmcap.training import sharding

_WINDOW = 16  # batches that are ordered by length together


class EmbedsTexts(abc.ABC):
  """Embeds texts in windows of several batches.

  Args:
    sharded: the model's parameters.
    batch_size: texts at once; rounded up to what the devices share evenly.
    longest: the longest text that is read whole, as in `64 pieces`.

  Attributes:
    batch_size: texts at once.
    cut: number of texts so far that were longer than `longest`.
    unread: number of texts so far that have nothing that the model knows, and are embedded as empty ones.
    longest: as given.
  """

  def __init__(self, sharded: sharded_params.ShardedParams, batch_size: int, longest: str):
    self.batch_size = -(-batch_size // sharded.groups) * sharded.groups
    self.longest, self.cut, self.unread = longest, 0, 0
    self._sharded = sharded
    # The rows of a batch that this process feeds.
    self._fed = sharding.process_rows(sharded.mesh, self.batch_size)

  def __call__(self, texts: Iterable[str], language: str = "") -> Iterator[np.ndarray]:
    """Yields the embeddings of texts in their order, float32 [some, E] at a time, of length 1.

    UsageError for an empty text, if the model cannot read it. `language`: their code.
    """
    for embedded, known in self._windows(((text, "") for text in texts), language):
      self.unread += int((~known).sum())
      yield embedded

  def all(self, texts: Sequence[str], language: str = "", tokenized: Sequence[str] = ()) -> np.ndarray:
    """Returns the embeddings of texts, float32 [N, E]; equal texts are embedded once.

    `tokenized` has the words of each text, joined by spaces, where a release has split it, else "". Only a model that
    reads words uses them.
    """
    pairs = list(zip(texts, tokenized or itertools.repeat(""), strict=False))
    place = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
    embedded, known = map(np.concatenate, zip(*self._windows(place, language), strict=True))
    rows = [place[pair] for pair in pairs]
    self.unread += int((~known[rows]).sum())
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
    mean = embedding_files.normalized(total, "mean of prompts")
    return mean[[place[name] for name in names]]

  def _windows(
    self, pairs: Iterable[tuple[str, str]], language: str
  ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    pairs, seen = iter(pairs), 0
    while window := list(itertools.islice(pairs, _WINDOW * self.batch_size)):
      texts, tokenized = zip(*window, strict=True)
      yield self._window(texts, tokenized, seen, language)
      seen += len(window)

  @abc.abstractmethod
  def _window(
    self, texts: Sequence[str], tokenized: Sequence[str], first: int, language: str
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns the embeddings of some texts, float32 [N, E], and whether each has something that the model knows, [N].

    `first` is the number of the first, for messages.
    """
