"""Joins saved ratings with the key of their page, which names the systems, for `human sxs`, `thumb` and `rubric`."""

import collections
import dataclasses
import json
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.files import files, outputs
from xmcap.human import fields, rating_protocols, thumb_ratings
from xmcap.human.rating_items import RatingItem
from xmcap.human.rating_protocols import PROTOCOLS, Criterion, RatingProtocol
from xmcap.reading import jsonl
from xmcap.terminal import shown


@dataclasses.dataclass(frozen=True)
class JoinedRatings:
  """Ratings with their systems.

  Attributes:
    rated: rater -> number of items rated.
    checked: (rater, the rater whose ratings were checked) -> number of items, of those that were changed, and of those
      whose checked rating is in none of the files.
    items: number of items in the key that the page asks about.
    unrated: number of those that nobody rated.
    taken_back: number of ratings that were deleted on the page.
    equal: number of rows that are ties of equal captions, which nobody was asked about.
  """

  protocol: str
  rows: list[dict[str, Any]]
  rated: dict[str, int]
  checked: dict[tuple[str, str], tuple[int, int, int]]
  items: int
  unrated: int
  equal: int = 0
  taken_back: int = 0

  @property
  def notes(self) -> list[str]:
    """Returns what is odd about the names of raters."""
    return fields.alike([*self.rated, *(name for pair in self.checked for name in pair)])


@dataclasses.dataclass(frozen=True)
class _Rating:
  rater: str
  checks: str
  answer: dict[str, float]


def key_rows(protocol: RatingProtocol, items: Iterable[RatingItem]) -> Iterable[dict[str, Any]]:
  """Yields the rows of the key of a page: the rubric if it is a user's, then the systems of each item."""
  if protocol.name not in PROTOCOLS:
    yield {"rubric": msgspec.to_builtins(protocol)}
  for item in items:
    row = {"item": item.id, "protocol": protocol.name, "image/key": item.key, "language": item.language}
    if protocol.shows == "pair":
      tie = {} if item.asked else {"equal_captions": True}
      yield {**row, "left": item.systems[0], "right": item.systems[1], **tie}
    else:
      yield {**row, _noun(protocol): item.captions[0], "systems": list(item.systems)}


def join(key: str | os.PathLike, ratings: Sequence[str | os.PathLike]) -> JoinedRatings:
  """Joins ratings files with the key of the page that they were made on.

  sxs rows: `image/key`, `language`, `rater`, `left`, `right` (systems), `rating` from -3 to 3, positive if the right
  caption is better; where both captions are equal and nobody was asked, `rating` is 0, `rater` is empty and
  `equal_captions` is true, in the languages that were rated. thumb rows, one per system in THumB's release format:
  `SYS`, `seg_id` and `image` (both the image key), `hyp`, `P`, `R`, `Fl`, `Inc`, `Con`, `human_score`, and also
  `language` and `annotator`. Rows of others, one per system: `protocol`, `image/key`, `language`, `rater`, `system`,
  `caption` or `tag`, and the criteria.

  A rating that another rater checked (`checks`) is replaced by theirs, also if a third checked theirs.

  Raises:
    UsageError: a line is malformed, an item is not in the key, a rating is not one of the choices, a rater rated an
      item twice, raters checked each other in a ring, or the files have no ratings; the message names file and line.
  """
  outputs.settle(key, folder=False)
  protocol, items = _read_key(key)
  seen: dict[tuple[str, str], str] = {}  # (item, rater) -> place
  of_items: dict[str, dict[str, _Rating]] = {}
  taken_back: list[tuple[str, str]] = []
  for path in ratings:
    for number, line in jsonl.read(path):
      where = f"{path}, line {number}"
      id, rater = fields.text(line, "item", where), fields.person(line, "rater", where)
      if id not in items or not items[id].asked:
        raise UsageError(
          f"{where}: item '{shown(id)}' is not in {key}; join ratings with the key of the page that they "
          "were made on"
        )
      # Also of one that was taken back: an earlier file of the rater still has it.
      fields.once(seen, (id, rater), where, f"item '{id}' was rated by '{shown(rater)}'")
      if line.get("taken_back") is True:
        taken_back.append((id, rater))
        continue
      answer = {criterion.name: _answer(line, criterion, where) for criterion in protocol.criteria}
      checks = fields.person(line, "checks", where) if "checks" in line else ""
      of_items.setdefault(id, {})[rater] = _Rating(rater, checks, answer)
  for place in taken_back:
    del seen[place]
  if not of_items:
    named = ", ".join(map(str, ratings))
    raise UsageError(f"{named}: contains no ratings; save them on the page, then join the saved file")
  for id, of_item in of_items.items():
    if ring := _ring(of_item):
      names = f"{', '.join(map(shown, ring))} checked each other"
      problem = names if len(ring) > 1 else f"{shown(ring[0])} checked their own rating"
      raise UsageError(
        f"{seen[id, ring[0]]}: item '{id}': {problem}, so that none is the last; leave out what was rated first"
      )
  rows: list[dict[str, Any]] = []
  replaced = {id: {rating.checks for rating in of_item.values()} for id, of_item in of_items.items()}
  for id, rater in seen:  # in the order of the files
    if rater not in replaced[id]:
      rows += _rows(protocol, items[id], of_items[id][rater])
  rated = collections.Counter(rater for _, rater in seen)
  codes = {items[id].language for id in of_items}
  ties = [item for item in items.values() if not item.asked and item.language in codes]
  tie = _Rating("", "", {"rating": 0})
  rows += [{**row, "equal_captions": True} for item in ties for row in _rows(protocol, item, tie)]
  asked = sum(item.asked for item in items.values())
  counts = (asked, asked - len(of_items), len(ties), len(taken_back))
  return JoinedRatings(protocol.name, rows, rated, _checks(of_items), *counts)


def write_rows(path: str | os.PathLike, rows: Iterable[Mapping[str, Any]]) -> None:
  """Writes JSONL atomically; XmcapError if it cannot be written."""
  files.write_lines(path, (json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _ring(ratings: Mapping[str, _Rating]) -> list[str]:
  """Returns raters of an item of whom each checked the next, and the last the first; [] if there are none."""
  ended: set[str] = set()  # raters from whom the way ends
  for rater in ratings:
    way: dict[str, None] = {}
    while rater in ratings and rater not in ended and rater not in way:
      way[rater] = None
      rater = ratings[rater].checks
    if rater in way:
      names = list(way)
      return names[names.index(rater) :]
    ended.update(way)  # `|=` with the keys would copy the set
  return []


def _checks(of_items: Mapping[str, Mapping[str, _Rating]]) -> dict[tuple[str, str], tuple[int, int, int]]:
  counts: dict[tuple[str, str], tuple[int, int, int]] = {}
  for ratings in of_items.values():
    for rating in ratings.values():
      if rating.checks:
        number, changed, absent = counts.get((rating.rater, rating.checks), (0, 0, 0))
        first = ratings.get(rating.checks)
        changed += first is not None and first.answer != rating.answer
        counts[rating.rater, rating.checks] = (number + 1, changed, absent + (first is None))
  return counts


def _noun(protocol: RatingProtocol) -> str:
  return "tag" if protocol.shows == "tags" else "caption"


def _rows(protocol: RatingProtocol, item: RatingItem, rating: _Rating) -> list[dict[str, Any]]:
  if protocol.name == "thumb":
    return _thumb_rows(item, rating)
  shared = {"image/key": item.key, "language": item.language, "rater": rating.rater}
  if protocol.shows == "pair":
    sides = {"left": item.systems[0], "right": item.systems[1]}
    return [{**shared, **sides, "rating": int(rating.answer["rating"])}]
  text = {_noun(protocol): item.captions[0]}
  return [
    {"protocol": protocol.name, **shared, "system": system, **text, **rating.answer}
    for system in item.systems
  ]


def _thumb_rows(item: RatingItem, rating: _Rating) -> list[dict[str, Any]]:
  answer = rating.answer
  total = thumb_ratings.total([answer[name] for name in thumb_ratings.MEASURES])
  shared = {
    "seg_id": item.key,
    "hyp": item.captions[0],
    "image": item.key,
    "language": item.language,
    **{name: float(answer[name]) for name in ("P", "R", "Fl", "Inc", "Con")},
    "human_score": round(total, 6),
    "annotator": rating.rater,
  }
  return [{"SYS": system, **shared} for system in item.systems]


def _read_key(path: str | os.PathLike) -> tuple[RatingProtocol, dict[str, RatingItem]]:
  """Returns the protocol and item id -> item; the captions of pairs are not in the key."""
  protocols = dict(PROTOCOLS)
  protocol: RatingProtocol | None = None
  items: dict[str, RatingItem] = {}
  seen: dict[Hashable, str] = {}
  for number, row in jsonl.read(path):
    where = f"{path}, line {number}"
    if "rubric" in row:
      rubric = rating_protocols.parse(row["rubric"], where)
      protocols[rubric.name] = rubric
      continue
    id, name, key, language = (
      fields.text(row, field, where) for field in ("item", "protocol", "image/key", "language")
    )
    languages.check(language, where)
    fields.once(seen, id, where, f"item '{shown(id)}' was in the key")
    if name not in protocols or protocol not in (None, protocols[name]):
      raise UsageError(f"{where}: protocol '{shown(name)}'; all lines must be of one, as they were written")
    protocol = protocols[name]
    captions = ()
    if protocol.shows == "pair":
      systems = [fields.text(row, side, where) for side in ("left", "right")]
    else:
      captions = (fields.text(row, _noun(protocol), where, blank=True),)
      systems = fields.texts(row, "systems", where)
    items[id] = RatingItem(id, key, language, captions, tuple(systems), row.get("equal_captions") is not True)
  if protocol is None:
    raise UsageError(f"{path}: contains no items; give the key that was written beside the page")
  return protocol, items


def _answer(row: Mapping[str, Any], criterion: Criterion, where: str) -> float:
  value = row.get(criterion.name, criterion.default)
  offered = [choice for choice, _ in criterion.choices]
  if isinstance(value, bool) or not isinstance(value, int | float) or value not in offered:
    answer = "missing" if value is None else shown(json.dumps(value))
    raise UsageError(
      f"{where}: '{criterion.name}' is {answer}, not one of {', '.join(f'{v:g}' for v in offered)}"
    )
  return value
