"""METEOR on characters, as Chinese captions of COCO-CN were scored: exact matches, no Java, any language."""

import collections
import re
from collections.abc import Sequence

import numpy as np

from xmcap.scoring.metrics import base

_ALPHA, _BETA, _GAMMA = 0.85, 0.2, 0.6
# Latin letters and digits in a row are one token; any other character is one of its own.
_TOKEN = re.compile(r"[0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f]+|\S")
# Partial alignments kept after each token, as in METEOR 1.5; a caption of many hundred tokens gets fewer.
_BEAM = 40
_WORK = 16_000
_NEAREST = 12  # free places tried on each side of a token's own


class MeteorChar(base.CaptionMetric):
  """METEOR (Denkowski and Lavie, 2014) of characters: the figures of Li et al. (2019), "COCO-CN", Table 8.

  A token is a character, but a run of Latin letters and digits is one token. Only equal tokens match. Of all
  alignments the one with the most matches counts, of these that with the fewest chunks, then the least displacement.
  With m matches, P = m / tokens of the caption, R = m / tokens of the reference, F = P R / (alpha P + (1 - alpha) R),
  and the score is F (1 - gamma (chunks / m)^beta), without the penalty for a caption equal to its reference. The best
  reference of an image counts. The score of a corpus is that of the sums; a caption equal to its reference counts as
  one chunk there, unless all are. In [0, 1].
  Deviation from METEOR 1.5: its Java program has no Chinese, and on words it gives other numbers than the paper prints.
  """

  name = "meteor_char"
  heading = "METEOR (characters)"
  scaled = True
  is_extra = True
  width = 4
  signature = f"unit=characters,latin=runs,alpha={_ALPHA:g},beta={_BETA:g},gamma={_GAMMA:g},match=exact"

  def statistics(self, corpus: base.Corpus) -> np.ndarray:
    """Returns float64 [images, 4]: tokens of the caption, tokens of its best reference, matches, chunks."""
    rows = np.zeros((len(corpus.hypotheses), self.width))
    for row, hypothesis, references in zip(rows, corpus.hypotheses, corpus.references, strict=True):
      tokens = _tokens(hypothesis)
      counted = np.array([_count(tokens, _tokens(reference)) for reference in references], np.float64)
      row[:] = counted[self.image_scores(counted).argmax()]
    return rows

  def aggregate(self, totals: np.ndarray, count: np.ndarray | np.float64) -> np.ndarray:
    caption, reference, matches, chunks = np.moveaxis(np.asarray(totals, np.float64), -1, 0)
    precision, recall = _share(matches, caption), _share(matches, reference)
    mean = _share(precision * recall, _ALPHA * precision + (1 - _ALPHA) * recall)
    equal = (matches == caption) & (matches == reference) & (chunks <= count)
    return (mean * (1 - _GAMMA * np.where(equal, 0.0, _share(chunks, matches)) ** _BETA))[()]


def align(hypothesis: Sequence[str], reference: Sequence[str]) -> tuple[int, int, int]:
  """Returns matches, chunks and displacement of the best alignment of equal tokens.

  It goes through the hypothesis with a set of partial alignments; two that use the same places of the reference and end
  at the same one differ only in what they cost, so the cheaper is kept. All are tried where there are no more than the
  beam holds, as in nearly every caption.
  """
  places = collections.defaultdict(int)  # token -> bits of its places in the reference
  for place, token in enumerate(reference):
    places[token] |= 1 << place
  left = collections.Counter(hypothesis)  # token -> how often it is still to come in the hypothesis
  most_matches = {token: min(count, places[token].bit_count()) for token, count in left.items()}
  beam = max(1, min(_BEAM, _WORK // max(1, len(hypothesis))))
  nearest = _NEAREST if beam == _BEAM else 1
  # (places used, place of the last token or -1) -> (matches as a negative number, chunks, displacement)
  states = {(0, -1): (0, 0, 0)}
  for number, token in enumerate(hypothesis):
    left[token] -= 1
    mask = places[token]
    next_states: dict[tuple[int, int], tuple[int, int, int]] = {}
    for (used, last), (matches, chunks, moved) in states.items():
      free = mask & ~used
      if left[token] >= most_matches[token] - (mask & used).bit_count():
        _keep(next_states, (used, -1), (matches, chunks, moved))
      if not free:
        continue
      following = last + 1 if last >= 0 and free >> (last + 1) & 1 else -1
      if following >= 0:
        cost = (matches - 1, chunks, moved + abs(number - following))
        _keep(next_states, (used | 1 << following, following), cost)
      for place in _near(free, number, nearest):
        if place != following:
          cost = (matches - 1, chunks + 1, moved + abs(number - place))
          _keep(next_states, (used | 1 << place, place), cost)
    if len(next_states) > beam:
      next_states = dict(sorted(next_states.items(), key=lambda item: item[1])[:beam])
    states = next_states
  matches, chunks, moved = min(states.values())
  return -matches, chunks, moved


def _tokens(words: Sequence[str]) -> list[str]:
  return [token for word in words for token in _TOKEN.findall(word)]


def _count(hypothesis: Sequence[str], reference: Sequence[str]) -> tuple[int, int, int, int]:
  if hypothesis == reference:
    return len(hypothesis), len(reference), len(hypothesis), min(1, len(hypothesis))
  matches, chunks, _ = align(hypothesis, reference)
  return len(hypothesis), len(reference), matches, chunks


def _keep(states: dict, state: tuple[int, int], cost: tuple[int, int, int]) -> None:
  if state not in states or cost < states[state]:
    states[state] = cost


def _near(free: int, number: int, most: int) -> list[int]:
  """Returns the places of the bits of `free` that are nearest to a number, so many on each side."""
  nearest = []
  above, below = free >> number << number, free & ((1 << number) - 1)
  for _ in range(most):
    if above:
      lowest = above & -above
      nearest.append(lowest.bit_length() - 1)
      above ^= lowest
    if below:
      place = below.bit_length() - 1
      nearest.append(place)
      below ^= 1 << place
  return nearest


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
  return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
