"""The order of notes for readers: what makes a score wrong comes first, what was merely recognised last."""

import re
from collections.abc import Iterable, Sequence

from xmcap import wording
from xmcap.terminal import shown

MOST_OPEN = 3
"""Number of notes that a page or a terminal shows before the others."""

_LEVELS = (
  r"\bmissing\b|\bfailed\b|no picture|a refusal|scored as empty captions|after --clean",
  r"are in another language|near chance|in another order",
  r"--clean=|have no letter|lost characters|most frequent of their|too many words|more than [\d,]+ words|"
  r"times as many words",
  r"left out|lowers scores|as one word|cannot match|single image|not comparable|scored in another way|"
  r"compare with care",
)
_OTHER = len(_LEVELS)
# Also what the columns beside are: the scores are right without them.
_RECOGNISED = re.compile(
  r"^columns |^baselines: |^rows of papers: |\b(?:is|are) read as\b|file's name|files' names|counted once|"
  r"the key of an image|ids are KEY_CODE|written another way|numbered from 1|^vectors of|found no|"
  r"given in the order|of the split|scores about as high"
)
_COMPILED = tuple(re.compile(level) for level in _LEVELS)
_COUNTS = re.compile(r"(?<![\d,])(\d[\d,]*+) of (\d[\d,]*+) captions")
_QUOTED = re.compile(r"'[^']*'")


def worst_first(notes: Iterable[str]) -> list[str]:
  """Returns the notes by how much they say against the scores, alike ones by the share of captions that they name."""
  return sorted(notes, key=lambda note: (_level(note), -_share(note)))


def terminal(notes: Sequence[str], rest: str = "") -> str:
  """Returns a line for each note, of many only for the worst and one that says that `rest`, a file, has all."""
  ordered = worst_first(notes)
  if rest and len(ordered) > MOST_OPEN + 1:
    more = wording.count(len(ordered) - MOST_OPEN, "more note")
    ordered = [*ordered[:MOST_OPEN], f"and {more}: {rest}"]
  return "".join(f"note: {' '.join(shown(note, limit=None).split())}\n" for note in ordered)


def by_text(named: Iterable[tuple[str, str]]) -> list[tuple[list[str], str]]:
  """Returns (names, note) for (name, note): a note that several systems share comes once."""
  names: dict[str, list[str]] = {}
  for name, note in named:
    names.setdefault(note, []).append(name)
  return [(of_note, note) for note, of_note in names.items()]


def _share(note: str) -> float:
  match = _COUNTS.search(note)
  count, total = (int(number.replace(",", "")) for number in match.groups()) if match else (0, 1)
  return count / max(total, 1)


def _level(note: str) -> int:
  text = _QUOTED.sub("", note)  # an example may say anything
  level = next((i for i, pattern in enumerate(_COMPILED) if pattern.search(text)), None)
  if level is None:
    return _OTHER + bool(_RECOGNISED.search(text))
  return level
