"""Side-by-side ratings: reads and checks them.

A rating says how the caption on the right compares with the caption on the left, on seven points:

| rating | words | |
| --- | --- | --- |
| 3 | much better | the right caption is much better |
| 2 | better | the right caption is better |
| 1 | slightly better | the right caption is slightly better |
| 0 | similar | neither is better |
| -1 | slightly worse | the left caption is slightly better |
| -2 | worse | the left caption is better |
| -3 | much worse | the left caption is much better |

Which system stands on which side is drawn by chance for each rating; `left` and `right` name the systems.
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import Any

from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.human import fields

SCALE: dict[str, int] = {
  "much better": 3,
  "better": 2,
  "slightly better": 1,
  "similar": 0,
  "slightly worse": -1,
  "worse": -2,
  "much worse": -3,
}
"""What the words say of the caption on the right."""

MEMBERS: tuple[str, ...] = ("image/key", "language", "rater", "left", "right", "rating")
"""What a line of JSONL or a row of CSV holds; other members are passed over."""


@dataclasses.dataclass(frozen=True)
class Rating:
  """What one rater said of two captions of one image.

  Attributes:
    key: of the image.
    language: code of the captions' language.
    rater: who rated.
    left: system of the caption on the left.
    right: system of the caption on the right.
    rating: -3 (left much better) to 3 (right much better).
  """

  key: str
  language: str
  rater: str
  left: str
  right: str
  rating: int


def read(path: str | os.PathLike) -> tuple[Rating, ...]:
  """Reads ratings from a file of JSONL or, if its name ends in `.csv`, of CSV with a header line.

  Raises:
    UsageError: the file cannot be read, holds no rating, or a line lacks a member, names an unknown language,
      rates a system against itself, has a rating off the scale, or repeats an image, language, pair of systems
      and rater of an earlier line.
  """
  ratings: list[Rating] = []
  places: dict[tuple[str, ...], str] = {}
  for line, row in _rows(path):
    where = f"{path}, line {line}"
    rating = _rating(row, where)
    key = (rating.key, rating.language, rating.rater, *sorted((rating.left, rating.right)))
    if key in places:
      raise UsageError(
        f"{where}: '{files.shown(rating.rater)}' rated '{files.shown(rating.left)}' against "
        f"'{files.shown(rating.right)}' in {rating.language} on image '{files.shown(rating.key)}' before "
        f"({places[key]}); keep one"
      )
    places[key] = f"line {line}"
    ratings.append(rating)
  if not ratings:
    raise UsageError(f"{path}: no rating; each line must hold {', '.join(MEMBERS)}")
  return tuple(ratings)


def _rows(path: str | os.PathLike) -> Iterator[tuple[int, Mapping[str, Any]]]:
  if str(path).lower().endswith(".csv"):
    yield from fields.read_csv(path, MEMBERS)[1]
  else:
    yield from files.read_jsonl(path)


def _rating(row: Mapping[str, Any], where: str) -> Rating:
  key, language, rater, left, right = (fields.text(row, name, where).strip() for name in MEMBERS[:-1])
  files.check_language(language, where)
  if left == right:
    raise UsageError(f"{where}: '{files.shown(left)}' is on both sides; name two systems")
  return Rating(key, language, rater, left, right, _points(row, where))


def _points(row: Mapping[str, Any], where: str) -> int:
  value = row.get("rating")
  if isinstance(value, str):
    words = " ".join(value.lower().replace("_", " ").split())
    if words in SCALE:
      return SCALE[words]
    points = fields.written_number(row, "rating", where)
  else:
    points = fields.number(row, "rating", where)
  if points not in SCALE.values():
    raise UsageError(f"{where}: 'rating' is {points:g}; it must be a whole number from -3 to 3")
  return int(points)
