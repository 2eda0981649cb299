"""Captions and references of words parted by spaces: given, drawn, or of hypothesis."""

import random

import hypothesis
import hypothesis.strategies as st

from xmcap.scoring import metrics

_LETTERS = st.sampled_from("abcde")


def corpora_of(words):
  """A strategy of corpora: lists of (hypothesis, references)."""
  caption = st.lists(words, max_size=9).map(" ".join)
  return st.lists(st.tuples(caption, st.lists(caption, min_size=1, max_size=4)), min_size=1, max_size=8)


def any_corpus(max_examples, words=_LETTERS):
  """Runs a test of one argument, (hypothesis, references) of each image, on so many corpora."""

  def decorated(test):
    settings = hypothesis.settings(max_examples=max_examples, database=None)
    return settings(hypothesis.given(corpora_of(words))(test))

  return decorated


def corpus(hypotheses, references) -> metrics.Corpus:
  return metrics.Corpus(
    [text.split() for text in hypotheses], [[text.split() for text in texts] for texts in references]
  )


def drawn(words, images=300):
  """Returns (hypothesis, references) of each image, of words that are drawn, the first ones most often."""
  rng = random.Random(0)
  weights = [1 / (place + 1) for place in range(len(words))]

  def caption():
    return " ".join(rng.choices(words, weights=weights, k=rng.randint(0, 20)))

  hypotheses = [caption() for _ in range(images)]
  return [(text, [caption() for _ in range(rng.randint(1, 5))]) for text in hypotheses]


def as_sacrebleu(references):
  """sacreBLEU wants the first reference of every image, then the second of every image; None for none."""
  return [
    [texts[i] if i < len(texts) else None for texts in references] for i in range(max(map(len, references)))
  ]
