"""Finds predictions that miss words of the references only by a second spelling of a letter."""

import collections
import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from xmcap.scoring.tokenizers import base, orthography
from xmcap.scoring.words import Words

_MOST_LETTERS = 3


@dataclasses.dataclass(frozen=True)
class Variants:
  """The captions of one language that would match more words after `orthography.unify`.

  Attributes:
    captions: their number.
    predictions: the number of predictions.
    letters: (what they write, what the references write) of the letters that differ most; "" for nothing.
  """

  captions: int
  predictions: int
  letters: tuple[tuple[str, str], ...]

  def __str__(self) -> str:
    many = f"{self.captions:,} of {self.predictions:,} captions"
    if not self.letters:
      return f"{many} write letters in another way than the references"
    written, wanted = (" ".join(filter(None, of)) or "nothing" for of in zip(*self.letters, strict=True))
    return f"{many} write {written} where the references write {wanted}"


def find(
  tokenizer: base.Tokenizer, texts: Sequence[str], words: Words, is_reference: np.ndarray
) -> Variants | None:
  """Returns the variants among captions, None if unifying letters would match no further word.

  A word matches if any reference of the language has it.

  Args:
    tokenizer: the tokeniser that made the words.
    texts: C captions, predictions and references.
    words: their words.
    is_reference: bool [C].
  """
  language = tokenizer.language
  unified = orthography.unify(language, texts, but_nfkc=tokenizer.normalization.startswith("nfkc"))
  changed = np.fromiter(map(str.__ne__, texts, unified), np.bool_, len(texts))
  if not changed.any():
    return None
  again = tokenizer.words([unified[place] for place in np.flatnonzero(changed).tolist()])
  owner = np.repeat(np.arange(len(texts)), words.lengths)
  owner_again = np.repeat(np.flatnonzero(changed), again.lengths)
  # The references' words as they are, and once unified: those of unchanged references with the new ones of the others.
  known = _used(words, is_reference[owner])
  unchanged = _used(words, (is_reference & ~changed)[owner])
  known_again = unchanged | _used(again, is_reference[owner_again])
  matched = np.bincount(owner, _is_known(words, known), len(texts))
  still, now = _is_known(words, known_again) * ~changed[owner], _is_known(again, known_again)
  matched_again = np.bincount(owner, still, len(texts)) + np.bincount(owner_again, now, len(texts))
  found = np.flatnonzero(~is_reference & (matched_again > matched))
  if not len(found):
    return None
  references = [texts[place] for place in np.flatnonzero(is_reference).tolist()]
  letters = _letters(language, [texts[place] for place in found.tolist()], references)
  return Variants(len(found), int((~is_reference).sum()), letters)


def _used(words: Words, chosen: np.ndarray) -> set[str]:
  return {words.vocabulary[number] for number in np.unique(words.numbers[chosen]).tolist()}


def _is_known(words: Words, known: set[str]) -> np.ndarray:
  of_vocabulary = np.array([word in known for word in words.vocabulary], np.float64)
  return of_vocabulary[words.numbers] if len(of_vocabulary) else np.zeros(0)


def _letters(
  language: str, predictions: Iterable[str], references: Iterable[str]
) -> tuple[tuple[str, str], ...]:
  """Returns pairs of (the predictions', the references') spelling, the most frequent first."""
  here, there = "\n".join(predictions), "\n".join(references)
  found: collections.Counter[tuple[str, str]] = collections.Counter()
  for rule in orthography.rules(language):
    for variant, standard in rule.pairs.items():
      if variant == standard or (variant not in here and variant not in there):
        continue
      of_here, of_there = here.count(variant), there.count(variant)
      # How often each side writes the variant, of all places where it could.
      others_here = here.count(standard) if standard else len(here)
      others_there = there.count(standard) if standard else len(there)
      if of_here * others_there > of_there * others_here:
        found[variant, standard] = of_here
      elif of_here * others_there < of_there * others_here:
        found[standard, variant] = others_here if standard else 1
  return tuple(pair for pair, count in found.most_common(_MOST_LETTERS) if count)
