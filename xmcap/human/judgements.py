"""Human judgements of single captions, and how metrics of the captions correlate with them.

The sets of captioning that have them: Flickr8k-Expert and Flickr8k-CF (Hodosh et al., JAIR 2013), Composite (Aditya et
al., 2015) and Polaris (Wada et al., CVPR 2024). Each judgement is a row: a caption that was judged by three people is
scored three times, and counts so in document frequencies, as in the code of CLIPScore's authors (jmhessel/clipscore,
flickr8k_example), whose steps these are: captions with single spaces, and no judged caption among its references.
"""

import collections
import dataclasses
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from xmcap.errors import UsageError
from xmcap.human.sheets import Findings, Sheet, SheetColumn
from xmcap.human.thumb_correlations import signed
from xmcap.reading import layouts, rows
from xmcap.reading.inputs import Input
from xmcap.scoring import metrics, tokenizers
from xmcap.scoring import vectors as vectors_lib
from xmcap.scoring.statistics.correlation import LEAST, too_few
from xmcap.terminal import shown

_COLUMNS = (
  ("mt", "cand", "candidate", "caption", "hyp"), ("refs", "references"), ("human_score", "score", "rating"),
  ("imgid", "image_id", "image/key", "image", "id"),
)  # fmt: skip
"""Names of the columns of captions, references, ratings and images; of each the first counts."""
_FLICKR = 5  # cells of a line of Flickr8k's judgements


@dataclasses.dataclass(frozen=True)
class Judgements:
  """J judgements: the image, the caption, its references, and the rating, float64 [J]."""

  keys: Sequence[str]
  captions: Sequence[str]
  references: Sequence[Sequence[str]]
  ratings: np.ndarray


@dataclasses.dataclass(frozen=True)
class MetricTau:
  """A metric's Kendall correlation with the judgements, in [-1, 1]; None if one is constant, or they are too few."""

  metric: str
  signature: str
  tau_b: float | None
  tau_c: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgementFindings(Findings):
  """The correlations of metrics with judgements of so many captions of so many images."""

  stem: ClassVar[str] = "judgements"
  judgements: int
  images: int
  correlations: Sequence[MetricTau]

  def sheets(self) -> Sequence[Sheet]:
    columns = [SheetColumn("metric"), *(SheetColumn(name, heading, ".3f") for name, heading in _TAUS.items())]
    title = f"Kendall's tau with {self.judgements:,} judgements of captions of {self.images:,} images"
    return [Sheet.of_objects("judgements", title, columns, self.correlations)]


_TAUS = {"tau_b": "tau-b", "tau_c": "tau-c"}


def read(path: str | os.PathLike, captions: str | os.PathLike = "") -> Judgements:
  """Reads judgements of captions.

  Args:
    path: `flickr8k.json` or `crowdflower_flickr8k.json` of CLIPScore's code; Flickr8k's own `ExpertAnnotations.txt` or
      `CrowdFlowerAnnotations.txt`; or rows of a caption, a list of references and a rating, such as Polaris's CSV or
      Parquet.
    captions: Flickr8k's `Flickr8k.token.txt`, for its own files.

  Raises:
    UsageError: the file is another, a rating is no number, or a caption has no references.
  """
  if captions:
    judged = list(_of_flickr(path, captions))
  else:
    with rows.opened(path) as source:
      if isinstance(source, Input) and b'"human_judgement"' in source.head:
        judged = list(_of_clipscore(source))
      elif isinstance(source, Input) and source.inner.endswith(".jsonl"):
        judged = list(_of_rows(rows.Rows(path, source.name, "line {}", source.rows())))
      else:
        judged = list(_of_rows(rows.of(source)))
  if not judged:
    raise UsageError(f"{path}: no judgements: give a file of captions, references and ratings")
  for key, caption, references, _ in judged:
    if not references:
      raise UsageError(f"{path}: '{shown(key)}' has no references for '{shown(caption)}': leave it out")
  keys, texts, of_texts, ratings = zip(*judged, strict=True)
  spaced = [[" ".join(text.split()) for text in references] for references in of_texts]
  return Judgements(keys, [" ".join(text.split()) for text in texts], spaced, np.array(ratings, np.float64))


_Row = tuple[str, str, Sequence[str], float]


def _of_clipscore(source: Input) -> Iterator[_Row]:
  for key, image in source.document().items():
    where = f"{source.name}, '{shown(key)}'"
    references = layouts.texts(image.get("ground_truth")) if isinstance(image, Mapping) else None
    judged = image.get("human_judgement") if references is not None else None
    if references is None or not isinstance(judged, list):
      raise UsageError(f"{where}: no lists ground_truth and human_judgement: give clipscore's flickr8k.json")
    for row in judged:
      yield key, layouts.text(row, "caption", where), references, _rating(row.get("rating"), where)


def _of_flickr(path: str | os.PathLike, captions: str | os.PathLike) -> Iterator[_Row]:
  """Yields Flickr8k's judgements: three ratings of experts, or the share of workers who said yes.

  A caption that is among the references of its image is left out with its three ratings, as in SPICE's paper, or is
  taken from the references of all judgements of the image.
  """
  texts: dict[str, str] = {}
  of_images: dict[str, list[str]] = collections.defaultdict(list)
  with Input(captions) as source:
    for number, line in source.lines():
      name, tab, text = line.partition("\t")
      if not tab or "#" not in name:
        raise UsageError(
          f"{captions}, line {number:,}: not NAME.jpg#0, a tab and a caption: give Flickr8k.token.txt"
        )
      texts[name] = text
      of_images[name.partition("#")[0]].append(text)
  lines: list[tuple[str, str, list[float]]] = []
  with Input(path) as source:
    for number, line in source.lines():
      where, cells = f"{path}, line {number:,}", line.split("\t")
      if len(cells) != _FLICKR or cells[1] not in texts or cells[0] not in of_images:
        raise UsageError(
          f"{where}: not an image, a caption of {captions} and three numbers: give Flickr8k's judgements"
        )
      lines.append((cells[0], texts[cells[1]], [_rating(cell, where) for cell in cells[2:]]))
  of_crowd = all(abs(share - yes / max(yes + no, 1)) < 1e-5 for _, _, (share, yes, no) in lines)
  if of_crowd:
    for image, caption, _ in lines:
      if caption in of_images[image]:
        of_images[image].remove(caption)
  for image, caption, numbers in lines:
    if of_crowd:
      yield image, caption, of_images[image], numbers[0]
    elif caption not in of_images[image]:
      yield from ((image, caption, of_images[image], number) for number in numbers)


def _of_rows(source: rows.Rows) -> Iterator[_Row]:
  for number, row in source.rows:
    where = source.where(number)
    caption, references, rating, image = (_first(row, names, where) for names in _COLUMNS)
    texts = layouts.texts(list(references)) if isinstance(references, list | tuple) else None
    if not isinstance(caption, str) or texts is None:
      raise UsageError(f"{where}: the caption must be a text, and the references a list of texts")
    yield str(image), caption, texts, _rating(rating, where)


def _first(row: Mapping[str, Any], names: Sequence[str], where: str) -> Any:
  name = next((name for name in names if row.get(name) is not None), None)
  if name is None:
    raise UsageError(f"{where}: no {' or '.join(names)}; there are {shown(', '.join(map(str, row)))}")
  return row[name]


def _rating(value: Any, where: str) -> float:
  try:
    rating = float(value)
  except (TypeError, ValueError):
    rating = math.nan
  if not math.isfinite(rating):
    raise UsageError(f"{where}: the rating '{shown(str(value))}' is no number: leave the line out")
  return rating


def correlate(
  judged: Judgements,
  names: Sequence[str],
  tokenizer: str = "default",
  language: str = "en",
  vectors: str | os.PathLike = "",
) -> JudgementFindings:
  """Returns Kendall's tau-b and tau-c of each metric with the ratings.

  Args:
    names: of `metrics.CAPTION_METRICS`.
    tokenizer, language: of the captions, as for `xmcap score`.
    vectors: a folder of embeddings, for the metrics that compare them; "": none.
  """
  from scipy import stats  # takes longer than everything else

  splitter = tokenizers.get(tokenizer, language)
  embeddings = vectors_lib.read(names, vectors, health=False, zero=True)
  counts = list(map(len, judged.references))
  words = iter(splitter.tokenize_references([text for texts in judged.references for text in texts]))
  references = [[next(words) for _ in range(count)] for count in counts]
  corpus = metrics.Corpus(splitter.tokenize(judged.captions), references)
  if embeddings is not None:
    compared = {other for name in names for other in metrics.CAPTION_METRICS[name].compares}
    corpus.cosines = embeddings.cosines(language, judged.keys, judged.captions, judged.references, compared)
  correlations = []
  for name in names:
    metric = metrics.CAPTION_METRICS[name]
    scores = metric.image_scores(metric.statistics(corpus))
    taus = [math.nan, math.nan]
    if len(counts) >= LEAST:
      taus = [float(stats.kendalltau(scores, judged.ratings, variant=variant)[0]) for variant in "bc"]  # pyright: ignore[reportArgumentType]
    signature = signed(
      name, tokenizer, splitter, language, embeddings, "judgements", f"judgements:{len(counts)}"
    )
    correlations.append(MetricTau(name, signature, *(None if math.isnan(tau) else tau for tau in taus)))
  return JudgementFindings(
    judgements=len(counts),
    images=len(set(judged.keys)),
    correlations=correlations,
    notes=[*too_few(len(counts), "judgements"), *(result.signature for result in correlations)],
  )
