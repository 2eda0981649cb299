"""Figures about the first screen of Crossmodal-3600's procedure: how people rate the machine captions shown to them.

Source of the screen: Thapliyal et al., "Crossmodal-3600" (EMNLP 2022), section 2.3. The figures are this project's: the
paper rates machine captions so that people learn the kind of sentence, and prints no ratings of them. `same` shows, for
people who write in the language of these captions, whether they repeat them on the second screen.
"""

import dataclasses
import statistics
import typing
from collections.abc import Iterable, Sequence
from typing import Any

import regex

from xmcap import languages
from xmcap.human import agreement, annotation_report, fields
from xmcap.human.annotations import Annotation, Rated, Rating
from xmcap.human.fields import ALL
from xmcap.human.sheets import Findings, Sheet, SheetColumn

RATINGS: tuple[str, ...] = typing.get_args(Rating)
"""The values of a rating, the best first; the last is no judgement."""

_NO_LETTER = regex.compile(r"[^\p{L}\p{M}\p{N}]+")


@dataclasses.dataclass(frozen=True)
class CaptionRatings:
  """How an annotator, or all of a language, rated machine captions; None where nothing is counted.

  Attributes:
    rated: captions, by each annotator.
    shares: of each value of `RATINGS`, in per cent of the rated captions.
    same: sentences with the words of the rated caption, in per cent of the sentences in its language.
    seconds: the median over rated captions.
  """

  language: str
  annotator: str
  rated: int
  shares: tuple[float, ...]
  same: float | None
  seconds: float


@dataclasses.dataclass(frozen=True)
class RatingAgreement:
  """How far annotators agree on machine captions that two or more of them rated.

  Attributes:
    equal: equal pairs of ratings, in per cent of all pairs.
    alpha: Krippendorff's, with squared distances; NOT-ENOUGH-INFO counts as missing. None if all are the same.
  """

  language: str
  captions: int
  equal: float
  alpha: float | None


@dataclasses.dataclass(frozen=True)
class RatingFindings(Findings):
  """The figures by language, then annotator, then all."""

  ratings: tuple[CaptionRatings, ...]
  agreement: tuple[RatingAgreement, ...]
  stem = "caption_ratings"

  def sheets(self) -> list[Sheet]:
    """Returns the sheet of ratings and, if two annotators rated a caption, that of agreement."""
    columns = [
      *map(SheetColumn, ("language", "annotator")),
      SheetColumn("rated", format=","),
      *(SheetColumn(value.lower().replace("-", "_"), f"{value} %", ".1f") for value in RATINGS),
      SheetColumn("same", "same %", ".1f"),
      SheetColumn("seconds", format=".0f"),
    ]
    rows = [
      [rating.language, rating.annotator, rating.rated, *rating.shares, rating.same, rating.seconds]
      for rating in self.ratings
    ]
    sheets = [Sheet("caption_ratings", "Ratings of machine captions", columns, rows)]
    if self.agreement:
      columns = [
        SheetColumn("language"),
        SheetColumn("captions", format=","),
        SheetColumn("equal", "equal %", ".1f"),
        SheetColumn("alpha", format=".3f"),
      ]
      title = "Agreement on machine captions"
      sheets.append(Sheet.of_objects("caption_rating_agreement", title, columns, self.agreement))
    return sheets

  def as_json(self) -> dict[str, Any]:
    """Returns the fields, the shares by value; nothing is resampled."""
    ratings = [
      {**vars(rating), "shares": dict(zip(RATINGS, rating.shares, strict=True))} for rating in self.ratings
    ]
    return {"ratings": ratings, "agreement": self.agreement, "notes": self.notes}


def evaluate(annotations: Iterable[Annotation]) -> RatingFindings | None:
  """Returns the figures, of annotations as `annotation_report.evaluate` takes them; None if no caption is rated."""
  rated = [(entry, entry.rated) for entry in annotations if entry.rated and entry.rated.rating]
  if not rated:
    return None
  ratings: list[CaptionRatings] = []
  agreements: list[RatingAgreement] = []
  for language in languages.ordered(entry.language for entry, _ in rated):
    of_language = [pair for pair in rated if pair[0].language == language]
    by_annotator = fields.grouped(of_language, lambda pair: pair[0].annotator)
    ratings += [_ratings(language, name, pairs) for name, pairs in by_annotator.items()]
    if len(by_annotator) > 1:
      ratings.append(_ratings(language, ALL, of_language))
    agreements += _agreement(language, of_language)
  return RatingFindings(tuple(ratings), tuple(agreements))


def _ratings(language: str, annotator: str, rated: Sequence[tuple[Annotation, Rated]]) -> CaptionRatings:
  same = [
    _words(entry.caption) == _words(caption.caption)
    for entry, caption in rated
    if entry.described and caption.language == language
  ]
  return CaptionRatings(
    language,
    annotator,
    rated=len(rated),
    shares=tuple(
      100 * sum(caption.rating == value for _, caption in rated) / len(rated) for value in RATINGS
    ),
    same=100 * sum(same) / len(same) if same else None,
    seconds=statistics.median(annotation_report.seconds(entry, "open_rating") for entry, _ in rated),
  )


def _agreement(language: str, rated: Sequence[tuple[Annotation, Rated]]) -> list[RatingAgreement]:
  units: dict[tuple[str, str], list[str]] = {}  # picture and caption -> ratings
  for annotation, caption in rated:
    units.setdefault((annotation.key, caption.caption), []).append(caption.rating)
  several = [unit for unit in units.values() if len(unit) > 1]
  equal = agreement.equal_share([list(map(RATINGS.index, unit)) for unit in several])
  if equal is None:
    return []
  judged = [[RATINGS.index(value) for value in unit if value != RATINGS[-1]] for unit in several]
  alpha = agreement.krippendorff_alpha(judged, squared=True)
  return [RatingAgreement(language, len(several), 100 * equal, alpha)]


def _words(caption: str) -> str:
  return _NO_LETTER.sub(" ", caption.casefold()).strip()
