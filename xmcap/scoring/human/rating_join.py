"""What raters saved, joined with the key of their page: ratings that name systems, as `human sxs` and `thumb` read."""

import dataclasses
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.human import fields
from xmcap.scoring.human.rating_items import Item
from xmcap.scoring.human.rating_rubric import PROTOCOLS, Criterion, thumb_total
from xmcap.storage import outputs

_KEY_MEMBERS = ("item", "protocol", "image/key", "language")


@dataclasses.dataclass(frozen=True)
class Joined:
  """Ratings with their systems.

  Attributes:
    protocol: `sxs` or `thumb`.
    rows: the lines of the joined file, in the order of the ratings.
    rated: rater -> number of items rated.
    items: how many items the key has.
    unrated: how many of them nobody rated.
  """

  protocol: str
  rows: list[dict[str, Any]]
  rated: dict[str, int]
  items: int
  unrated: int


def key_rows(protocol: str, items: Iterable[Item]) -> Iterable[dict[str, Any]]:
  """Returns the lines of the key of a page: what stands behind each item."""
  for item in items:
    row = {"item": item.id, "protocol": protocol, "image/key": item.key, "language": item.language}
    if protocol == "sxs":
      yield {**row, "left": item.systems[0], "right": item.systems[1]}
    else:
      yield {**row, "caption": item.captions[0], "systems": list(item.systems)}


def join(key: str | os.PathLike, ratings: Sequence[str | os.PathLike]) -> Joined:
  """Joins ratings files with the key of the page that they were made on.

  sxs rows: `image/key`, `language`, `rater`, `left`, `right` (systems), `rating` from -3 to 3, positive where the
  right one is better. thumb rows, one a system, as THumB released them: `SYS`, `seg_id` and `image` (both the
  image's key), `hyp`, `P`, `R`, `Fl`, `Inc`, `Con`, `human_score`, and with them `language` and `annotator`.

  Args:
    key: the file beside the page.
    ratings: what the raters saved, a file or more.

  Raises:
    UsageError: a file cannot be read, a line of it is malformed, an item is not in the key, a rating is none that
      the page offers, a rater rated an item twice, or no rating is in any file; the message names file and line.
  """
  outputs.settle(key, folder=False)
  protocol, hidden = _read_key(key)
  places: dict[tuple[str, str], str] = {}
  rows: list[dict[str, Any]] = []
  rated: dict[str, int] = {}
  for path in ratings:
    for number, line in files.read_jsonl(path):
      where = f"{path}, line {number}"
      id, rater = (fields.text(line, name, where) for name in ("item", "rater"))
      if id not in hidden:
        raise UsageError(
          f"{where}: item '{files.shown(id)}' is not in {key}; join ratings with the key of the page that they "
          "were made on"
        )
      if (id, rater) in places:
        raise UsageError(
          f"{where}: item '{id}' was rated by '{files.shown(rater)}' already, on {places[id, rater]}; keep one"
        )
      places[id, rater] = where
      rated[rater] = rated.get(rater, 0) + 1
      item = hidden[id]
      answer = {criterion.name: _answer(line, criterion, where) for criterion in PROTOCOLS[protocol].criteria}
      rows += _sxs_rows(item, rater, answer) if protocol == "sxs" else _thumb_rows(item, rater, answer)
  if not rows:
    raise UsageError(
      f"{', '.join(map(str, ratings))}: no rating in it; save on the page, then join what it saved"
    )
  return Joined(protocol, rows, rated, len(hidden), len(hidden) - len({id for id, _ in places}))


def write_rows(path: str | os.PathLike, rows: Iterable[dict[str, Any]]) -> None:
  """Writes JSONL, whole or not at all; XmcapError if it cannot be written."""
  files.write_lines(path, (json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _sxs_rows(item: Item, rater: str, answer: dict[str, float]) -> list[dict[str, Any]]:
  left, right = item.systems
  return [
    {
      "image/key": item.key,
      "language": item.language,
      "rater": rater,
      "left": left,
      "right": right,
      "rating": int(answer["rating"]),
    }
  ]


def _thumb_rows(item: Item, rater: str, answer: dict[str, float]) -> list[dict[str, Any]]:
  scores = {name: float(answer[name]) for name in ("P", "R", "Fl", "Inc", "Con")}
  return [
    {
      "SYS": system,
      "seg_id": item.key,
      "hyp": item.captions[0],
      "image": item.key,
      "language": item.language,
      **scores,
      "human_score": thumb_total(scores),
      "annotator": rater,
    }
    for system in item.systems
  ]


def _read_key(path: str | os.PathLike) -> tuple[str, dict[str, Item]]:
  """Returns the protocol and item id -> item; the captions of sxs are not in the key."""
  protocols: set[str] = set()
  hidden: dict[str, Item] = {}
  for number, row in files.read_jsonl(path):
    where = f"{path}, line {number}"
    id, protocol, key, language = (fields.text(row, name, where) for name in _KEY_MEMBERS)
    files.check_language(language, where)
    if id in hidden:
      raise UsageError(f"{where}: item '{files.shown(id)}' is in the key already; keep one")
    protocols.add(protocol)
    if protocol not in PROTOCOLS or len(protocols) > 1:
      raise UsageError(
        f"{where}: protocol '{files.shown(protocol)}'; all lines must be of sxs, or all of thumb, as they were written"
      )
    if protocol == "sxs":
      hidden[id] = Item(
        id, key, language, (), (fields.text(row, "left", where), fields.text(row, "right", where))
      )
    else:
      hidden[id] = Item(
        id, key, language, (fields.text(row, "caption", where, blank=True),), _systems(row, where)
      )
  if not hidden:
    raise UsageError(f"{path}: no item in it; the key was written beside the page")
  return protocols.pop(), hidden


def _systems(row: dict[str, Any], where: str) -> tuple[str, ...]:
  systems = row.get("systems")
  if not isinstance(systems, list) or not systems or not all(isinstance(name, str) for name in systems):
    raise UsageError(f"{where}: 'systems' must be a list of names; take the key as it was written")
  return tuple(systems)


def _answer(row: dict[str, Any], criterion: Criterion, where: str) -> float:
  value = row.get(criterion.name, criterion.default)
  values = [offered for offered, _ in criterion.choices]
  if isinstance(value, bool) or not isinstance(value, int | float) or value not in values:
    given = "missing" if value is None else files.shown(json.dumps(value))
    raise UsageError(
      f"{where}: '{criterion.name}' is {given}, not one of {', '.join(f'{v:g}' for v in values)}"
    )
  return value
