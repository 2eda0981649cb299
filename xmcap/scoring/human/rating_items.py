"""Draws the items that raters see from predictions; order and sides are random and reveal nothing about the systems.

Order, sides and the choice of pictures come from hashes, which are stable where random generators may change. The same
input gives the same items in whatever order the systems are named. The pictures depend on the seed; order and sides
depend on the rater too, so all raters see the same pictures, each in a different order.

Protocol `sxs` is the side-by-side comparison of section 3.3 of Thapliyal et al., "Crossmodal-3600" (EMNLP 2022): a
seven-point scale and random sides. `thumb` is THumB 1.0 of Kasai et al., "Transparent Human Evaluation for Image
Captioning" (NAACL 2022): precision and recall from 1 to 5, and penalties that are subtracted from their mean. The
wording is this project's; the scales are the papers'. THumB's published penalties are between -0.5 and 0.
"""

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.reading.predictions import Predictions
from xmcap.scoring.report import elements
from xmcap.terminal import shown

PROTOCOLS: dict[str, dict[str, Any]] = json.loads(
  elements.resource("rating_protocols.json", "xmcap.scoring.human")
)
"""Name -> `title`, `task` (shown first), `advice` (stays on screen), headings of the `captions`, and `criteria`: for
each question the `name` of its field in the ratings file, `heading`, `question`, `choices` (value and meaning), the
number key of the first choice, and the `default` if a rater leaves it out.
"""

INSTRUCTIONS: dict[str, dict[str, list[Any]]] = json.loads(
  elements.resource("rating_instructions.json", "xmcap.scoring.human")
)
"""Language code -> protocol -> translated title and task, and for `sxs` the meanings of the choices."""


@dataclasses.dataclass(frozen=True)
class RatingItem:
  """One screen of a rating page.

  Attributes:
    id: 16 hex digits; items are sorted by id, so an id reveals only the position.
    captions: sxs: (left, right); thumb: a single caption.
    systems: sxs: (left, right); thumb: all systems that gave this caption, in alphabetical order.
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

  sxs: an item for each image, language and pair of systems, even if both give the same caption, because ties count in
  the percentages. thumb: an item for each image, language and distinct caption; a caption shared by several systems is
  rated once, and the rating counts for each of them.

  `limit` is the number of images, each with every language and system, so that systems stay comparable. The same seed
  draws the same images from the same keys, whatever the captions.

  Raises:
    UsageError: too few systems for the protocol, no prediction in a requested language, or a caption that only some of
      the systems have.
  """
  if protocol == "sxs" and len(systems) < 2:
    raise UsageError("a side-by-side page needs two or more systems: give --predictions=NAME=FILE for each")
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
  """Returns the predictions in the requested languages, with keys and languages in alphabetical order."""
  chosen: dict[str, Predictions] = {}
  for name, predictions in systems.items():
    chosen[name] = {}
    for key, captions in sorted(predictions.items()):
      kept = {
        code: caption for code, caption in sorted(captions.items()) if languages is None or code in languages
      }
      if kept:
        chosen[name][key] = kept
  found = {code for predictions in chosen.values() for captions in predictions.values() for code in captions}
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
    missing = [f"{code} {key}" for code, key in sorted(wanted - given)]
    if missing:
      raise UsageError(
        f"system '{shown(name)}' lacks {len(missing):,} of {len(wanted):,} captions that others have "
        f"({files.first_few(missing)}); give every system the same pictures and languages"
      )


def _digest(*parts: object) -> str:
  return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode("utf-8")).hexdigest()
