"""chrF as sacreBLEU defines it."""

import collections
from collections.abc import Sequence

import numpy as np

from xmcap.scoring.metrics import base


class Chrf(base.CaptionMetric):
  """chrF (Popović, WMT 2015; beta 2) of character n-grams, in [0, 100], equal to sacreBLEU 2.6.0's `CHRF`.

  It uses the characters of the words without spaces, so word boundaries do not matter. Of several references the one
  with the best score counts. Precision and recall are means over the orders for which both captions are long enough.
  The score of a set of images is computed from summed counts; it is not the mean of the scores.
  """

  name = "chrf"
  heading = "chrF"
  decimals = 1
  most = 100.0
  n = 6  # length of the longest n-gram, in characters
  beta = 2  # weight of recall relative to precision
  width = 3 * n
  signature = f"nc={n},nw=0,beta={beta},case=mixed,eff=yes,space=no,as=sacrebleu-2.6.0"

  def statistics(self, corpus: base.Corpus) -> np.ndarray:
    """Returns float64 [images, 3n]: for each order, n-grams in the hypothesis, in the best reference, in both."""
    from sacrebleu.metrics.helpers import extract_all_char_ngrams

    def count(words: Sequence[str]) -> list[collections.Counter[str]]:
      return extract_all_char_ngrams("".join(words), self.n)

    pairs, image = [], []
    for number, (hypothesis, references) in enumerate(zip(corpus.hypotheses, corpus.references, strict=True)):
      ngrams = count(hypothesis)
      pairs += [_matches(ngrams, count(reference)) for reference in references]
      image += [number] * len(references)
    values = np.array(pairs, np.float64)
    # A stable sort: in a tie the first reference counts.
    order = np.lexsort((-self.image_scores(values), image))
    return values[order[np.flatnonzero(np.diff(image, prepend=-1))]]

  def aggregate(self, totals: np.ndarray, count: np.ndarray | np.float64) -> np.ndarray:
    """Returns float64 [...] from float64 [..., 3n], with the operations in the same order as sacreBLEU."""
    shape = totals.shape[:-1]
    precision, recall, orders = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for hypothesis, reference, matched in np.moveaxis(totals.reshape(*shape, self.n, 3), (-2, -1), (0, 1)):
      counts = (hypothesis > 0) & (reference > 0)
      precision += np.divide(matched, hypothesis, out=np.zeros(shape), where=counts)
      recall += np.divide(matched, reference, out=np.zeros(shape), where=counts)
      orders += counts
    precision /= np.maximum(orders, 1)
    recall /= np.maximum(orders, 1)
    factor = self.beta**2
    weighted = factor * precision + recall
    product = (1 + factor) * precision * recall
    return 100 * np.divide(product, weighted, out=np.zeros(shape), where=weighted > 0)


def _matches(
  hypothesis: list[collections.Counter[str]], reference: list[collections.Counter[str]]
) -> list[int]:
  """Returns for each order the number of n-grams in the hypothesis, in the reference, and in both."""
  statistics = []
  for ours, theirs in zip(hypothesis, reference, strict=True):
    in_reference = sum(theirs.values())
    # As in sacreBLEU, the hypothesis is not penalised for n-grams longer than the reference.
    in_hypothesis = sum(ours.values()) if in_reference else 0
    common = sum(min(ours[ngram], theirs[ngram]) for ngram in ours.keys() & theirs.keys())
    statistics += [in_hypothesis, in_reference, common]
  return statistics
