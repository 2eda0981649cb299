"""The captions of a report, a compressed block a language, so that a browser unpacks only what is looked at."""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring.report import elements
from xmcap.scoring.result import Result

_LEVEL = 3  # of gzip: a third of the time of level 6 for a sixth more bytes


def scale(metric: str) -> int:
  """Returns what the score of an image is multiplied with before it is rounded: as many digits as are shown."""
  return 10 ** (elements.decimals(metric) + 2 * metrics_lib.METRICS[metric].percent)


def block(code: str, places: Mapping[str, int], systems: Sequence[Result]) -> str:
  """Returns the captions of a language: base64 of gzip of JSON.

  The JSON is an object of
    images: the place of each of I images among all of the report's; null where they are all, in order.
    rows: for each image: the references; their words; then for each system its caption and the caption's words.
      Words are null where they were not kept, and a system's two are null where it has no caption.
      What is alike stands side by side, which is what makes it small.
    scores: for each system and each metric of the first: I integers, see `scale`; null without a caption.

  Args:
    code: a language of the first system.
    places: image key -> place among all images.
    systems: the first one says which images there are.
  """
  first = systems[0]
  keys = first.statistics[code].keys
  images = [places[key] for key in keys]
  columns: list[Sequence] = [[first.references[key][code] for key in keys], _reference_words(first, code)]
  scores = []
  for system in systems:
    held = system.statistics.get(code)
    if held is not None and held.keys == keys:
      order = None
    elif held is None:
      order = [-1] * len(keys)
    else:
      place_of = {key: i for i, key in enumerate(held.keys)}
      order = [place_of.get(key, -1) for key in keys]
    captions = [
      system.predictions[key][code] if order is None or order[i] >= 0 else None for i, key in enumerate(keys)
    ]
    columns += [captions, _words(system, code, order, len(keys))]
    scores.append([_scores(system, code, metric, order) for metric in first.table.metrics])
  value: dict[str, Any] = {
    "images": None if images == list(range(len(places))) else images,
    "rows": list(zip(*columns, strict=True)),
    "scores": scores,
  }
  text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), check_circular=False)
  packed = gzip.compress(text.encode("utf-8", "replace"), _LEVEL, mtime=0)
  return base64.b64encode(packed).decode("ascii")


def _reference_words(result: Result, code: str) -> Sequence:
  if code in result.words:
    return result.words[code].references
  return [None] * len(result.statistics[code].keys)


def _words(result: Result, code: str, order: list[int] | None, count: int) -> Sequence:
  if code not in result.words:
    return [None] * count
  words = result.words[code].hypotheses
  return words if order is None else [words[place] if place >= 0 else None for place in order]


def _scores(result: Result, code: str, metric: str, order: list[int] | None) -> list[int | None] | None:
  held = result.statistics.get(code)
  if held is None or metric not in held.values:
    return None
  scores = np.rint(held.image_scores(metric) * scale(metric)).astype(np.int64).tolist()
  return scores if order is None else [scores[place] if place >= 0 else None for place in order]
