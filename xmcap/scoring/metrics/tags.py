"""Precision, recall and F of the k tags that a system ranks first for an image, each a mean over images.

Li et al., "COCO-CN" (2019), section IV-B: P = hits / k, R = hits / true tags, F = 2 P R / (P + R), or 0. F is a mean
over images too, not the F of the means. If tags tie at the k-th place, hits are their expected number over all orders;
F = 2 hits / (k + true tags) is linear in them, as P and R are.
"""

from xmcap.scoring.metrics.ranked import Mean

DEPTHS = (1, 3, 5, 10)
"""The values of k."""

METRICS = tuple(
  Mean(f"tags_{letter.lower()}{k}", f"{letter}@{k}", f"k={k},mean=images,ties=expected", "tags", percent=True)
  for k in DEPTHS
  for letter in "PRF"
)
