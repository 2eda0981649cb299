"""Joins saved ratings with the key of their page, which names the systems, for `human sxs` and `human thumb`."""

import collections
import dataclasses
import json
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.human import fields, thumb_ratings
from xmcap.scoring.human.rating_items import PROTOCOLS, RatingItem
from xmcap.storage import outputs
from xmcap.terminal import shown


@dataclasses.dataclass(frozen=True)
class JoinedRatings:
  """Ratings with their systems.

  `rated` is rater -> number of items rated, `items` the number of items in the key, `unrated` those that nobody rated.
  """

  protocol: str
  rows: list[dict[str, Any]]
  rated: dict[str, int]
  items: int
  unrated: int


def key_rows(protocol: str, items: Iterable[RatingItem]) -> Iterable[dict[str, Any]]:
  """Yields the rows of the key of a page: the systems of each item."""
  for item in items:
    row = {"item": item.id, "protocol": protocol, "image/key": item.key, "language": item.language}
    if protocol == "sxs":
      yield {**row, "left": item.systems[0], "right": item.systems[1]}
    else:
      yield {**row, "caption": item.captions[0], "systems": list(item.systems)}


def join(key: str | os.PathLike, ratings: Sequence[str | os.PathLike]) -> JoinedRatings:
  """Joins ratings files with the key of the page that they were made on.

  sxs rows: `image/key`, `language`, `rater`, `left`, `right` (systems), `rating` from -3 to 3, positive if the right
  caption is better. thumb rows, one per system in THumB's release format: `SYS`, `seg_id` and `image` (both the image
  key), `hyp`, `P`, `R`, `Fl`, `Inc`, `Con`, `human_score`, and also `language` and `annotator`.

  Raises:
    UsageError: a line is malformed, an item is not in the key, a rating is not one of the choices, a rater rated an
      item twice, or the files have no ratings; the message names file and line.
  """
  outputs.settle(key, folder=False)
  protocol, items = _read_key(key)
  criteria = PROTOCOLS[protocol]["criteria"]
  seen: dict[tuple[str, str], str] = {}  # (item, rater) -> place
  rows: list[dict[str, Any]] = []
  for path in ratings:
    for number, line in files.read_jsonl(path):
      where = f"{path}, line {number}"
      id, rater = (fields.text(line, name, where) for name in ("item", "rater"))
      if id not in items:
        raise UsageError(
          f"{where}: item '{shown(id)}' is not in {key}; join ratings with the key of the page that they "
          "were made on"
        )
      fields.once(seen, (id, rater), where, f"item '{id}' was rated by '{shown(rater)}'")
      answer = {criterion["name"]: _answer(line, criterion, where) for criterion in criteria}
      rows += (_sxs_rows if protocol == "sxs" else _thumb_rows)(items[id], rater, answer)
  if not rows:
    named = ", ".join(map(str, ratings))
    raise UsageError(f"{named}: contains no ratings; save them on the page, then join the saved file")
  rated = collections.Counter(rater for _, rater in seen)
  unrated = items.keys() - {id for id, _ in seen}
  return JoinedRatings(protocol, rows, rated, len(items), len(unrated))


def write_rows(path: str | os.PathLike, rows: Iterable[Mapping[str, Any]]) -> None:
  """Writes JSONL atomically; XmcapError if it cannot be written."""
  files.write_lines(path, (json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _sxs_rows(item: RatingItem, rater: str, answer: Mapping[str, float]) -> list[dict[str, Any]]:
  row = {"image/key": item.key, "language": item.language, "rater": rater}
  return [{**row, "left": item.systems[0], "right": item.systems[1], "rating": int(answer["rating"])}]


def _thumb_rows(item: RatingItem, rater: str, answer: Mapping[str, float]) -> list[dict[str, Any]]:
  total = thumb_ratings.total([answer[name] for name in thumb_ratings.MEASURES])
  shared = {
    "seg_id": item.key,
    "hyp": item.captions[0],
    "image": item.key,
    "language": item.language,
    **{name: float(answer[name]) for name in ("P", "R", "Fl", "Inc", "Con")},
    "human_score": round(total, 6),
    "annotator": rater,
  }
  return [{"SYS": system, **shared} for system in item.systems]


def _read_key(path: str | os.PathLike) -> tuple[str, dict[str, RatingItem]]:
  """Returns the protocol and item id -> item; the captions of sxs are not in the key."""
  protocols: set[str] = set()
  items: dict[str, RatingItem] = {}
  seen: dict[Hashable, str] = {}
  for number, row in files.read_jsonl(path):
    where = f"{path}, line {number}"
    id, protocol, key, language = (
      fields.text(row, name, where) for name in ("item", "protocol", "image/key", "language")
    )
    files.check_language(language, where)
    fields.once(seen, id, where, f"item '{shown(id)}' was in the key")
    protocols.add(protocol)
    if protocol not in PROTOCOLS or len(protocols) > 1:
      raise UsageError(
        f"{where}: protocol '{shown(protocol)}'; all lines must be sxs, or all thumb, as they were written"
      )
    captions = ()
    if protocol == "sxs":
      systems = [fields.text(row, side, where) for side in ("left", "right")]
    else:
      captions = (fields.text(row, "caption", where, blank=True),)
      systems = fields.texts(row, "systems", where)
    items[id] = RatingItem(id, key, language, captions, tuple(systems))
  if not items:
    raise UsageError(f"{path}: contains no items; give the key that was written beside the page")
  return protocols.pop(), items


def _answer(row: Mapping[str, Any], criterion: Mapping[str, Any], where: str) -> float:
  name = criterion["name"]
  value = row.get(name, criterion.get("default"))
  offered = [choice for choice, _ in criterion["choices"]]
  if isinstance(value, bool) or not isinstance(value, int | float) or value not in offered:
    given = "missing" if value is None else shown(json.dumps(value))
    raise UsageError(f"{where}: '{name}' is {given}, not one of {', '.join(f'{v:g}' for v in offered)}")
  return value
