"""BLEU with sacreBLEU's formula on our own n-gram counts: the same numbers, but faster."""

import functools

import numpy as np

from xmcap.scoring.metrics import base

_MAX_N = 4
TINY, SMALL = 1e-15, 1e-9  # bleu_scorer.py: keep a precision without n-grams or matches from dividing by 0


class Bleu(base.CaptionMetric):
  """BLEU (Papineni et al., ACL 2002) with n-grams of up to n words, in [0, 100], as in sacreBLEU.

  Up to rounding it equals `sacrebleu.BLEU(tokenize="none", force=True, max_ngram_order=n)` on the words joined by
  spaces: the brevity penalty uses the reference closest in length (the shorter one in a tie), and precisions without a
  match are smoothed ("exp"). The score of a set of images is computed from summed counts. The score of an image equals
  `sacrebleu.sentence_bleu`: a caption of fewer than n words is not penalised for n-grams that it cannot have.
  """

  decimals = 1
  most = 100.0
  effective_order = False  # of the score of a set

  def __init__(self, n: int = _MAX_N):
    """Takes the length of the longest n-gram, 1 to 4 words."""
    self.n = n
    self.name, self.heading = f"bleu_{n}", f"BLEU-{n}"
    self.width = 2 + 2 * n

  @property
  def signature(self) -> str:
    """SacreBLEU's signature without the number of references."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize="none", force=True, max_ngram_order=self.n, effective_order=self.effective_order)
    metric.num_refs = None
    signature = metric.get_signature().format().replace("|", ",").replace(":", "=")
    return f"n={self.n},{signature.replace('version=', 'sacrebleu=')}"

  def statistics(self, corpus: base.Corpus) -> np.ndarray:
    """Returns float64 [images, 2 + 2n].

    The columns are the length of the hypothesis, the length of the closest reference, the matched n-grams of each
    order, and all n-grams of each order.
    """
    lengths, correct, total = np.split(_count(corpus), [2, 2 + _MAX_N], axis=1)
    return np.concatenate([lengths, correct[:, : self.n], total[:, : self.n]], axis=1)

  def aggregate(self, totals: np.ndarray, count: np.ndarray | np.float64) -> np.ndarray:
    return self._scores(totals, effective_order=False)

  def image_scores(self, statistics: np.ndarray) -> np.ndarray:
    return self._scores(statistics, effective_order=True)

  def _scores(self, totals: np.ndarray, effective_order: bool) -> np.ndarray:
    """Does what `sacrebleu.BLEU.compute_bleu` does with smoothing "exp", but for all sets at once."""
    counts = np.rint(totals)
    length, reference = counts[..., 0], counts[..., 1]
    correct, total = counts[..., 2 : 2 + self.n], counts[..., 2 + self.n :]
    # The k-th precision without a match counts as 1 / 2**k matches.
    matched = np.where(correct > 0, correct, 0.5 ** np.cumsum(correct == 0, axis=-1))
    possible = total > 0
    logs = np.log(100 * matched / np.maximum(total, 1), out=np.zeros_like(matched), where=possible)
    orders = np.maximum(possible.sum(axis=-1), 1) if effective_order else self.n
    brevity = np.minimum(1 - reference / np.maximum(length, 1), 0)
    scored = correct.any(axis=-1) & (effective_order | possible.all(axis=-1))
    return np.where(scored, np.exp(brevity + logs.sum(axis=-1) / orders), 0.0)[()]


class SentenceBleu(Bleu):
  """The mean of BLEU-4 of each caption, in [0, 100].

  On the words of the tokeniser `13a` the score of a caption is `sacrebleu.sentence_bleu`, upper case kept, which Kasai
  et al., "Transparent Human Evaluation for Image Captioning" (NAACL 2022), used.
  """

  effective_order = True
  is_extra = True

  def __init__(self):
    super().__init__()
    self.name, self.heading, self.width = "sentence_bleu", "sentence BLEU", 1

  def statistics(self, corpus: base.Corpus) -> np.ndarray:
    """Returns float64 [images, 1], the score of each image; the mean is the score of the corpus."""
    return super().image_scores(super().statistics(corpus))[:, None]

  def aggregate(self, totals: np.ndarray, count: np.ndarray | np.float64) -> np.ndarray:
    return totals[..., 0] / count

  def image_scores(self, statistics: np.ndarray) -> np.ndarray:
    return statistics[:, 0]


class CocoBleu(Bleu):
  """BLEU as pycocoevalcap has it, in [0, 1]: not smoothed, and all n-grams count in short captions too."""

  decimals = 3
  most = 1.0
  scaled = True
  is_extra = True

  def __init__(self, n: int):
    super().__init__(n)
    self.name, self.heading = f"coco_bleu_{n}", f"BLEU-{n} (pycocoevalcap)"

  @property
  def signature(self) -> str:
    return f"n={self.n},smooth=none,as=pycocoevalcap-1.2"

  def _scores(self, totals: np.ndarray, effective_order: bool) -> np.ndarray:
    return unsmoothed(totals)[..., self.n - 1]


def unsmoothed(totals: np.ndarray) -> np.ndarray:
  """Returns float64 [..., n], BLEU-1 to n in [0, 1] as in pycocoevalcap's bleu_scorer.py.

  Args:
    totals: float64 [..., 2 + 2n], the statistics of `Bleu(n)`, of an image or summed over images.
  """
  length, reference = totals[..., 0], totals[..., 1]
  correct, guess = np.split(totals[..., 2:], 2, axis=-1)
  precisions = np.cumprod((correct + TINY) / (guess + SMALL), axis=-1)
  ratio = (length + TINY) / (reference + SMALL)
  # An empty caption has a ratio near 0, whose penalty is 0.
  with np.errstate(over="ignore"):
    penalty = np.exp(np.minimum(1 - 1 / ratio, 0))
  return precisions ** (1 / np.arange(1, correct.shape[-1] + 1)) * penalty[..., None]


@functools.lru_cache(maxsize=1)
def _count(corpus: base.Corpus) -> np.ndarray:
  """Returns the statistics for the largest n; cached, because the four metrics of a table share them."""
  counts = corpus.ngrams
  length = counts.length[~counts.is_reference]
  columns = [length, _closest_reference(corpus)]
  for order in counts.orders(_MAX_N):
    most = np.zeros_like(order.count)
    np.maximum.at(most, order.hypothesis, order.count[order.reference])
    clipped = np.minimum(order.count, most)
    columns.append(np.bincount(counts.image[order.caption], clipped, minlength=counts.num_images))
  columns.extend(np.maximum(length - n, 0) for n in range(_MAX_N))
  return np.stack(columns, axis=1).astype(np.float64)


def _closest_reference(corpus: base.Corpus) -> np.ndarray:
  """Returns int64 [images], the length of the reference closest in length to the hypothesis; the shorter in a tie."""
  counts = corpus.ngrams
  references = np.flatnonzero(counts.is_reference)
  image, length = counts.image[references], counts.length[references]
  distance = np.abs(length - counts.length[~counts.is_reference][image])
  beyond = int(counts.length.max()) + 1
  first = np.flatnonzero(np.diff(image, prepend=-1))
  return np.minimum.reduceat(distance * beyond + length, first) % beyond
