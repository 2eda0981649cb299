"""Decides for each caption whether it is in its language, demonstrably in another one, or cannot be told.

1. Script. A caption is wrong with fewer than a quarter of its letters in the language's scripts, and not right with
   fewer than half: a long name among Chinese characters. If no other language of the table or of the references shares
   a script with the language, nothing else is asked.
2. Else the language is compared with each neighbour that shares a script, by the logarithm of a likelihood ratio: that
   of the words, from the references of the two languages (`vocabularies`), plus half that of py3langid (`identifier`),
   whose features overlap. A neighbour without references has no words; then a word counts by whether the references
   of the caption's own language have it.
   The identifier is not asked about captions that words settle.
3. The caption is right if the language beats every neighbour, wrong if a neighbour beats it by `MARGIN`, and else
   undecided. Broken characters (`residue.BROKEN`) are mended first, and a caption that has some is then not right.

Measured on references, and on captions of other languages, by `benchmarks/fidelity.py`.
"""

import enum
from collections.abc import Sequence

import numpy as np

from xmcap import languages
from xmcap.scoring import residue
from xmcap.scoring.health import identifier, scripts, vocabularies
from xmcap.scoring.health.vocabularies import Vocabularies

MARGIN = 4.0
"""By how much another language must beat a caption's own, as the logarithm of a ratio of likelihoods."""

_IDENTIFIER_WEIGHT = 0.5
_SETTLED = 8.0  # the words alone decide from this margin on
# Share of the words of a caption in another language that the references of this one have too.
_SHARED = 0.15
_RULES = 2  # raise it with each change that could change a verdict


class Verdict(enum.IntEnum):
  """What is known about the language of a caption."""

  NO_LETTERS = 0
  UNDECIDED = 1
  RIGHT = 2
  WRONG = 3
  BROKEN = 4


def version() -> str:
  """Returns what the verdicts depend on besides captions and references; XmcapError if py3langid is not installed."""
  return f"{_RULES}.{identifier.version()}"


def judge(
  language: str, captions: Sequence[str], lexicon: Vocabularies, are_references: bool = False
) -> np.ndarray:
  """Returns int8 [captions], the `Verdict` on each caption.

  Args:
    language: the code of the language that the captions should be in.
    captions: the captions.
    lexicon: the words of the references of all languages.
    are_references: whether the captions are `lexicon.samples` of the language; each is then judged by the others.

  Raises:
    UsageError: the language is unknown.
    XmcapError: py3langid is not installed.
  """
  places: dict[str, int] = {}
  place = np.array([places.setdefault(caption, len(places)) for caption in captions], np.int64)
  mended = residue.clean(list(places), (), residue.BROKEN)
  texts = mended.captions
  letters, own = scripts.count_letters(texts, language)
  verdicts = np.full(len(texts), Verdict.RIGHT)
  verdicts[2 * own < letters] = Verdict.UNDECIDED
  verdicts[4 * own < letters] = Verdict.WRONG
  verdicts[letters == 0] = Verdict.NO_LETTERS
  neighbours = vocabularies.neighbours(language, lexicon.samples)
  rows = np.flatnonzero((letters > 0) & (4 * own >= letters))
  if neighbours and len(rows):
    margins = _margins(language, [texts[row] for row in rows], neighbours, lexicon, are_references)
    verdicts[rows[margins <= 0]] = Verdict.UNDECIDED
    verdicts[rows[margins <= -MARGIN]] = Verdict.WRONG
  broken = np.array(sorted(set(mended.lost).union(*mended.rows.values())), np.int64)
  verdicts[broken[verdicts[broken] != Verdict.WRONG]] = Verdict.BROKEN
  return verdicts.astype(np.int8)[place]


def emptied(captions: Sequence[str], verdicts: np.ndarray) -> list[str]:
  """Returns the captions with those in another language replaced by empty ones."""
  return [
    "" if verdict == Verdict.WRONG else caption
    for caption, verdict in zip(captions, verdicts.tolist(), strict=True)
  ]


def share_wrong(verdicts: np.ndarray) -> float | None:
  """Returns the share in [0, 1] of captions that are wrong or broken among those decided; None if there are none."""
  decided = verdicts >= Verdict.RIGHT
  return float((verdicts[decided] != Verdict.RIGHT).mean()) if decided.any() else None


def share_undecided(verdicts: np.ndarray) -> float | None:
  """Returns the share in [0, 1] of undecided verdicts among those on captions with letters; None if there are none."""
  with_letters = verdicts != Verdict.NO_LETTERS
  return float((verdicts[with_letters] == Verdict.UNDECIDED).mean()) if with_letters.any() else None


def _margins(
  language: str,
  captions: Sequence[str],
  neighbours: Sequence[str],
  lexicon: Vocabularies,
  are_references: bool,
) -> np.ndarray:
  """Returns float64 [captions], by how much the language beats its best neighbour; 0 without evidence."""
  by_references, by_own = _of_words(language, captions, lexicon, are_references)
  rows = np.arange(len(captions))
  if by_references.keys() >= set(neighbours):
    rows = np.flatnonzero(np.abs(np.min(list(by_references.values()), axis=0)) < _SETTLED)
  identified = [code for code in neighbours if _identifies(code)]
  ratios = {code: np.zeros(len(captions)) for code in identified}
  if _identifies(language) and len(rows):
    logs = identifier.log_likelihoods([captions[row] for row in rows.tolist()], [language, *identified])
    for place, code in enumerate(identified, 1):
      ratios[code][rows] = _IDENTIFIER_WEIGHT * (logs[:, 0] - logs[:, place])
  # A neighbour that neither has references nor is known to the identifier is never met.
  margins = [
    ratios.get(code, 0.0) + by_references.get(code, by_own)
    for code in neighbours
    if code in ratios or code in by_references
  ]
  return np.min(margins, axis=0) if margins else np.zeros(len(captions))


def _identifies(language: str) -> bool:
  return language in languages.LANGUAGES and identifier.supports(language)


def _of_words(
  language: str, captions: Sequence[str], lexicon: Vocabularies, are_references: bool
) -> tuple[dict[str, np.ndarray], np.ndarray]:
  """Returns code -> float64 [captions], the log ratio of the words for each other language with references.

  Then float64 [captions], that for any language without.
  """
  import scipy.sparse

  if language not in lexicon.columns:
    return {}, np.zeros(len(captions))
  column = lexicon.columns[language]
  words = vocabularies.split(captions, language)
  caption, word = vocabularies.distinct(words)
  row = np.array([lexicon.rows.get(word, -1) for word in words.vocabulary], np.int64)[word]
  counts, total = lexicon.counts[:, column], int(lexicon.totals[column])
  # A reference is judged by the others, so it does not count itself. (None has the words of a mended one.)
  count = np.maximum(counts[row] - are_references, 0)
  own = np.bincount(caption, vocabularies.log_shares(count, total), len(captions))
  occurrences = scipy.sparse.csr_array(
    (np.ones(len(row), np.float32), (caption, row % len(lexicon.counts))),
    shape=(len(captions), len(lexicon.counts)),
  )
  others = occurrences @ lexicon.logs
  by_references = {code: own - others[:, lexicon.columns[code]] for code in lexicon.comparable(language)}
  # The share of words that only one reference has is how often a new caption has a word that none has.
  new = np.clip(np.count_nonzero(counts == 1) / max(total, 1), 0.05, 1 - _SHARED)
  of_known, of_new = np.log((1 - new) / _SHARED), np.log(new / (1 - _SHARED))
  return by_references, np.bincount(caption, np.where(count > 0, of_known, of_new), len(captions))
