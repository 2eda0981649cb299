"""Ratings of captions on a scale of five levels: the quality protocol of XM3600.

Source: Thapliyal et al., "Crossmodal-3600" (EMNLP 2022), section 2.5 and Table 2: one caption of each of 600 random
pictures is rated by three people; the median of the three is the caption's. The table has the shares of captions that
are GOOD or better, MEDIUM or better, and BAD. They are of all captions, those with NOT-ENOUGH-INFO included: therefore
the last two do not always sum to 100 there.

NOT-ENOUGH-INFO has no place on the scale, and the paper does not say how it enters a median. Here a caption has it if
more than half of its raters chose it; else it is left out of the median. Of two ratings in the middle the lower one
counts, as the paper's instructions (Appendix B) want for borderline cases.
"""

import collections
import dataclasses
import hashlib
import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xmcap import languages, wording
from xmcap.arguments import checked
from xmcap.errors import UsageError
from xmcap.human import agreement, fields
from xmcap.human.sheets import Findings, Sheet, SheetColumn
from xmcap.reading import joining
from xmcap.reading.references import References
from xmcap.scoring.statistics import resampling
from xmcap.terminal import shown

LEVELS: dict[str, int] = {"EXCELLENT": 4, "GOOD": 3, "MEDIUM": 2, "BAD": 1, "NOT-ENOUGH-INFO": 0}
"""Level -> its number in files of ratings."""

_UNKNOWN = LEVELS["NOT-ENOUGH-INFO"]
_OTHER_WORDS = {"MEDIOCRE": 2, "NOT-ENOUGH-INFORMATION": 0}  # Appendix B calls them so
_MEMBERS = ("image/key", "language", "rater", "quality")
_SHARES = {"good_plus": "%GOOD+", "med_plus": "%MED+", "bad": "%BAD", "unknown": "%no info"}

_Unit = tuple[str, str, str, str]  # system, language, image key, caption


@dataclasses.dataclass(frozen=True)
class QualityRating:
  """One rater's level of a caption, one of the values of `LEVELS`. `system` may be empty: captions of people."""

  system: str
  language: str
  key: str
  caption: str
  rater: str
  level: int


@dataclasses.dataclass(frozen=True)
class Quality:
  """The captions of a system in a language.

  Attributes:
    good_plus, med_plus, bad, unknown: captions whose level is GOOD or EXCELLENT; MEDIUM or better; BAD;
      NOT-ENOUGH-INFO; in per cent of all captions.
    low, high: ends of the 95% bootstrap interval of `good_plus`; None without resamples.
    same_level: share of equal pairs of ratings of a caption; None if no caption has two ratings.
    alpha: Krippendorff's, interval; NOT-ENOUGH-INFO counts as missing.
  """

  system: str
  language: str
  captions: int
  good_plus: float
  med_plus: float
  bad: float
  unknown: float
  low: float | None
  high: float | None
  ratings: int
  same_level: float | None
  alpha: float | None


@dataclasses.dataclass(frozen=True)
class QualityFindings(Findings):
  """The quality by system, then language."""

  rows: tuple[Quality, ...]
  stem = "quality"

  def sheets(self) -> list[Sheet]:
    """Returns one sheet with a row per system and language, as Table 2 of the paper."""
    ends = ("low", "high") if self.resamples else ()
    systems = [SheetColumn("system")] if any(row.system for row in self.rows) else []
    columns = [
      *systems,
      SheetColumn("language"),
      SheetColumn("captions", format=","),
      *(SheetColumn(name, heading, ".1f") for name, heading in _SHARES.items()),
      *(SheetColumn(end, format=".1f") for end in ends),
      SheetColumn("ratings", format=","),
      SheetColumn("same_level", "same level", ".2f"),
      SheetColumn("alpha", format=".2f"),
    ]
    return [Sheet.of_objects("quality", "Quality of captions", columns, self.rows)]


def draw(references: References, images: int, seed: int = 0) -> Iterator[dict[str, str]]:
  """Yields one caption of each of some random pictures in each language, as predictions for `human rate`.

  The same keys and seed give the same pictures, for each language those that have a caption in it.

  Raises:
    UsageError: a language has captions of fewer pictures.
  """

  def drawn(*parts: object) -> bytes:
    return hashlib.sha256(json.dumps([seed, *parts], ensure_ascii=False).encode()).digest()

  keys = sorted(references, key=lambda key: drawn("picture", key))
  for language in languages.ordered(language for of_image in references.values() for language in of_image):
    chosen = [key for key in keys if references[key].get(language)][:images]
    if len(chosen) < images:
      raise UsageError(
        f"{language}: only {wording.count(len(chosen), 'picture')} with a caption; draw fewer than {images:,}"
      )
    for key in chosen:
      captions = references[key][language]
      place = int.from_bytes(drawn("caption", key, language)[:8]) % len(captions)
      yield {"image/key": key, "language": language, "caption": captions[place]}


@checked
def read(paths: joining.Paths) -> list[QualityRating]:
  """Reads ratings from JSONL or, if the name ends in `.csv`, from CSV with a header line; from one file or several.

  A line has `image/key`, `language`, `rater`, `quality` (a level by its name or number), and `caption` and `system` if
  a picture has several.

  Raises UsageError for a file without ratings, and for a line that lacks a field, names an unknown language, has no
  level, or repeats a rating of the same rater.
  """
  ratings: list[QualityRating] = []
  seen: dict[Hashable, str] = {}
  for where, row in fields.rows(paths, _MEMBERS, as_csv=True):
    key, language = (fields.text(row, name, where).strip() for name in _MEMBERS[:2])
    rater = fields.person(row, "rater", where)
    languages.check(language, where)
    system, caption = (
      fields.text(row, name, where, blank=True) if name in row else "" for name in ("system", "caption")
    )
    event = f"'{shown(rater)}' rated the caption of image '{shown(key)}' in {language}"
    fields.once(seen, (system, language, key, caption, rater), where, event)
    ratings.append(QualityRating(system, language, key, caption, rater, _level(row, where)))
  return ratings


def _level(row: Mapping[str, Any], where: str) -> int:
  value = row.get("quality")
  if isinstance(value, str):
    words = "-".join(value.upper().replace("_", " ").replace("-", " ").split())
    level = {**LEVELS, **_OTHER_WORDS, **{str(number): number for number in LEVELS.values()}}.get(words)
  else:
    level = fields.number(row, "quality", where)
  if level is None or level not in LEVELS.values():
    names = ", ".join(f"{name} ({level})" for name, level in LEVELS.items())
    raise UsageError(f"{where}: 'quality' is {shown(json.dumps(value))}; it must be one of {names}")
  return int(level)


@checked
def evaluate(
  ratings: Sequence[QualityRating], resamples: int = 1000, seed: int = 0, raters: int = 3
) -> QualityFindings:
  """Takes the median level of each caption, and the shares of levels for each system and language.

  Args:
    ratings: one or more.
    resamples, seed: of the captions; 0 resamples for no intervals.
    raters: expected number of raters per caption; the notes report other numbers.
  """
  of_caption: dict[_Unit, list[int]] = collections.defaultdict(list)
  for rating in ratings:
    of_caption[rating.system, rating.language, rating.key, rating.caption].append(rating.level)
  groups: dict[tuple[str, str], list[list[int]]] = collections.defaultdict(list)
  for unit in sorted(of_caption):
    groups[unit[:2]].append(sorted(of_caption[unit]))
  order = {
    language: place for place, language in enumerate(languages.ordered(language for _, language in groups))
  }
  rows = tuple(
    _quality(system, language, groups[system, language], resamples, seed)
    for system, language in sorted(groups, key=lambda group: (group[0], order[group[1]]))
  )
  notes = [
    "level of a caption: the median of its ratings; NOT-ENOUGH-INFO if more than half chose it",
    "shares are of all captions, those without enough info included",
  ]
  if resamples:
    notes.append(
      f"low, high: 95% bootstrap interval of %GOOD+, {resamples:,} resamples of the captions, seed {seed}"
    )
  counts = collections.Counter(map(len, of_caption.values()))
  notes += agreement.unusual_numbers(counts, raters, "captions", "ratings")
  notes += fields.alike(rating.rater for rating in ratings)
  return QualityFindings(rows=rows, resamples=resamples, seed=seed, notes=notes)


def median_level(levels: Sequence[int]) -> int:
  """Returns the level of a caption from the ratings of it, one or more."""
  known_levels = sorted(level for level in levels if level != _UNKNOWN)
  if 2 * len(known_levels) < len(levels):
    return _UNKNOWN
  return known_levels[(len(known_levels) - 1) // 2]


def _quality(
  system: str, language: str, captions: Sequence[Sequence[int]], resamples: int, seed: int
) -> Quality:
  levels = np.array([median_level(ratings) for ratings in captions])
  good = 100 * float((levels >= LEVELS["GOOD"]).mean())
  low = high = None
  if resamples:
    # Drawing captions with replacement is the same as drawing how many of them are good.
    drawn = np.random.default_rng(seed).binomial(len(levels), good / 100, size=resamples)
    low, high = resampling.interval(100 * drawn / len(levels))
  known_levels = [[level for level in ratings if level != _UNKNOWN] for ratings in captions]
  return Quality(
    system, language, len(captions), good,
    100 * float((levels >= LEVELS["MEDIUM"]).mean()),
    100 * float((levels == LEVELS["BAD"]).mean()),
    100 * float((levels == _UNKNOWN).mean()),
    low, high, sum(map(len, captions)),
    agreement.equal_share(captions),
    agreement.krippendorff_alpha(known_levels, squared=True),
  )  # fmt: skip
