"""What raters see, drawn from predictions: items in an order, and on sides, that say nothing of the systems.

Order, sides and the choice of pictures come from hashes, so that they need no generator whose numbers may change, and
the same input gives the same items whatever order the systems are named in. The pictures depend on the seed, order and
sides on the rater too: raters see the same pictures, each in an order of their own.
"""

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence

from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.predictions import Predictions


@dataclasses.dataclass(frozen=True)
class RatingItem:
  """One screen of a rating page.

  Attributes:
    id: 16 hex digits; items are in the order of their ids, so an id tells nothing but the place.
    captions: sxs: (left, right); thumb: the one caption.
    systems: sxs: (left, right); thumb: every system that gave this very caption, in alphabetical order.
  """

  id: str
  key: str
  language: str
  captions: tuple[str, ...]
  systems: tuple[str, ...]


def draw_items(
  protocol: str,
  systems: Mapping[str, Predictions],
  languages: Sequence[str] | None = None,
  limit: int | None = None,
  seed: int = 0,
  rater: str = "",
) -> list[RatingItem]:
  """Draws the items of a page.

  sxs: an item for each image, language and pair of systems, also where both give the same caption: the
  difference of wins and losses is a share of all comparisons, ties with them. thumb: an item for each image,
  language and caption; a caption that several systems give is rated once, and the rating counts for each.

  A `limit` draws so many images, each with every language and system, so that systems stay comparable. The same seed
  draws the same images from the same keys, whatever the captions.

  Raises:
    UsageError: too few systems for the protocol, nothing in a language that was asked for, or a caption that one
      system has and another has not.
  """
  if protocol == "sxs" and len(systems) < 2:
    raise UsageError("side by side needs two systems or more: --predictions=NAME=FILE for each")
  if limit is not None and limit < 1:
    raise UsageError(f"--limit={limit}: rate at least one picture")
  chosen = _in_languages(systems, languages)
  _check_same(chosen)
  keys = sorted(next(iter(chosen.values())), key=lambda key: _digest(seed, "image", key))[:limit]
  content = _digest(seed, rater, protocol, [[name, chosen[name]] for name in sorted(chosen)])
  draw = _side_by_side if protocol == "sxs" else _one_by_one
  items = itertools.chain.from_iterable(draw(key, chosen, content) for key in keys)
  return sorted(items, key=lambda item: item.id)


def _side_by_side(key: str, systems: Mapping[str, Predictions], content: str) -> Iterable[RatingItem]:
  for first, second in itertools.combinations(sorted(systems), 2):
    for language in systems[first][key]:
      digest = _digest(content, key, language, first, second)
      pair = (first, second) if int(digest[16], 16) % 2 else (second, first)
      yield RatingItem(digest[:16], key, language, tuple(systems[name][key][language] for name in pair), pair)


def _one_by_one(key: str, systems: Mapping[str, Predictions], content: str) -> Iterable[RatingItem]:
  authors: dict[tuple[str, str], list[str]] = {}
  for name in sorted(systems):
    for language, caption in systems[name][key].items():
      authors.setdefault((language, caption), []).append(name)
  for (language, caption), names in authors.items():
    yield RatingItem(_digest(content, key, language, caption)[:16], key, language, (caption,), tuple(names))


def _in_languages(
  systems: Mapping[str, Predictions], languages: Sequence[str] | None
) -> dict[str, Predictions]:
  """Returns the predictions in the languages asked for: keys and languages in alphabetical order."""
  chosen: dict[str, Predictions] = {}
  found = set()
  for name, predictions in systems.items():
    chosen[name] = {}
    for key in sorted(predictions):
      codes = [code for code in sorted(predictions[key]) if languages is None or code in languages]
      if codes:
        chosen[name][key] = {code: predictions[key][code] for code in codes}
        found.update(codes)
  absent = [code for code in languages or () if code not in found]
  if absent:
    raise UsageError(f"no prediction in {', '.join(absent)}: ask for other languages with --languages")
  return chosen


def _check_same(systems: Mapping[str, Predictions]) -> None:
  pairs = {
    name: {(code, key) for key, captions in predictions.items() for code in captions}
    for name, predictions in systems.items()
  }
  wanted = set().union(*pairs.values())
  for name, given in pairs.items():
    missing = [f"{code} {files.shown(key)}" for code, key in sorted(wanted - given)]
    if missing:
      raise UsageError(
        f"system '{files.shown(name)}' lacks {len(missing):,} of {len(wanted):,} captions that others have "
        f"({', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''}); give every system the same pictures and "
        "languages"
      )


def _digest(*parts: object) -> str:
  return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode("utf-8")).hexdigest()
