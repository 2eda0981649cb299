"""Finds predictions that miss words of the references only by a second spelling of a letter."""

import collections
import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from xmcap.scoring.tokenizers import base, orthography
from xmcap.scoring.tokenizers.words import CaptionWords

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
    written, expected = (" ".join(filter(None, of)) or "nothing" for of in zip(*self.letters, strict=True))
    return f"{many} write {written} where the references write {expected}"


def find(
  tokenizer: base.Tokenizer, texts: Sequence[str], words: CaptionWords, is_reference: np.ndarray
) -> Variants | None:
  """Returns the variants among captions, None if unifying letters would match no further word.

  A word matches if any reference of the language has it. Only predictions with a word that does not match count.

  Args:
    tokenizer: the tokeniser that made the words.
    texts: C captions, predictions and references.
    words: their words.
    is_reference: bool [C].
  """
  language, but_nfkc = tokenizer.language, tokenizer.normalization.startswith("nfkc")
  owner = np.repeat(np.arange(len(texts)), words.lengths)
  matches = _used(words, is_reference[owner])[words.numbers]
  matched = np.bincount(owner, matches, len(texts))
  missed = np.flatnonzero(matched < words.lengths)
  here = [texts[place] for place in missed.tolist()]
  there = [texts[place] for place in np.flatnonzero(is_reference).tolist()]
  # That no letter differs, as in most tables, is seen much faster than the words are found again.
  if not orthography.may_differ(language, here, there, but_nfkc=but_nfkc):
    return None
  unified = orthography.unify(language, there, but_nfkc=but_nfkc)
  changed = np.zeros(len(texts), np.bool_)
  changed[is_reference] = [*map(str.__ne__, there, unified)]
  is_known = _used(words, (is_reference & ~changed)[owner])
  new = set(
    tokenizer.words([text for text, was in zip(unified, there, strict=True) if text != was]).vocabulary
  )
  vocabulary = new.union(words.vocabulary[number] for number in np.flatnonzero(is_known).tolist())
  is_known |= np.fromiter(map(new.__contains__, words.vocabulary), np.bool_, len(words.vocabulary))
  now = np.bincount(owner, is_known[words.numbers], len(texts))[missed]
  # Only captions with other letters have other words.
  unified = orthography.unify(language, here, but_nfkc=but_nfkc)
  places = [place for place, (text, was) in enumerate(zip(unified, here, strict=True)) if text != was]
  again = tokenizer.words([unified[place] for place in places]).captions()
  now[places] = [sum(map(vocabulary.__contains__, of_caption)) for of_caption in again]
  cases = [here[place] for place in np.flatnonzero(now > matched[missed]).tolist()]
  return Variants(len(cases), int((~is_reference).sum()), _letters(language, cases, there)) if cases else None


def _used(words: CaptionWords, chosen: np.ndarray) -> np.ndarray:
  """Returns bool [V]: whether the words of the places that are chosen, bool [W], have it."""
  used = np.zeros(len(words.vocabulary), np.bool_)
  used[words.numbers[chosen]] = True
  return used


def _letters(
  language: str, predictions: Iterable[str], references: Iterable[str]
) -> tuple[tuple[str, str], ...]:
  """Returns pairs of (the predictions', the references') spelling, the most frequent first."""
  here, there = "\n".join(predictions), "\n".join(references)
  counts: collections.Counter[tuple[str, str]] = collections.Counter()
  for rule in orthography.rules(language):
    for variant, standard in rule.pairs.items():
      if variant == standard or (variant not in here and variant not in there):
        continue
      of_here, of_there = here.count(variant), there.count(variant)
      # How often each side writes the variant, of all places where it could.
      others_here = here.count(standard) if standard else len(here)
      others_there = there.count(standard) if standard else len(there)
      if of_here * others_there > of_there * others_here:
        counts[variant, standard] = of_here
      elif of_here * others_there < of_there * others_here:
        counts[standard, variant] = others_here if standard else 1
  return tuple(pair for pair, count in counts.most_common(_MOST_LETTERS) if count)
