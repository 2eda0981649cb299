"""How suggestions were used, from the log: how many tags were accepted, how far sentences are from suggested ones.

Source: Li et al., "COCO-CN for Cross-Lingual Image Tagging, Captioning and Retrieval" (IEEE Transactions on Multimedia
2019), section III-C, which compares sentences that were begun from a suggestion with the others, and gives the mean
Levenshtein distances 15.0 and 16.8. Here both are measured in the same way, from the nearest suggestion and as the mean
over all, because a sentence is never farther from the nearest of five than from one that was copied.
"""

import collections
import dataclasses
import statistics
from collections.abc import Iterable, Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

from xmcap.human.annotations import Annotation
from xmcap.human.sheets import Sheet, SheetColumn
from xmcap.scoring.statistics import resampling

BEGUN, OWN = "begun from a suggestion", "own"
_BIN = 5  # characters
_AT_ONCE = 1_000_000  # numbers that are resampled at once


@dataclasses.dataclass(frozen=True)
class AcceptedTags:
  """How many pictures, of those that had suggested tags, were given so many of them; `share` in per cent."""

  language: str
  accepted: int
  pictures: int
  share: float


@dataclasses.dataclass(frozen=True)
class SuggestionRank:
  """How often the suggestion in this place, from 1, was used: per cent of those that were shown there.

  `tags` were given to the picture; with `sentences` a sentence was begun. None: nothing was shown there.
  """

  language: str
  place: int
  tags: float | None
  sentences: float | None


@dataclasses.dataclass(frozen=True)
class Distances:
  """The sentences with so many characters' distance, `least` to `most`, from the nearest suggestion."""

  language: str
  least: int
  most: int
  begun: int
  own: int


@dataclasses.dataclass(frozen=True)
class Compared:
  """Sentences of pictures with suggested sentences: those begun from a suggestion, or the others.

  Attributes:
    kind: `BEGUN` or `OWN`.
    characters: mean of a sentence.
    nearest, low, high: mean Levenshtein distance, in characters, from the nearest suggestion, and its interval.
    all: the same from all suggestions: mean over them, then over sentences.
    unchanged: per cent that are equal to a suggestion.
  """

  language: str
  kind: str
  sentences: int
  characters: float
  nearest: float
  low: float
  high: float
  all: float
  unchanged: float


@dataclasses.dataclass(frozen=True)
class AnnotatorComparison:
  """The tables of all languages."""

  tags: tuple[AcceptedTags, ...]
  places: tuple[SuggestionRank, ...]
  distances: tuple[Distances, ...]
  compared: tuple[Compared, ...]

  def sheets(self) -> list[Sheet]:
    """Returns a sheet of each table that is not empty."""
    language, count, share = SheetColumn("language"), {"format": ","}, {"format": ".1f"}
    columns = [
      language,
      SheetColumn("kind"),
      SheetColumn("sentences", **count),
      SheetColumn("characters", **share),
    ]
    columns += [SheetColumn("nearest", "distance, nearest", ".1f")]
    columns += [SheetColumn(name, **share) for name in ("low", "high")]
    columns += [SheetColumn("all", "distance, all", ".1f"), SheetColumn("unchanged", "unchanged %", ".1f")]
    sheets = [
      Sheet.of_objects("begun_and_own", "Sentences begun from a suggestion, and own", columns, self.compared)
    ]
    columns = [language, SheetColumn("accepted", "accepted tags"), SheetColumn("pictures", **count)]
    columns += [SheetColumn("share", "%", ".1f")]
    sheets.append(
      Sheet.of_objects("accepted_tags", "Pictures by suggested tags accepted", columns, self.tags)
    )
    columns = [language, SheetColumn("least", "from"), SheetColumn("most", "to")]
    columns += [SheetColumn(name, **count) for name in ("begun", "own")]
    title = "Sentences by distance from the nearest suggestion"
    sheets.append(Sheet.of_objects("edit_distances", title, columns, self.distances))
    columns = [language, SheetColumn("place"), SheetColumn("tags", "tags %", ".1f")]
    columns += [SheetColumn("sentences", "sentences %", ".1f")]
    sheets.append(Sheet.of_objects("suggestion_places", "Suggestions used, by place", columns, self.places))
    return [sheet for sheet in sheets if sheet.rows]


@dataclasses.dataclass(frozen=True)
class _Sentence:
  """A sentence of a picture with suggested sentences, and its distance from each of them."""

  key: str
  begun: bool
  characters: int
  distances: tuple[int, ...]


def compare(
  by_language: Iterable[tuple[str, Sequence[Annotation]]], resamples: int, seed: int
) -> AnnotatorComparison:
  """Returns the tables of (language, its annotations); the intervals are of resampled pictures."""
  tables: dict[str, list] = {field.name: [] for field in dataclasses.fields(AnnotatorComparison)}
  for language, annotations in by_language:
    described = [annotation for annotation in annotations if annotation.described]
    tables["tags"] += _tags(language, described)
    tables["places"] += _places(language, described)
    sentences = [
      _Sentence(
        annotation.key,
        annotation.begun_from is not None,
        len(annotation.caption),
        tuple(Levenshtein.distance(text, annotation.caption) for text in annotation.suggested.sentences),
      )
      for annotation in described
      if annotation.suggested.sentences
    ]
    tables["distances"] += _histogram(language, sentences)
    for kind, begun in ((BEGUN, True), (OWN, False)):
      if chosen := [sentence for sentence in sentences if sentence.begun == begun]:
        tables["compared"].append(_compared(language, kind, chosen, resamples, seed))
  return AnnotatorComparison(**{name: tuple(rows) for name, rows in tables.items()})


def _tags(language: str, described: Sequence[Annotation]) -> list[AcceptedTags]:
  tagged = [entry for entry in described if entry.suggested.tags]
  counts = collections.Counter(len(set(entry.suggested.tags) & set(entry.tags)) for entry in tagged)
  most = max((len(set(entry.suggested.tags)) for entry in tagged), default=-1)
  return [AcceptedTags(language, n, counts[n], 100 * counts[n] / len(tagged)) for n in range(most + 1)]


def _places(language: str, described: Sequence[Annotation]) -> list[SuggestionRank]:
  shown, used = (collections.defaultdict(collections.Counter) for _ in range(2))
  for entry in described:
    chosen = {"tags": set(entry.tags), "sentences": {entry.begun_from}}
    for kind, suggested in (("tags", entry.suggested.tags), ("sentences", entry.suggested.sentences)):
      for place, text in enumerate(suggested, 1):
        shown[place][kind] += 1
        used[place][kind] += text in chosen[kind]
  return [
    SuggestionRank(
      language,
      place,
      **{
        kind: 100 * used[place][kind] / shown[place][kind] if shown[place][kind] else None
        for kind in ("tags", "sentences")
      },
    )
    for place in sorted(shown)
  ]


def _histogram(language: str, sentences: Sequence[_Sentence]) -> list[Distances]:
  """The first row is of distance 0, the others of five characters each, up to the largest distance."""
  counts: collections.Counter[tuple[int, bool]] = collections.Counter(
    (-(-min(sentence.distances) // _BIN), sentence.begun) for sentence in sentences
  )
  most = max((number for number, _ in counts), default=-1)
  return [
    Distances(
      language, max(0, _BIN * (number - 1) + 1), _BIN * number, counts[number, True], counts[number, False]
    )
    for number in range(most + 1)
  ]


def _compared(
  language: str, kind: str, sentences: Sequence[_Sentence], resamples: int, seed: int
) -> Compared:
  nearest = [min(sentence.distances) for sentence in sentences]
  low, high = _interval([sentence.key for sentence in sentences], nearest, resamples, seed)
  return Compared(
    language,
    kind,
    len(sentences),
    statistics.fmean(sentence.characters for sentence in sentences),
    statistics.fmean(nearest),
    low,
    high,
    statistics.fmean(statistics.fmean(sentence.distances) for sentence in sentences),
    100 * statistics.fmean(distance == 0 for distance in nearest),
  )


def _interval(keys: Sequence[str], values: Sequence[int], resamples: int, seed: int) -> tuple[float, float]:
  """Returns the 95% interval of the mean of values when their pictures are drawn with replacement."""
  _, units = np.unique(keys, return_inverse=True)
  counts, sums = np.bincount(units), np.bincount(units, values)
  rng, means = np.random.default_rng(seed), []
  step = max(1, _AT_ONCE // len(counts))
  for start in range(0, resamples, step):
    size = min(step, resamples - start)
    drawn = rng.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), size=size)
    means.append((drawn @ sums) / (drawn @ counts))
  return resampling.interval(np.concatenate(means))
