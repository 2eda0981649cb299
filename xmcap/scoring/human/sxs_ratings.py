"""Side-by-side ratings: reads and checks them.

A rating says how the caption on the right compares with the one on the left, as a number from -3 to 3 or in words.
Which system stands on which side is drawn by chance for each rating; `left` and `right` name the systems.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.human import fields

_WORDS: dict[str, int] = {
  "much better": 3,
  "better": 2,
  "slightly better": 1,
  "similar": 0,
  "slightly worse": -1,
  "worse": -2,
  "much worse": -3,
}
_MEMBERS = ("image/key", "language", "rater", "left", "right", "rating")


@dataclasses.dataclass(frozen=True)
class SxsRating:
  """What one rater said of two captions of one image: -3 (left much better) to 3 (right much better)."""

  key: str
  language: str
  rater: str
  left: str
  right: str
  rating: int


def read(path: str | os.PathLike) -> list[SxsRating]:
  """Reads ratings from a file of JSONL or, if its name ends in `.csv`, of CSV with a header line.

  Raises:
    UsageError: the file cannot be read, holds no rating, or a line lacks a member, names an unknown language,
      rates a system against itself, has a rating off the scale, or repeats an image, language, pair of systems
      and rater of an earlier line.
  """
  ratings: dict[tuple[str, ...], SxsRating] = {}
  lines: dict[tuple[str, ...], int] = {}
  is_csv = str(path).lower().endswith(".csv")
  for line, row in fields.read_csv(path, _MEMBERS)[1] if is_csv else files.read_jsonl(path):
    where = f"{path}, line {line}"
    rating = _rating(row, where)
    key = (rating.key, rating.language, rating.rater, *sorted((rating.left, rating.right)))
    if key in ratings:
      raise UsageError(
        f"{where}: '{files.shown(rating.rater)}' rated '{files.shown(rating.left)}' against "
        f"'{files.shown(rating.right)}' in {rating.language} on image '{files.shown(rating.key)}' before "
        f"(line {lines[key]}); keep one"
      )
    ratings[key], lines[key] = rating, line
  if not ratings:
    raise UsageError(f"{path}: no rating; each line must hold {', '.join(_MEMBERS)}")
  return list(ratings.values())


def _rating(row: Mapping[str, Any], where: str) -> SxsRating:
  key, language, rater, left, right = (fields.text(row, name, where).strip() for name in _MEMBERS[:-1])
  files.check_language(language, where)
  if left == right:
    raise UsageError(f"{where}: '{files.shown(left)}' is on both sides; name two systems")
  return SxsRating(key, language, rater, left, right, _points(row, where))


def _points(row: Mapping[str, Any], where: str) -> int:
  value = row.get("rating")
  if isinstance(value, str):
    words = " ".join(value.lower().replace("_", " ").split())
    if words in _WORDS:
      return _WORDS[words]
    points = fields.written_number(row, "rating", where)
  else:
    points = fields.number(row, "rating", where)
  if points not in _WORDS.values():
    raise UsageError(f"{where}: 'rating' is {points:g}; it must be a whole number from -3 to 3")
  return int(points)
