"""Inspection of annotations: a part of each annotator's to check, and who has failed too often.

Source: Li et al., "COCO-CN for Cross-Lingual Image Tagging, Captioning and Retrieval" (2019), section III-B. Inspectors
check a small part of what each annotator wrote, nearly a tenth in all. Who fails is put on a watch list, and is left
out with all annotations at the third time.
"""

import collections
import math
import os
import random
from collections.abc import Sequence

from xmcap.errors import UsageError
from xmcap.human import fields
from xmcap.human.annotations import Annotation
from xmcap.reading.inputs import Input
from xmcap.terminal import shown

OUT_AT = 3
"""Times on the watch list at which an annotator is out."""


def drawn(annotations: Sequence[Annotation], per_cent: int, seed: int = 0) -> list[Annotation]:
  """Returns a random part of each annotator's annotations that have a sentence, at least one; the same of each call."""
  by_annotator = fields.grouped(
    [entry for entry in annotations if entry.described], lambda entry: entry.annotator
  )
  chosen = []
  for name, written in by_annotator.items():
    rng = random.Random(f"{seed} {name}")
    chosen += rng.sample(written, math.ceil(len(written) * per_cent / 100))
  return chosen


def without_excluded(
  annotations: Sequence[Annotation], watch_list: str | os.PathLike
) -> tuple[list[Annotation], str]:
  """Returns the annotations of those who are still in, and a line on who is watched or out.

  The watch list has an annotator's name on a line for each time. UsageError if a name has no annotation, or nobody is
  still in.
  """
  with Input(watch_list) as source:
    times = collections.Counter(fields.tidy(name) for _, name in source.lines())
  if unknown := times.keys() - {entry.annotator for entry in annotations}:
    raise UsageError(
      f"{watch_list}: '{shown(min(unknown))}' has no annotation in the files: write the name as there"
    )
  kept = [entry for entry in annotations if times[entry.annotator] < OUT_AT]
  if not kept:
    raise UsageError(f"{watch_list}: all annotators are out: nothing is left")
  names = ", ".join(f"{name} {count}" for name, count in sorted(times.items()))
  return kept, f"watch list: {names} (out at {OUT_AT}): {len(annotations) - len(kept):,} annotations left out"
