"""Pairs each caption of a picture with the caption in a pivot language that it translates.

A record does not say which caption is a translation of which. Its only caption in the pivot language is everybody's
pivot: so in CC3M-35L and emoji36. With several, as in COCO-35L, the translations must lie as `xmcap data build` writes
them: groups of a pivot caption and its translations, each group in the order of `xmcap.languages`. What cannot be
paired like this is never drawn, rather than guessed.
"""

from collections.abc import Sequence

from xmcap import languages as languages_lib

NONE = -1

_TRANSLATED = ("mt", "translated")


def places(codes: Sequence[str], sources: Sequence[str], pivot: str) -> list[int]:
  """Returns for each caption of a picture the place of its pivot caption, its own if it is one; NONE without one.

  Args:
    codes, sources: language and source of each caption.
    pivot: code of the pivot language.
  """
  pivots = [place for place, code in enumerate(codes) if code == pivot]
  if len(pivots) == 1:
    return pivots * len(codes)
  found = [place if code == pivot else NONE for place, code in enumerate(codes)]
  groups = _groups(codes, sources, pivot)
  # A pivot without any translation is a sign of another order, such as all captions of a language in succession.
  if all(len(group) > 1 and sum(codes[place] == pivot for place in group) == 1 for group in groups):
    for group in groups:
      own = next(place for place in group if codes[place] == pivot)
      for place in group:
        found[place] = own
  return found


def _groups(codes: Sequence[str], sources: Sequence[str], pivot: str) -> list[list[int]]:
  """The places of pivots and translations, in a new group wherever the order of languages starts again."""
  order = {code: number for number, code in enumerate(languages_lib.ordered(set(codes)))}
  groups: list[list[int]] = []
  for place, (code, source) in enumerate(zip(codes, sources, strict=True)):
    if code == pivot or source in _TRANSLATED:
      if not groups or order[codes[groups[-1][-1]]] >= order[code]:
        groups.append([])
      groups[-1].append(place)
  return groups
