"""Ratings by a rubric: means with deviations, precision and recall of judged tags, and agreement.

Source: Li et al., "COCO-CN for Cross-Lingual Image Tagging, Captioning and Retrieval" (IEEE Transactions on Multimedia
2019), Table 9 (relevance and fluency of sentences, mean and deviation) and Tables 5 and 6 (precision, recall and F of
tags that people judged). Agreement is this project's.
"""

import dataclasses
import itertools
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from xmcap import languages, wording
from xmcap.arguments import checked
from xmcap.errors import UsageError
from xmcap.human import agreement, fields, rating_protocols
from xmcap.human.sheets import Cell, Findings, Sheet, SheetColumn
from xmcap.reading import joining, label_words
from xmcap.terminal import shown

_MEMBERS = ("language", "image/key", "system", "rater")
_BY = {"all": all, "any": any}
"""Who must call a tag relevant: all who judged it, or one of them."""


@dataclasses.dataclass(frozen=True)
class RubricRating:
  """What a rater gave to a caption or tag of a system: `values` are those of the criteria, in their order."""

  language: str
  key: str
  system: str
  rater: str
  text: str
  values: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class RubricRatings:
  """The ratings of a file; `of_tags` says whether tags were judged, or captions."""

  protocol: str
  criteria: tuple[str, ...]
  of_tags: bool
  ratings: tuple[RubricRating, ...]


@dataclasses.dataclass(frozen=True)
class SystemRatings:
  """A system in a language: criterion -> mean and sample standard deviation (None of one rating) of its ratings."""

  language: str
  system: str
  pictures: int
  ratings: int
  means: dict[str, float]
  deviations: dict[str, float | None]


@dataclasses.dataclass(frozen=True)
class JudgedTags:
  """Precision, recall and F of the tags of a system, averaged over the pictures that have a relevant tag.

  Attributes:
    by: `all`: a tag is relevant if all who judged it say so, that is, give a value above 0; `any`: if one does.
    pictures: those that have a relevant tag; `without` have none, and are left out.
    precision: share of the system's tags that are relevant; `recall`: share of the picture's relevant tags, by any
      system, that it has; `f`: their harmonic mean of each picture.
  """

  language: str
  system: str
  by: str
  pictures: int
  without: int
  precision: float | None
  recall: float | None
  f: float | None


@dataclasses.dataclass(frozen=True)
class CriterionAgreement:
  """How far raters of the same caption or tag agree on a criterion.

  Attributes:
    rated: captions or tags with two or more raters.
    equal: share of equal pairs of ratings.
    alpha, alpha_interval: Krippendorff's alpha, nominal and interval; None if all ratings are the same.
  """

  language: str
  criterion: str
  rated: int
  equal: float | None
  alpha: float | None
  alpha_interval: float | None


@dataclasses.dataclass(frozen=True)
class RubricFindings(Findings):
  """The figures about ratings by a rubric."""

  protocol: str
  systems: tuple[SystemRatings, ...]
  tags: tuple[JudgedTags, ...]
  agreement: tuple[CriterionAgreement, ...]
  stem = "rubric"

  def sheets(self) -> list[Sheet]:
    """Returns the sheet of means, that of judged tags if there are any, and that of agreement."""
    columns = [*map(SheetColumn, ("language", "system"))]
    columns += [SheetColumn(name, format=",") for name in ("pictures", "ratings")]
    for name in self.systems[0].means:
      deviation = SheetColumn(f"{name}{rating_protocols.DEVIATION}", "\u00b1", ".2f")
      columns += [SheetColumn(name, format=".2f"), deviation]
    rows: list[list[Cell]] = []
    for system in self.systems:
      pairs = zip(system.means.values(), system.deviations.values(), strict=True)
      counts = [system.language, system.system, system.pictures, system.ratings]
      rows.append([*counts, *itertools.chain.from_iterable(pairs)])
    title = f"Ratings by {self.protocol}: means and standard deviations"
    sheets = [Sheet("rubric_means", title, columns, rows)]
    if self.tags:
      columns = [
        *map(SheetColumn, ("language", "system")),
        SheetColumn("by", "relevant by"),
        *(SheetColumn(name, format=",") for name in ("pictures", "without")),
        *(SheetColumn(name, format=".3f") for name in ("precision", "recall", "f")),
      ]
      sheets.append(Sheet.of_objects("rubric_tags", "Judged tags", columns, self.tags))
    columns = [
      *map(SheetColumn, ("language", "criterion")),
      SheetColumn("rated", "rated by several", ","),
      SheetColumn("equal", "equal pairs", ".1%"),
      SheetColumn("alpha", "alpha", ".2f"),
      SheetColumn("alpha_interval", "alpha, interval", ".2f"),
    ]
    sheets.append(Sheet.of_objects("rubric_agreement", "Krippendorff's alpha", columns, self.agreement))
    return sheets

  def as_json(self) -> dict[str, Any]:
    """Returns the fields; nothing is resampled."""
    fields_of = ("protocol", "systems", "tags", "agreement", "notes")
    return {name: getattr(self, name) for name in fields_of}


@checked
def read(paths: joining.Paths) -> RubricRatings:
  """Reads what `rating_join.join` makes of a rubric: JSONL, one line a rater, system and caption or tag.

  Several files are read as one.

  Raises:
    UsageError: a line is malformed or repeats one, lines are of several protocols or have other criteria than the
      first, or there are none; the message names file and line.
  """
  ratings: list[RubricRating] = []
  seen: dict[tuple[str, ...], str] = {}
  first: tuple[str, bool, tuple[str, ...]] | None = None
  for where, row in fields.rows(paths, (*_MEMBERS, "protocol", "the criteria")):
    language, key, system = (fields.text(row, name, where) for name in _MEMBERS[:-1])
    rater = fields.person(row, "rater", where)
    languages.check(language, where)
    of_tags = "tag" in row
    text = fields.text(row, "tag" if of_tags else "caption", where, blank=True)
    text = label_words.word(text) if of_tags else text
    criteria = tuple(name for name in row if name not in rating_protocols.RESERVED | {"image/key"})
    own = (fields.text(row, "protocol", where), of_tags, criteria)
    if not criteria:
      raise UsageError(f"{where}: no criterion; give the file that xmcap human rate --join wrote")
    if first is None:
      rating_protocols.check_names(criteria, where)
      first = own
    if own != first:
      raise UsageError(
        f"{where}: another protocol, or other criteria, than in the first line; read them apart"
      )
    values = tuple(fields.number(row, name, where) for name in criteria)
    # A system has one caption of a picture, but several tags.
    unit = (language, key, system, rater, text) if of_tags else (language, key, system, rater)
    fields.once(seen, unit, where, f"'{shown(text)}' of '{shown(system)}' was rated by '{shown(rater)}'")
    ratings.append(RubricRating(language, key, system, rater, text, values))
  assert first is not None
  protocol, of_tags, criteria = first
  return RubricRatings(protocol, criteria, of_tags, tuple(ratings))


@checked
def evaluate(joined: RubricRatings) -> RubricFindings:
  """Returns the figures about ratings; UsageError if a rater rated a picture for only some of the systems."""
  systems: list[SystemRatings] = []
  tags: list[JudgedTags] = []
  agreements: list[CriterionAgreement] = []
  notes = [
    f"\u00b1: sample standard deviation of the ratings; raters: {len({r.rater for r in joined.ratings}):,}",
    *fields.alike(rating.rater for rating in joined.ratings),
  ]
  for language, of_language in fields.grouped(joined.ratings, lambda rating: rating.language).items():
    by_system = list(fields.grouped(of_language, lambda rating: rating.system).items())
    _check_same(language, by_system)
    systems += [_of_system(language, name, rows, joined.criteria) for name, rows in by_system]
    rated = _rated(of_language)
    agreements += [
      _agreement(language, name, [[values[number] for values in votes.values()] for votes in rated.values()])
      for number, name in enumerate(joined.criteria)
    ]
    if joined.of_tags:
      tags += [judged for by in _BY for judged in _judged(language, by, by_system, rated)]
  if joined.of_tags:
    notes.append(
      "relevant by all, any: a tag counts as relevant if all, or any, of those who judged it gave a value above 0 for "
      f"{joined.criteria[0]}; recall is over the relevant tags of all systems; pictures without one are left out"
    )
  return RubricFindings(
    protocol=joined.protocol,
    systems=tuple(systems),
    tags=tuple(tags),
    agreement=tuple(agreements),
    notes=notes,
  )


def _rated(ratings: Iterable[RubricRating]) -> dict[tuple[str, str], dict[str, tuple[float, ...]]]:
  """Returns (key, text) -> rater -> values; a text of several systems was rated once for all of them."""
  rated: dict[tuple[str, str], dict[str, tuple[float, ...]]] = {}
  for rating in ratings:
    rated.setdefault((rating.key, rating.text), {})[rating.rater] = rating.values
  return rated


def _check_same(language: str, by_system: Sequence[tuple[str, Sequence[RubricRating]]]) -> None:
  images = {system: {(rating.key, rating.rater) for rating in rows} for system, rows in by_system}
  every = set().union(*images.values())
  for system, rated in images.items():
    missing = sorted(f"{shown(key)} by {shown(rater)}" for key, rater in every - rated)
    if missing:
      raise UsageError(
        f"'{language}': '{shown(system)}' lacks {len(missing):,} of {len(every):,} rated pictures that others have "
        f"({wording.first_few(missing)}); rate the same pictures for every system"
      )


def _of_system(
  language: str, system: str, rows: Sequence[RubricRating], criteria: Sequence[str]
) -> SystemRatings:
  columns = dict(zip(criteria, zip(*(rating.values for rating in rows), strict=True), strict=True))
  return SystemRatings(
    language, system, len({rating.key for rating in rows}), len(rows),
    {name: statistics.fmean(values) for name, values in columns.items()},
    {name: statistics.stdev(values) if len(values) > 1 else None for name, values in columns.items()},
  )  # fmt: skip


def _agreement(language: str, criterion: str, units: Sequence[Sequence[float]]) -> CriterionAgreement:
  alphas = (agreement.krippendorff_alpha(units, squared) for squared in (False, True))
  several = sum(len(unit) > 1 for unit in units)
  return CriterionAgreement(language, criterion, several, agreement.equal_share(units), *alphas)


def _judged(
  language: str,
  by: str,
  by_system: Sequence[tuple[str, Sequence[RubricRating]]],
  rated: dict[tuple[str, str], dict[str, tuple[float, ...]]],
) -> list[JudgedTags]:
  relevant: dict[str, set[str]] = {}
  for (key, tag), votes in rated.items():
    of_image = relevant.setdefault(key, set())
    if _BY[by](values[0] > 0 for values in votes.values()):
      of_image.add(tag)
  judged = []
  for system, rows in by_system:
    tags = {
      key: {row.text for row in of_key} for key, of_key in fields.grouped(rows, lambda row: row.key).items()
    }
    scores = []
    for key, own in tags.items():
      if relevant[key]:
        hits = len(own & relevant[key])
        true = len(relevant[key])
        scores.append((hits / len(own), hits / true, 2 * hits / (len(own) + true)))
    means = [statistics.fmean(column) for column in zip(*scores, strict=True)] or [None] * 3
    judged.append(JudgedTags(language, system, by, len(scores), len(tags) - len(scores), *means))
  return judged
