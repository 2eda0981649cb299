"""The number of distinct stabilizers of a picture: whether the captions of its languages say the same.

A draft of Thapliyal et al., "Crossmodal-3600", Figure 4 and Table 3. Consistent stabilizers are the same for all
languages of a picture, so their number is 1.
"""

from collections import Counter
from collections.abc import Iterator

from xmcap.models.targets import Texts

DISTINCT = "distinct_stabilizers"


def distinct(stabilizers: Texts) -> Counter[int]:
  """Returns number of distinct stabilizers -> number of pictures with so many."""
  return Counter(len(set(of_image.values())) for of_image in stabilizers.values())


def rows(stabilizers: Texts, prefix: str) -> Iterator[tuple[str, str, float]]:
  """Yields an evaluator's row: the mean over pictures."""
  counts = distinct(stabilizers)
  yield (
    "mean",
    f"{prefix}{DISTINCT}",
    sum(number * count for number, count in counts.items()) / counts.total(),
  )


def text(stabilizers: Texts) -> str:
  """A line with the share of pictures for each number of distinct stabilizers."""
  counts = distinct(stabilizers)
  shares = ", ".join(f"{number}: {count / counts.total():.1%}" for number, count in sorted(counts.items()))
  return f"distinct stabilizers of a picture, and the share of pictures with so many: {shares}"
