"""Figures about annotations: how far suggestions were taken over, and how far annotators agree.

Source: Li et al., "COCO-CN for Cross-Lingual Image Tagging, Captioning and Retrieval" (IEEE Transactions on Multimedia
2019), section III-C: recommended tags accepted (2.7 of 5), sentences begun from a suggestion (31%) and their
Levenshtein distance in characters. Agreement and time are this project's.
"""

import dataclasses
import itertools
import statistics
from collections.abc import Iterable, Sequence
from typing import Literal

from rapidfuzz.distance import Levenshtein

from xmcap import languages
from xmcap.human import annotation_comparison, fields
from xmcap.human.agreement import MOST_IN_PAIRS
from xmcap.human.annotations import Annotation
from xmcap.human.fields import ALL
from xmcap.human.sheets import Findings, Sheet, SheetColumn

_OPENINGS = ("open", "open_rating")
_RESAMPLES, _SEED = 1_000, 0


@dataclasses.dataclass(frozen=True)
class AnnotatorWork:
  """What an annotator, or all of a language, did; a mean is None where nothing is averaged.

  Attributes:
    pictures: annotated, rated or skipped, by each annotator.
    sentences: of pictures that were not skipped.
    characters, tags: means of a sentence; the characters are its distance from no suggestion.
    recommended, accepted: suggested tags of a picture, and those of them that it was given; means over sentences
      whose picture had suggested tags.
    begun: share of the sentences that were begun from a suggestion, in per cent.
    distance: mean Levenshtein distance, in characters, of those from the suggestion.
    seconds: the median over pictures with a sentence.
  """

  language: str
  annotator: str
  pictures: int
  skipped: int
  sentences: int
  characters: float | None
  tags: float | None
  recommended: float | None
  accepted: float | None
  begun: float | None
  distance: float | None
  seconds: float | None


@dataclasses.dataclass(frozen=True)
class TagAgreement:
  """How far two annotators agree on tags: means over pictures that both described and one or both tagged.

  With the tags A and B, `jaccard` is |A and B| / |A or B|, and `f` is 2 |A and B| / (|A| + |B|). Of all
  pairs: the means over their pictures. Pictures of more than `MOST_IN_PAIRS` annotators are left out; of more
  annotators in a language there is only the row of all.
  """

  language: str
  first: str
  second: str
  pictures: int
  jaccard: float
  f: float


@dataclasses.dataclass(frozen=True)
class AnnotationFindings(Findings):
  """The figures about annotations, by language, then annotator, then all."""

  work: tuple[AnnotatorWork, ...]
  comparison: annotation_comparison.AnnotatorComparison
  agreement: tuple[TagAgreement, ...]
  stem = "annotations"

  def sheets(self) -> list[Sheet]:
    """Returns the sheet of work, those of the comparison and, if two annotators described a picture, of agreement."""
    columns = [
      *map(SheetColumn, ("language", "annotator")),
      *(SheetColumn(name, format=",") for name in ("pictures", "skipped", "sentences")),
      *(SheetColumn(name, format=".1f") for name in ("characters", "tags", "recommended", "accepted")),
      SheetColumn("begun", "begun %", ".1f"),
      SheetColumn("distance", format=".1f"),
      SheetColumn("seconds", format=".0f"),
    ]
    sheets = [Sheet.of_objects("annotations", "Annotations", columns, self.work), *self.comparison.sheets()]
    if self.agreement:
      columns = [
        *map(SheetColumn, ("language", "first", "second")),
        SheetColumn("pictures", format=","),
        SheetColumn("jaccard", "Jaccard", ".3f"),
        SheetColumn("f", "F", ".3f"),
      ]
      sheets.append(Sheet.of_objects("tag_agreement", "Agreement on tags", columns, self.agreement))
    return sheets


def evaluate(annotations: Iterable[Annotation], replaced: int = 0) -> AnnotationFindings:
  """Returns the figures about annotations, of which each is its annotator's only one of a picture and language."""
  work: list[AnnotatorWork] = []
  agreement: list[TagAgreement] = []
  annotations = list(annotations)
  written = [entry for entry in annotations if not entry.is_empty]
  by_language = fields.grouped(written, lambda entry: entry.language)
  by_language = {language: by_language[language] for language in languages.ordered(by_language)}
  notes = []
  for language, of_language in by_language.items():
    by_annotator = fields.grouped(of_language, lambda entry: entry.annotator)
    work += [_work(language, name, by_annotator[name]) for name in by_annotator]
    if len(by_annotator) > 1:
      work.append(_work(language, ALL, of_language))
    of_pictures = fields.grouped([entry for entry in of_language if entry.described], lambda entry: entry.key)
    agreement += _agreement(language, list(of_pictures.values()))
    if many := sum(len(of_picture) > MOST_IN_PAIRS for of_picture in of_pictures.values()):
      notes.append(
        f"{language}: agreement on tags leaves out {many:,} pictures of over {MOST_IN_PAIRS} annotators"
      )
  comparison = annotation_comparison.compare(by_language.items(), _RESAMPLES, _SEED)
  if comparison.compared:
    notes.append(f"low, high: 95% bootstrap interval, {_RESAMPLES:,} resamples of the pictures, seed {_SEED}")
  if replaced:
    notes.append(
      f"{replaced:,} annotations were left out for later ones of the same picture, language and annotator"
    )
  if len(written) < len(annotations):
    notes.append(f"{len(annotations) - len(written):,} annotations were taken back by their annotators")
  if bare := sum(bool(entry.tags) and not entry.described and not entry.skipped for entry in written):
    notes.append(f"{bare:,} annotations have tags and no sentence: they are in no file of the corpus")
  if commas := sum("," in tag for entry in written if entry.described for tag in entry.tags):
    notes.append(f"{commas:,} tags have a comma, which is a space in LANGUAGE.tsv")
  notes += fields.alike(entry.annotator for entry in written)
  return AnnotationFindings(
    tuple(work), comparison, tuple(agreement), resamples=_RESAMPLES, seed=_SEED, notes=notes
  )


def seconds(annotation: Annotation, screen: Literal["open", "open_rating"] = "open") -> float:
  """The time of all visits to a picture on one screen: each from its opening to the last event before the next."""
  total, shown = 0, "open"
  for before, event in itertools.pairwise(annotation.events):
    shown = before.event if before.event in _OPENINGS else shown
    # A clock that is put back takes no time.
    total += max(0, event.time - before.time) if shown == screen and event.event not in _OPENINGS else 0
  return total / 1000


def _work(language: str, annotator: str, annotations: Sequence[Annotation]) -> AnnotatorWork:
  described = [annotation for annotation in annotations if annotation.described]
  tagged = [annotation for annotation in described if annotation.suggested.tags]
  distances = [
    Levenshtein.distance(entry.begun_from, entry.caption)
    for entry in described
    if entry.begun_from is not None
  ]
  return AnnotatorWork(
    language,
    annotator,
    pictures=len(annotations),
    skipped=sum(bool(annotation.skipped) for annotation in annotations),
    sentences=len(described),
    characters=_mean(len(annotation.caption) for annotation in described),
    tags=_mean(len(set(annotation.tag_words)) for annotation in described),
    recommended=_mean(len(set(annotation.suggested.tag_words)) for annotation in tagged),
    accepted=_mean(
      len(set(annotation.suggested.tag_words) & set(annotation.tag_words)) for annotation in tagged
    ),
    begun=100 * len(distances) / len(described) if described else None,
    distance=_mean(distances),
    seconds=statistics.median(map(seconds, described)) if described else None,
  )


def _agreement(language: str, of_pictures: Sequence[Sequence[Annotation]]) -> list[TagAgreement]:
  """Returns the rows, of the annotations with a sentence of each picture."""
  scores: dict[tuple[str, str], list[tuple[float, float]]] = {}
  for of_picture in of_pictures:
    if len(of_picture) > MOST_IN_PAIRS:
      continue
    tags = sorted((entry.annotator, set(entry.tag_words)) for entry in of_picture)
    for (first, a), (second, b) in itertools.combinations(tags, 2):
      if a or b:
        score = (len(a & b) / len(a | b), 2 * len(a & b) / (len(a) + len(b)))
        scores.setdefault((first, second), []).append(score)
  rows = []
  if len({name for pair in scores for name in pair}) <= MOST_IN_PAIRS:
    rows = [
      TagAgreement(language, *pair, len(scores[pair]), *_means(scores[pair])) for pair in sorted(scores)
    ]
  if len(scores) > 1:
    every = list(itertools.chain.from_iterable(scores.values()))
    rows.append(TagAgreement(language, ALL, ALL, len(every), *_means(every)))
  return rows


def _mean(values: Iterable[float]) -> float | None:
  values = list(values)
  return statistics.fmean(values) if values else None


def _means(scores: Sequence[tuple[float, float]]) -> tuple[float, float]:
  return statistics.fmean(score for score, _ in scores), statistics.fmean(score for _, score in scores)
