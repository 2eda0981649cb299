"""chrF as sacreBLEU defines it, counted with arrays, to the same numbers and faster."""

import numpy as np

from xmcap.scoring.metrics import base

_CODE_POINTS = 0x110000


class Chrf(base.Metric):
  """chrF (Popović, WMT 2015; beta 2) of character n-grams, in [0, 100], equal to sacreBLEU 2.6.0's `CHRF`.

  On the characters of the table's words, without spaces, so word boundaries do not matter. Of several
  references the one with the best score counts for an image. Precision and recall are means over the orders
  that both captions are long enough for. The score of a set of images is computed from its sums, not the mean
  of its images' scores.
  """

  name = "chrf"
  heading = "chrF"
  decimals = 1

  def __init__(self, n: int = 6, beta: int = 2):
    """Takes the longest n-gram in characters, and how many times as much recall counts as precision."""
    self.n = n
    self.beta = beta

  @property
  def signature(self) -> str:
    return f"nc={self.n},nw=0,beta={self.beta},case=mixed,eff=yes,space=no,as=sacrebleu-2.6.0"

  def statistics(self, corpus: base.Corpus) -> np.ndarray:
    """Returns float64 [images, 3n]: for each order, n-grams of the hypothesis, of the best reference, of both."""
    captions = [
      "".join(words)
      for hypothesis, references in zip(corpus.hypotheses, corpus.references, strict=True)
      for words in (hypothesis, *references)
    ]
    image = np.repeat(np.arange(len(corpus.references)), [1 + len(group) for group in corpus.references])
    is_reference = np.diff(image, prepend=-1) == 0
    matches = _matches(captions, image, is_reference, self.n)

    length = np.array([len(caption) for caption in captions])
    references = np.flatnonzero(is_reference)
    image = image[references]
    total = np.maximum(length[:, None] - np.arange(self.n), 0)
    in_reference = total[references]
    # As in sacreBLEU: n-grams longer than the reference are not held against the hypothesis.
    in_hypothesis = np.where(in_reference > 0, total[~is_reference][image], 0)
    pairs = np.stack([in_hypothesis, in_reference, matches[references]], axis=2).astype(np.float64)
    pairs = pairs.reshape(len(references), 3 * self.n)

    # Stable, so that of two references as good the first counts.
    order = np.lexsort((-self._f_score(pairs), image))
    return pairs[order[np.flatnonzero(np.diff(image, prepend=-1))]]

  def aggregate(self, totals: np.ndarray, count: np.ndarray) -> np.ndarray:
    del count
    return self._f_score(totals)

  def image_scores(self, statistics: np.ndarray) -> np.ndarray:
    return self._f_score(statistics)

  def _f_score(self, totals: np.ndarray) -> np.ndarray:
    """Returns float64 [...] from float64 [..., 3n], with sacreBLEU's operations in its order."""
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


def _matches(captions: list[str], image: np.ndarray, is_reference: np.ndarray, n: int) -> np.ndarray:
  """Counts the character n-grams that a reference shares with the hypothesis of its image.

  An n-gram can only be shared where its first n - 1 characters are, so each order looks at the positions that
  the order before has left.

  Args:
    captions: C texts: of each image the hypothesis, then its references.
    image: int64 [C], the image of a caption.
    is_reference: bool [C], false for the hypotheses.
    n: the longest order.

  Returns:
    int64 [C, n], 0 for hypotheses.
  """
  characters, alphabet_size = _numbered("".join(captions))
  length = np.array([len(caption) for caption in captions])
  caption = np.repeat(np.arange(len(captions)), length)
  left = np.cumsum(length)[caption] - np.arange(len(characters))
  in_reference = is_reference[caption]
  hypothesis, reference = np.flatnonzero(~in_reference), np.flatnonzero(in_reference)
  # What is known of the n-gram that starts at a position: its image and all characters but the last, as a number.
  hypothesis_prefix, reference_prefix = image[caption[hypothesis]], image[caption[reference]]

  matches = np.zeros((len(captions), n), np.int64)
  for order in range(n):
    fits = left[hypothesis] > order
    hypothesis, hypothesis_prefix = hypothesis[fits], hypothesis_prefix[fits]
    fits = left[reference] > order
    reference, reference_prefix = reference[fits], reference_prefix[fits]
    if not len(hypothesis):
      break
    hypothesis_key = hypothesis_prefix * alphabet_size + characters[hypothesis + order]
    reference_key = reference_prefix * alphabet_size + characters[reference + order]
    keys, count = _unique(hypothesis_key)

    number = np.minimum(np.searchsorted(keys, reference_key), len(keys) - 1)
    shared = keys[number] == reference_key
    reference, reference_prefix = reference[shared], number[shared]
    is_shared = np.zeros(len(keys), bool)
    is_shared[reference_prefix] = True
    number = np.searchsorted(keys, hypothesis_key)
    shared = is_shared[number]
    hypothesis, hypothesis_prefix = hypothesis[shared], number[shared]

    pairs, pair_count = _unique(caption[reference] * len(keys) + reference_prefix)
    shared_count = np.minimum(pair_count, count[pairs % len(keys)])
    matches[:, order] = np.bincount(pairs // len(keys), shared_count, minlength=len(captions))
  return matches


def _numbered(text: str) -> tuple[np.ndarray, int]:
  """Returns each character as a number from 0, int64 [characters], and how many different ones there are."""
  code_points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
  occurs = np.zeros(_CODE_POINTS, bool)
  occurs[code_points] = True
  return (np.cumsum(occurs) - 1)[code_points], int(occurs.sum())


def _unique(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns the different keys in order, and how often each occurs."""
  keys = np.sort(keys)
  first = np.flatnonzero(np.diff(keys, prepend=-1))
  return keys[first], np.diff(first, append=len(keys))
