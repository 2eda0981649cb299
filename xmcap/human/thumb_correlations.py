"""Correlates metrics with THumB ratings, caption by caption.

Source: Kasai et al., "Transparent Human Evaluation for Image Captioning" (NAACL 2022), Table 4: the captions of all
systems are pooled, and their scores are correlated with precision, recall and total. Each system is scored separately,
with the references of all images.
"""

import dataclasses
import itertools
import os
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from xmcap import __version__
from xmcap.errors import UsageError
from xmcap.human.sheets import Sheet, SheetColumn
from xmcap.human.thumb_ratings import ThumbRatings
from xmcap.scoring import metrics, tokenizers
from xmcap.scoring import vectors as vectors_lib
from xmcap.scoring.statistics import correlation

_TARGETS = ("P", "R", "total")


@dataclasses.dataclass(frozen=True)
class MetricResult:
  """A metric's scores of the rated captions, and their correlations with the ratings.

  Attributes:
    signature: everything needed to get the same scores from the same captions.
    correlations: `without human`, `all systems` -> coefficient -> P, R, total -> value; only totals have intervals.
    captions: `without human`, `all systems` -> number of captions.
  """

  name: str
  signature: str
  scores: dict[str, float]
  correlations: correlation.Cells
  captions: dict[str, int]


def correlate(
  ratings: ThumbRatings,
  references: Mapping[str, Sequence[str]],
  names: Sequence[str] = ("cider_d",),
  tokenizer: str = "default",
  human: str | None = None,
  normalize: str = "",
  resamples: int = 1000,
  seed: int = 0,
  vectors: str | os.PathLike = "",
) -> list[MetricResult]:
  """Scores the rated captions with each metric and correlates the scores with the ratings.

  The 95% intervals come from resamples of the images; all captions of an image are drawn together. Scores are not
  recomputed for a resample: document frequencies stay those of all images.

  Args:
    references: image key -> references.
    names, tokenizer: metrics and tokeniser, as for `xmcap score`; a metric may name its own, as `sentence_bleu:13a`.
    human: name of the system with human captions; if given, correlations without it are added.
    normalize: how the words are normalised, as for `xmcap score`; metrics of embeddings take captions as they are.
    resamples, seed: settings of the intervals; 0 resamples for none.
    vectors: a folder of embeddings (see `scoring.vectors`), for the metrics that compare them; "": none.
  """
  words = _words_of(names, tokenizer)
  if human is not None and human not in ratings.systems:
    raise UsageError(f"--human={human}: no ratings of this system; there are: {', '.join(ratings.systems)}")
  if human is not None and len(ratings.systems) == 1:
    raise UsageError(f"--human={human}: it is the only system; without it there is nothing to correlate")
  language = ratings.language or "en"
  # People have rated the captions, so no language fidelity need stand beside the scores.
  embeddings = vectors_lib.read(tuple(words), vectors, health=False, zero=True)
  compared = {other for name in words for other in metrics.CAPTION_METRICS[name].compares}
  splitters = {name: tokenizers.get(name, language, normalize) for name in dict.fromkeys(words.values())}
  corpora = {
    name: _corpora(ratings, references, splitter, embeddings, compared)
    for name, splitter in splitters.items()
  }
  pools = {"all systems": list(range(len(ratings.systems)))}
  if human is not None:
    others = [number for number, system in enumerate(ratings.systems) if system != human]
    pools = {"without human": others} | pools
  results = []
  for name, own in words.items():
    metric = metrics.CAPTION_METRICS[name]
    statistics = [metric.statistics(corpus) for corpus in corpora[own]]
    count = np.float64(len(ratings.keys))
    scores = [float(metric.aggregate(values.sum(0), count)) for values in statistics]
    image_scores = np.stack([metric.image_scores(values) for values in statistics])
    signature = signed(
      name, own, splitters[own], language, embeddings, "corpus", f"images:{len(ratings.keys)}"
    )
    correlations, captions = {}, {}
    for pool, rows in pools.items():
      correlations[pool] = _correlations(ratings, image_scores, rows, resamples, seed)
      captions[pool] = len(rows) * len(ratings.keys)
    scored = dict(zip(ratings.systems, scores, strict=True))
    results.append(MetricResult(name, signature, scored, correlations, captions))
  return results


def sheets(results: Sequence[MetricResult]) -> list[Sheet]:
  """Returns a sheet of scores and a sheet of correlations with the ratings."""
  columns = [SheetColumn("system")]
  for result in results:
    metric = metrics.CAPTION_METRICS[result.name]
    shown = ".1%" if metric.percent else f".{metric.decimals}f"
    columns.append(SheetColumn(result.name, metric.heading, shown))
  rows = [[system, *(result.scores[system] for result in results)] for system in results[0].scores]
  scores = Sheet("thumb_scores", "Scores of the systems", columns, rows)
  cells = [cell for result in results for *_, cell in correlation.flat(result.correlations)]
  ends = ("low", "high") if any(cell.low is not None for cell in cells) else ()
  columns = [
    SheetColumn("metric"), SheetColumn("captions_of", "captions of"), SheetColumn("n", format=","),
    SheetColumn("coefficient"), *(SheetColumn(name, format=".2f") for name in (*_TARGETS, *ends)),
  ]  # fmt: skip
  rows = []
  for result in results:
    heading = metrics.CAPTION_METRICS[result.name].heading
    for pool, coefficients in result.correlations.items():
      for name, targets in coefficients.items():
        row = [heading, pool, result.captions[pool], correlation.COEFFICIENTS[name]]
        row += [targets[target].value for target in _TARGETS]
        rows.append([*row, *(getattr(targets["total"], end) for end in ends)])
  title = "Correlation of the captions' scores with their ratings"
  return [scores, Sheet("thumb_correlations", title, columns, rows)]


def _words_of(names: Sequence[str], tokenizer: str) -> dict[str, str]:
  """Returns metric -> its tokeniser, in the order of the columns of a table."""
  chosen = [name.strip().partition(":") for part in names for name in part.split(",")]
  own = {name: words or tokenizer for part, _, words in chosen for name in metrics.parse(part)}
  return {name: own[name] for name in metrics.parse(",".join(part for part, *_ in chosen))}


def _corpora(
  ratings: ThumbRatings,
  references: Mapping[str, Sequence[str]],
  splitter: tokenizers.Tokenizer,
  vectors: vectors_lib.Vectors | None,
  compared: Collection[str],
) -> list[metrics.Corpus]:
  """Returns a corpus per system."""
  counts = [len(references[key]) for key in ratings.keys]
  words = iter(splitter.tokenize_references([text for key in ratings.keys for text in references[key]]))
  reference_words = [list(itertools.islice(words, count)) for count in counts]
  texts = [ratings.captions[system, key].text for system in ratings.systems for key in ratings.keys]
  words, captions = iter(splitter.tokenize(texts)), iter(texts)
  corpora = []
  for _ in ratings.systems:
    corpus = metrics.Corpus(list(itertools.islice(words, len(ratings.keys))), reference_words)
    if vectors is not None:
      own = list(itertools.islice(captions, len(ratings.keys)))
      others = [references[key] for key in ratings.keys]
      corpus.cosines = vectors.cosines(ratings.language or "en", ratings.keys, own, others, compared)
    corpora.append(corpus)
  return corpora


def signed(
  name: str,
  tokenizer: str,
  splitter: tokenizers.Tokenizer,
  language: str,
  vectors: vectors_lib.Vectors | None,
  weights: str,
  counted: str,
) -> str:
  """Returns the signature of a metric's scores: everything needed to get them again from the same captions.

  Args:
    name, tokenizer: of the metric and its words, and `splitter`, which makes them.
    vectors: the embeddings, if there are any.
    weights: of what CIDEr's document frequencies are.
    counted: how many of what are scored, such as `images:500`.
  """
  metric = metrics.CAPTION_METRICS[name]
  of_vectors = f",{vectors.card.signature}" if vectors and metric.compares else ""
  frequencies = f"|df:{weights}" if name.startswith("cider") else ""
  return (
    f"{name}({metric.signature}{of_vectors}){frequencies}|tok:{tokenizer}({splitter.version})|lang:{language}"
    f"|{counted}|xmcap:{__version__}"
  )


def _correlations(
  ratings: ThumbRatings, scores: np.ndarray, systems: Sequence[int], resamples: int, seed: int
) -> dict[str, dict[str, correlation.Correlation]]:
  """Returns coefficient -> target -> correlation of scores [S, I] with the ratings of the given systems."""
  pooled = scores[systems].ravel()
  images = np.arange(len(pooled)).reshape(len(systems), -1).T
  cells = {}
  for target in _TARGETS:
    rated = ratings.measures[target][systems].ravel()
    cells[target] = correlation.correlate(pooled, rated, images, resamples if target == "total" else 0, seed)
  return correlation.by_coefficient(cells)
