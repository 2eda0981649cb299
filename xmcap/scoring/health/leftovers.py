"""Measures what systems write for want of a caption: one caption for all, no words, too many words.

Each measure is also taken of the references. It becomes a `Finding` where the captions clearly exceed them.
"""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from xmcap.scoring.residue import affixes

# One such caption is an error, as people do not write this, or as `residue.affixes` compared it with the references.
_NEVER_HUMAN = (
  "think",
  "loc",
  "tokens",
  "json",
  "escapes",
  "mojibake",
  "subwords",
  "lost",
  "prefix",
  "suffix",
)
_NOTABLE = 0.01
_LONG = 2
FEWEST_LENGTHS = 5
"""Fewest captions whose lengths are judged."""


IN_REFERENCES = "references:"


@dataclasses.dataclass(frozen=True)
class Finding:
  """Something that the captions of a language have clearly more often than the references.

  Attributes:
    kind: a kind of residue, or `lost`, `wrong_language`, `most_frequent`, `no_letter`, `over_long`, `length_ratio`.
      After `IN_REFERENCES`, count and total are those of the references, and the others those of the captions.
    count, total: number of captions with it, and of all captions; for `length_ratio` count their words.
    reference_count, reference_total: the same for the references.
    examples: what was found; for `over_long` the limit in words.
  """

  kind: str
  count: int
  total: int
  reference_count: int
  reference_total: int
  examples: tuple[str, ...] = ()

  @property
  def is_clear(self) -> bool:
    """Whether the share is clearly above that of the references, which may have none."""
    share = self.count / self.total
    reference_share = self.reference_count / max(self.reference_total, 1)
    if share <= 2 * reference_share or self.kind == "length_ratio":
      return share > 2 * reference_share > 0
    # Some human captions are judged to be in another language, too, so that none among the references says little.
    is_new = not self.reference_count and self.kind != "wrong_language"
    if self.kind in _NEVER_HUMAN or (is_new and share >= _NOTABLE):
      return True
    return share >= _NOTABLE and affixes.exceeds(
      self.count, self.total, self.reference_count, self.reference_total
    )


@dataclasses.dataclass(frozen=True)
class Leftovers:
  """The measures by name, the rows of captions that they count, the most frequent caption, and what is clearly above.

  What is clear exceeds the share of the references.
  """

  values: dict[str, float]
  rows: dict[str, np.ndarray]
  most_frequent_caption: str
  findings: tuple[Finding, ...]


def measure(
  captions: Sequence[str],
  references: Sequence[str],
  has_letters: np.ndarray,
  reference_has_letters: np.ndarray,
  lengths: np.ndarray,
  reference_lengths: np.ndarray,
) -> Leftovers:
  """Measures C captions and R references, one or more of each.

  Args:
    captions, references: the raw texts.
    has_letters, reference_has_letters: bool [C] and [R].
    lengths, reference_lengths: int64 [C] and [R], number of words.
  """
  totals = len(captions), len(references)
  findings = []
  bare_rows = [row for row in np.flatnonzero(~has_letters).tolist() if captions[row].strip()]
  bare = len(bare_rows)
  reference_bare = sum(
    bool(references[row].strip()) for row in np.flatnonzero(~reference_has_letters).tolist()
  )
  findings.append(Finding("no_letter", bare, totals[0], reference_bare, totals[1]))

  limit = _LONG * int(np.sort(reference_lengths)[-1 - len(reference_lengths) // 100])
  over_rows = np.flatnonzero(lengths > limit)
  over, reference_over = len(over_rows), int((reference_lengths > limit).sum())
  if totals[0] >= FEWEST_LENGTHS:
    findings.append(Finding("over_long", over, totals[0], reference_over, totals[1], (str(limit),)))
    words = int(lengths.sum()), int(reference_lengths.sum())
    findings.append(Finding("length_ratio", words[0], totals[0], words[1], totals[1]))

  most, times = _most_frequent(captions)
  _, reference_times = _most_frequent(references)
  # That the same caption comes twice is no collapse: the rule "no reference" does not hold here.
  findings.append(Finding("most_frequent", times, totals[0], max(1, reference_times), totals[1], (most,)))

  values = {
    "most_frequent": times / totals[0],
    "most_frequent_references": reference_times / totals[1],
    "no_letter": bare / totals[0],
    "no_letter_references": reference_bare / totals[1],
    "over_long": over / totals[0],
    "over_long_references": reference_over / totals[1],
  }
  rows = {
    "no_letter": np.array(bare_rows, np.int64),
    "over_long": over_rows,
    "most_frequent": np.flatnonzero([times > 0 and caption == most for caption in captions]),
  }
  return Leftovers(values, rows, most, tuple(finding for finding in findings if finding.is_clear))


def _most_frequent(captions: Sequence[str]) -> tuple[str, int]:
  """Returns the most frequent caption that is not empty, and its count; "" and 0 if all differ."""
  counts = collections.Counter(captions)
  for blank in ("", " "):
    counts.pop(blank, None)
  times = max(counts.values(), default=0) if len(counts) < len(captions) else 0
  if times < 2:
    return "", 0
  return min(text for text, count in counts.items() if count == times), times
