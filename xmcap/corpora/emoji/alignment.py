"""Learns a dictionary English word -> word of a language from pairs of names, by IBM Model 1.

Source: Brown et al., "The Mathematics of Statistical Machine Translation" (Computational Linguistics, 1993), section
4.1: the probability of a pair of texts is the product over the words of one of the mean of t(word | word of the other),
and EM finds t. An empty English word accounts for words without a counterpart, such as articles.
"""

from collections.abc import Sequence

import numpy as np

_ITERATIONS = 12
_EMPTY = ""


def learn(english: Sequence[Sequence[str]], other: Sequence[Sequence[str]]) -> dict[str, str]:
  """Returns English word -> its most probable counterpart; of equally probable ones, the first to occur.

  Words whose counterpart is more probable for the empty word get none.

  Args:
    english: the words of N texts.
    other: the words of the same texts in the other language.
  """
  sources: dict[str, int] = {_EMPTY: 0}
  targets: dict[str, int] = {}
  cells: dict[tuple[int, int], int] = {}
  tokens, cell_of = [], []  # of each (word of a text, candidate): number of the word, and its cell of t
  count = 0
  for from_words, to_words in zip(english, other, strict=True):
    rows = [0, *(sources.setdefault(word, len(sources)) for word in dict.fromkeys(from_words))]
    for word in to_words:
      column = targets.setdefault(word, len(targets))
      for row in rows:
        tokens.append(count)
        cell_of.append(cells.setdefault((row, column), len(cells)))
      count += 1
  if not count:
    return {}
  token, cell = np.array(tokens), np.array(cell_of)
  row, column = np.array(list(cells)).T
  probability = np.ones(len(cells))
  for _ in range(_ITERATIONS):
    weight = probability[cell]
    expected = np.bincount(cell, weight / np.bincount(token, weight)[token])
    probability = expected / np.bincount(row, expected)[row]
  empty = np.zeros(len(targets))
  empty[column[row == 0]] = probability[row == 0]
  best: dict[int, int] = {}
  for place in np.argsort(-probability, kind="stable").tolist():
    if row[place] and probability[place] > empty[column[place]]:
      best.setdefault(int(row[place]), int(column[place]))
  words, counterparts = list(sources), list(targets)
  return {words[source]: counterparts[target] for source, target in sorted(best.items())}
