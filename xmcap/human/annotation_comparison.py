"""How suggestions were used, from the log: tags accepted, and the edits that a suggested sentence saves.

Source: Li et al., "COCO-CN for Cross-Lingual Image Tagging, Captioning and Retrieval" (IEEE Transactions on Multimedia
2019), section III-C: the Levenshtein distance, in characters, of a sentence from the suggestion that its annotator
clicked, 15.0 on average, beside that from no suggestion, which is the sentence's length, 16.8; Figure 4 has both
distributions, Figure 3 how often a tag was recommended and accepted.
"""

import collections
import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

from xmcap.human.annotations import Annotation
from xmcap.human.sheets import Sheet, SheetColumn
from xmcap.scoring.statistics import resampling

WITH, WITHOUT = "with", "without"
_MOST_TAGS = 30  # as in Figure 3
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
class RecommendedTag:
  """How often a tag was suggested, and given to the picture."""

  language: str
  tag: str
  recommended: int
  accepted: int


@dataclasses.dataclass(frozen=True)
class Distances:
  """The sentences with so many edits, `least` to `most`: from the clicked suggestion, and of all from none."""

  language: str
  least: int
  most: int
  with_suggestion: int
  without: int


@dataclasses.dataclass(frozen=True)
class Compared:
  """The edits of sentences.

  Attributes:
    suggestion: `WITH`, of the sentences that were begun from a suggestion, from that one; `WITHOUT`, of all sentences,
      from none.
    distance, low, high: mean Levenshtein distance, in characters, and its interval.
    edited: sentences that differ from the clicked suggestion; None without.
  """

  language: str
  suggestion: str
  sentences: int
  distance: float
  low: float
  high: float
  edited: int | None


@dataclasses.dataclass(frozen=True)
class AnnotatorComparison:
  """The tables of all languages."""

  tags: tuple[AcceptedTags, ...]
  recommended: tuple[RecommendedTag, ...]
  places: tuple[SuggestionRank, ...]
  distances: tuple[Distances, ...]
  compared: tuple[Compared, ...]

  def sheets(self) -> list[Sheet]:
    """Returns a sheet of each table that is not empty."""
    language, count, share = SheetColumn("language"), {"format": ","}, {"format": ".1f"}
    columns = [language, SheetColumn("suggestion"), SheetColumn("sentences", **count)]
    columns += [SheetColumn(name, **share) for name in ("distance", "low", "high")]
    columns += [SheetColumn("edited", **count)]
    sheets = [Sheet.of_objects("edits", "Edits with and without suggestion", columns, self.compared)]
    columns = [language, SheetColumn("accepted", "accepted tags"), SheetColumn("pictures", **count)]
    columns += [SheetColumn("share", "%", ".1f")]
    sheets.append(
      Sheet.of_objects("accepted_tags", "Pictures by suggested tags accepted", columns, self.tags)
    )
    columns = [language, SheetColumn("tag")]
    columns += [SheetColumn(name, **count) for name in ("recommended", "accepted")]
    sheets.append(Sheet.of_objects("recommended_tags", "Tags most recommended", columns, self.recommended))
    columns = [language, SheetColumn("least", "from"), SheetColumn("most", "to")]
    columns += [SheetColumn("with_suggestion", "with", ","), SheetColumn("without", **count)]
    sheets.append(Sheet.of_objects("edit_distances", "Sentences by edits", columns, self.distances))
    columns = [language, SheetColumn("place"), SheetColumn("tags", "tags %", ".1f")]
    columns += [SheetColumn("sentences", "sentences %", ".1f")]
    sheets.append(Sheet.of_objects("suggestion_places", "Suggestions used, by place", columns, self.places))
    return [sheet for sheet in sheets if sheet.rows]


def compare(
  by_language: Iterable[tuple[str, Sequence[Annotation]]], resamples: int, seed: int
) -> AnnotatorComparison:
  """Returns the tables of (language, its annotations); the intervals are of resampled pictures."""
  tables: dict[str, list] = {field.name: [] for field in dataclasses.fields(AnnotatorComparison)}
  for language, annotations in by_language:
    described = [annotation for annotation in annotations if annotation.described]
    tables["tags"] += _tags(language, described)
    tables["places"] += _places(language, described)
    tables["recommended"] += _recommended(language, described)
    begun = [entry for entry in described if entry.begun_from is not None]
    if not begun:
      continue
    edits = {
      WITH: [Levenshtein.distance(entry.begun_from or "", entry.caption) for entry in begun],
      WITHOUT: [len(entry.caption) for entry in described],
    }
    tables["distances"] += _histogram(language, edits)
    for suggestion, entries in ((WITH, begun), (WITHOUT, described)):
      low, high = _interval([entry.key for entry in entries], edits[suggestion], resamples, seed)
      edited = sum(map(bool, edits[WITH])) if suggestion == WITH else None
      mean = statistics.fmean(edits[suggestion])
      tables["compared"].append(Compared(language, suggestion, len(entries), mean, low, high, edited))
  return AnnotatorComparison(**{name: tuple(rows) for name, rows in tables.items()})


def _tags(language: str, described: Sequence[Annotation]) -> list[AcceptedTags]:
  tagged = [entry for entry in described if entry.suggested.tags]
  counts = collections.Counter(len(set(entry.suggested.tag_words) & set(entry.tag_words)) for entry in tagged)
  most = max((len(set(entry.suggested.tag_words)) for entry in tagged), default=-1)
  return [AcceptedTags(language, n, counts[n], 100 * counts[n] / len(tagged)) for n in range(most + 1)]


def _places(language: str, described: Sequence[Annotation]) -> list[SuggestionRank]:
  shown, used = (collections.defaultdict(collections.Counter) for _ in range(2))
  for entry in described:
    chosen = {"tags": set(entry.tag_words), "sentences": {entry.begun_from}}
    for kind, suggested in (("tags", entry.suggested.tag_words), ("sentences", entry.suggested.sentences)):
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


def _recommended(language: str, described: Sequence[Annotation]) -> list[RecommendedTag]:
  shown = collections.Counter(tag for entry in described for tag in set(entry.suggested.tag_words))
  used = collections.Counter(
    tag for entry in described for tag in set(entry.suggested.tag_words) & set(entry.tag_words)
  )
  most = sorted(shown, key=lambda tag: (-shown[tag], -used[tag], tag))[:_MOST_TAGS]
  return [RecommendedTag(language, tag, shown[tag], used[tag]) for tag in most]


def _histogram(language: str, edits: Mapping[str, Sequence[int]]) -> list[Distances]:
  """The first row is of no edit, the others of five edits each, up to the most."""
  counts = {
    name: collections.Counter(-(-distance // _BIN) for distance in of_name) for name, of_name in edits.items()
  }
  most = max(number for of_name in counts.values() for number in of_name)
  return [
    Distances(
      language, max(0, _BIN * (number - 1) + 1), _BIN * number, counts[WITH][number], counts[WITHOUT][number]
    )
    for number in range(most + 1)
  ]


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
