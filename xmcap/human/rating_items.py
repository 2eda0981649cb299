"""Draws the items that raters see, captions or tags; order and sides are random and reveal nothing about the systems.

That is how the papers did it: sides anew for each pair (Crossmodal-3600, section 3.3), captions of a picture shuffled
(THumB, section 2.1; COCO-CN), tags too (COCO-CN). Levels stand in one order on all pages, the lowest first.

Order, sides and the choice of pictures come from hashes, which are stable where random generators may change. The same
input gives the same items in whatever order the systems are named. The pictures depend on the seed; order and sides
depend on the rater too, so all raters see the same pictures, each in a different order.
"""

import collections
import dataclasses
import hashlib
import itertools
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xmcap import wording
from xmcap.errors import UsageError
from xmcap.human.rating_protocols import RatingProtocol
from xmcap.reading import ids, label_words, matching
from xmcap.reading.tag_files import Scores
from xmcap.scoring import residue
from xmcap.scoring.health.leftovers import Finding
from xmcap.scoring.health.residual import residual
from xmcap.scoring.residue.forms import FORMS
from xmcap.scoring.tokenizers import sentence
from xmcap.terminal import shown

Texts = Mapping[str, Mapping[str, str | Sequence[str]]]
"""Image key -> language code -> the caption, or the tags, of a system."""

_NOUNS = {"prefix": "a beginning that many share", "suffix": "an end that many share"}
_CLEAN = "raters will see it: xmcap score --clean={} writes predictions.jsonl without it"


@dataclasses.dataclass(frozen=True)
class RatingItem:
  """What is rated on its own: a caption, a tag or a pair of captions.

  Attributes:
    id: hex digits, 16 of a pair and 24 of others; items are sorted by id, so an id reveals only the position. Captions
      or tags of the same picture and language begin with the same 12 digits.
    captions: (left, right), or a single caption or tag.
    systems: (left, right), or all systems that gave the caption or tag, in alphabetical order.
    asked: whether it is on the page; else it is a pair of equal captions, and a tie.
  """

  id: str
  key: str
  language: str
  captions: tuple[str, ...]
  systems: tuple[str, ...]
  asked: bool = True

  @property
  def is_equal(self) -> bool:
    """Whether both captions of a pair are one to a reader."""
    texts = {" ".join(unicodedata.normalize("NFC", text).split()) for text in self.captions}
    return len(self.captions) == 2 and len(texts) == 1


def under_same_keys(systems: Mapping[str, Texts]) -> tuple[dict[str, Texts], list[str]]:
  """Returns the texts under the keys and codes of the system whose name is first, as `matching.align`, and notes."""
  first, aligned, notes = min(systems), {}, []
  for name, texts in systems.items():
    namer = ids.Namer(f"system '{name}'")
    namer.languages = {language: language for of_image in texts.values() for language in of_image}
    own = {key: dict(of_image) for key, of_image in texts.items()}
    aligned[name] = matching.align(own, systems[first], namer)
    notes += namer.notes
  return aligned, notes


def common(
  systems: Mapping[str, Texts], languages: Sequence[str] | None = None
) -> tuple[dict[str, Texts], str]:
  """Returns what all systems have a text for, and a line on what was left out in the languages; "" if nothing."""
  pairs = [{(key, code) for key, of_key in texts.items() for code in of_key} for texts in systems.values()]
  shared, every = set.intersection(*pairs), set.union(*pairs)
  if not shared:
    raise UsageError("no picture has a caption by every system in any language: leave out a system")
  absent = collections.Counter(sorted(code for _, code in every - shared if code in (languages or [code])))
  kept: dict[str, Texts] = {}
  for name, texts in systems.items():
    kept[name] = {
      key: {code: text for code, text in of_key.items() if (key, code) in shared}
      for key, of_key in texts.items()
    }
  listed = ", ".join(f"{code} {count:,}" for code, count in absent.items())
  return kept, f"left out, as a system has no caption there: {listed}" if listed else ""


def residue_note(
  name: str,
  captions: Mapping[str, Mapping[str, str]],
  references: Mapping[str, Mapping[str, Sequence[str]]],
  languages: Sequence[str] | None = None,
) -> str:
  """Returns a line on what a model left around its captions, clearly more than in the references; "" if nothing.

  Without references of a language, beginnings and ends that its captions share are not looked for.
  """
  of_languages: dict[str, list[str]] = collections.defaultdict(list)
  people: dict[str, list[str]] = collections.defaultdict(list)
  for key, of_image in captions.items():
    for language in of_image if languages is None else of_image.keys() & languages:
      of_languages[language].append(of_image[language])
      people[language] += references.get(key, {}).get(language, ())
  by_kind: dict[str, list[Finding]] = {}
  for leftovers in residual(of_languages, people).values():
    for finding in leftovers.findings:
      by_kind.setdefault(finding.kind, []).append(finding)
  kinds = [kind for kind in residue.KINDS if kind in by_kind]
  parts = [
    f"{sum(one.count for one in by_kind[kind]):,} have {_NOUNS.get(kind) or FORMS[kind].noun}, such as "
    f"'{shown(by_kind[kind][0].examples[0], limit=60)}'"
    for kind in kinds
  ]
  total = wording.count(sum(map(len, of_languages.values())), "caption")
  return f"system '{name}': of {total}, {'; '.join(parts)}; {_CLEAN.format(','.join(kinds))}" if parts else ""


def draw_items(
  protocol: RatingProtocol,
  systems: Mapping[str, Texts],
  languages: Sequence[str] | None = None,
  limit: int | None = None,
  seed: int = 0,
  rater: str = "",
  ask_equal: bool = True,
) -> list[RatingItem]:
  """Draws the items of a page.

  A protocol of pairs has an item for each image, language and pair of systems, even if both give the same caption,
  because ties count in the percentages; unless `ask_equal`, such items are marked as ties. Others have an item for each
  image, language and distinct caption or tag; one shared by several systems is rated once, and the rating counts for
  each of them.

  `limit` is the number of images, each with every language and system, so that systems stay comparable. The same seed
  draws the same images from the same keys, whatever the captions.

  Raises:
    UsageError: too few systems for the protocol, no prediction in a requested language, or a caption that only some of
      the systems have.
  """
  if protocol.shows == "pair" and len(systems) < 2:
    raise UsageError("a side-by-side page needs two or more systems: give --predictions=NAME=FILE for each")
  chosen = _in_languages(systems, languages)
  if protocol.sentences:
    chosen = _as_sentences(chosen)
  _check_same(chosen)
  keys = sorted(next(iter(chosen.values())), key=lambda key: _digest(seed, "image", key))[:limit]
  content = _digest(seed, rater, protocol.name, [[name, chosen[name]] for name in sorted(chosen)])
  draw = _side_by_side if protocol.shows == "pair" else _one_by_one
  items = itertools.chain.from_iterable(draw(key, chosen, content) for key in keys)
  if not ask_equal:
    items = [dataclasses.replace(item, asked=not item.is_equal) for item in items]
    if not any(item.asked for item in items):
      raise UsageError("the captions are equal in all comparisons: there is nothing to rate")
  return sorted(items, key=lambda item: item.id)


def best_tags(scores: Scores, top: int, name: str) -> Texts:
  """Returns the `top` tags of each picture and language, of equal scores those that the file has first.

  Raises UsageError if a picture has fewer, as precision at `top` would not be defined; `name` is the system.
  """
  best: dict[str, dict[str, Sequence[str]]] = {}
  for language, of_language in scores.items():
    for key, tags in of_language.items():
      if len(tags) < top:
        raise UsageError(
          f"system '{shown(name)}' has {wording.count(len(tags), 'tag')} of '{shown(key)}' in '{language}'; predict "
          f"{top} or more for each picture, or choose fewer by --top"
        )
      ranked = sorted(tags, key=lambda tag: -tags[tag])[:top]
      best.setdefault(key, {})[language] = list(map(label_words.word, ranked))
  return best


def _side_by_side(key: str, systems: Mapping[str, Any], content: str) -> Iterable[RatingItem]:
  for first, second in itertools.combinations(sorted(systems), 2):
    for language in systems[first][key]:
      digest = _digest(content, key, language, first, second)
      pair = (first, second) if int(digest[16], 16) % 2 else (second, first)
      yield RatingItem(digest[:16], key, language, tuple(systems[name][key][language] for name in pair), pair)


def _one_by_one(key: str, systems: Mapping[str, Any], content: str) -> Iterable[RatingItem]:
  authors: dict[tuple[str, str], list[str]] = {}
  for name in sorted(systems):
    for language, texts in systems[name][key].items():
      for text in [texts] if isinstance(texts, str) else texts:
        authors.setdefault((language, text), []).append(name)
  for (language, text), names in authors.items():
    together = _digest(content, key, language)[:12]
    id = together + _digest(content, key, language, text)[:12]
    yield RatingItem(id, key, language, (text,), tuple(names))


def _in_languages(
  systems: Mapping[str, Texts], languages: Sequence[str] | None
) -> dict[str, dict[str, dict[str, str | Sequence[str]]]]:
  """Returns the predictions in the requested languages, with keys and languages in alphabetical order."""
  chosen: dict[str, dict[str, dict[str, str | Sequence[str]]]] = {}
  for name, predictions in systems.items():
    chosen[name] = {}
    for key, captions in sorted(predictions.items()):
      kept = {
        language: caption
        for language, caption in sorted(captions.items())
        if languages is None or language in languages
      }
      if kept:
        chosen[name][key] = kept
  codes = {
    language for predictions in chosen.values() for captions in predictions.values() for language in captions
  }
  absent = [language for language in languages or () if language not in codes]
  if absent:
    raise UsageError(f"no prediction in {', '.join(absent)}: ask for other languages with --languages")
  return chosen


def _as_sentences(systems: Mapping[str, Texts]) -> dict[str, dict[str, dict[str, str | Sequence[str]]]]:
  def finish(language: str, text: str | Sequence[str]) -> str | Sequence[str]:
    if not isinstance(text, str) or language not in sentence.LANGUAGES:
      return text
    return sentence.finish(language, [text])[0]

  return {
    name: {key: {code: finish(code, text) for code, text in of_key.items()} for key, of_key in texts.items()}
    for name, texts in systems.items()
  }


def _check_same(systems: Mapping[str, Texts]) -> None:
  pairs = {
    name: {(language, key) for key, captions in predictions.items() for language in captions}
    for name, predictions in systems.items()
  }
  every = set().union(*pairs.values())
  for name, rated in pairs.items():
    missing = [f"{language} {key}" for language, key in sorted(every - rated)]
    if missing:
      raise UsageError(
        f"system '{shown(name)}' lacks {len(missing):,} of {len(every):,} captions or lists of tags that others have "
        f"({wording.first_few(missing)}); give every system the same pictures and languages"
      )


def _digest(*parts: object) -> str:
  return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode("utf-8")).hexdigest()
