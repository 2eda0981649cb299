"""The interface of pycocoevalcap for scripts that use it: the same numbers, but faster.

  from pycocotools.coco import COCO
  from xmcap.scoring.coco import COCOEvalCap  # instead of: from pycocoevalcap.eval import COCOEvalCap

  coco = COCO("captions_val2014.json")
  scored = COCOEvalCap(coco, coco.loadRes("results.json"))
  scored.params["image_id"] = scored.cocoRes.getImgIds()
  scored.evaluate()
  scored.eval["CIDEr"], scored.evalImgs[0]

Words come from pycocoevalcap's own Java tokeniser, and METEOR and SPICE from its own Java programs, so it must be
installed: the extra ptb. Everything is in English, as there.
"""

import concurrent.futures
import itertools
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from xmcap import wording
from xmcap.errors import UsageError, XmcapError
from xmcap.reading import failed_requests
from xmcap.scoring import metrics
from xmcap.scoring.metrics import bleu, spice
from xmcap.scoring.tokenizers import ptb
from xmcap.terminal import shown

_ORDERS = 4


class CocoCaptions(Protocol):
  """The part of `pycocotools.coco.COCO` that is used."""

  imgToAnns: Mapping[Any, Sequence[Mapping[str, Any]]]  # image id -> {"caption": ...}, ...

  def getImgIds(self) -> Iterable[Hashable]:
    """Returns the ids of the images."""
    ...


class COCOEvalCap:
  """Scores captions as `pycocoevalcap.eval.COCOEvalCap` of version 1.2 does, with the same attributes.

  BLEU, ROUGE-L, CIDEr (in fact CIDEr-D) and METEOR equal its values up to rounding (1e-12), for all images and for
  each. BLEU is in [0, 1], unlike xmcap's metric `bleu`. Deviations:
  - A caption may contain any line end, which there shifts captions to other images (`Ptb.tokenize_together`).
  - SPICE of an image is always its own; there, ids that are not in ascending order get each other's.
  - SPICE is left out, with a line on standard error, if its parser is not installed; there, it is downloaded.
  - Captions that are missing or given twice are a UsageError instead of an AssertionError; so are failed requests.

  Attributes:
    coco, cocoRes: references and results, as given.
    params: `image_id` holds the ids of the images to score; scripts may replace it.
    eval: metric (`Bleu_1` to `Bleu_4`, `METEOR`, `ROUGE_L`, `CIDEr`, `SPICE`) -> score of all images.
    imgToEval: image id -> {"image_id": id, metric: score of the image}; of SPICE, the scores of each category.
    evalImgs: the values of `imgToEval`.
  """

  def __init__(self, coco: CocoCaptions, cocoRes: CocoCaptions):
    for name, captions in (("coco", coco), ("cocoRes", cocoRes)):
      if not isinstance(getattr(captions, "imgToAnns", None), Mapping):
        raise UsageError(
          f"{name}: {shown(repr(captions))} has no imgToAnns, image id -> [{{'caption': ...}}], as pycocotools' COCO; "
          "xmcap.score takes lists of captions"
        )
    self.evalImgs: list[dict[str, Any]] = []
    self.eval: dict[str, Any] = {}
    self.imgToEval: dict[Hashable, dict[str, Any]] = {}
    self.coco = coco
    self.cocoRes = cocoRes
    self.params: dict[str, Any] = {"image_id": coco.getImgIds()}

  def evaluate(self) -> None:
    """Computes all scores, and prints the lines that pycocoevalcap prints.

    Raises:
      UsageError: an image has no reference, or not exactly one result, or that of a request that failed.
      XmcapError: Java or pycocoevalcap is not installed, or Java fails.
    """
    try:
      images = list(dict.fromkeys(self.params["image_id"]))
    except TypeError as error:
      raise UsageError(f"params['image_id'] must be a list of ids ({error})") from None
    references = [_captions(self.coco, image, "reference") for image in images]
    results = [_captions(self.cocoRes, image, "result") for image in images]
    _check(images, references, results)
    answers = {str(image): {"en": texts[0]} for image, texts in zip(images, results, strict=True)}
    of_images = {str(image): {"en": texts} for image, texts in zip(images, references, strict=True)}
    failed_requests.refuse(failed_requests.split(of_images, answers)[1], len(images), "results")
    words_of = ptb.Ptb("en").tokenize_together
    print("tokenization...")
    tokens_of: concurrent.futures.Future[metrics.Corpus] = concurrent.futures.Future()
    with concurrent.futures.ThreadPoolExecutor(2) as programs:
      meteor = programs.submit(metrics.Meteor().statistics_of, tokens_of.result)
      try:
        texts = programs.submit(words_of, list(itertools.chain.from_iterable(references)))
        hypotheses = words_of(list(itertools.chain.from_iterable(results)))
        tokens, words = _corpora(hypotheses, texts.result(), list(map(len, references)))
      except BaseException as error:
        tokens_of.set_exception(error)
        raise
      tokens_of.set_result(tokens)
      print("setting up scorers...")
      print("computing Bleu score...")
      self._add_bleu(metrics.Bleu(_ORDERS).statistics(words), images)
      print("computing METEOR score...")
      rouge_l = metrics.RougeL().statistics(tokens)[:, 0]
      cider_d = metrics.CiderD().statistics(words)[:, 0]
      self._add_meteor(meteor.result(), images)
    print("computing Rouge score...")
    self._add("ROUGE_L", np.mean(rouge_l), rouge_l, images)
    print("computing CIDEr score...")
    self._add("CIDEr", np.mean(cider_d), cider_d, images)
    self._add_spice(tokens, images)
    self.setEvalImgs()

  def setEval(self, score: Any, method: str) -> None:
    """Sets the score of all images."""
    self.eval[method] = score

  def setImgToEvalImgs(self, scores: Iterable[Any], imgIds: Iterable[Hashable], method: str) -> None:
    """Sets the score of each image."""
    for image, score in zip(imgIds, scores, strict=False):
      self.imgToEval.setdefault(image, {"image_id": image})[method] = score

  def setEvalImgs(self) -> None:
    """Makes `evalImgs` of `imgToEval`."""
    self.evalImgs = list(self.imgToEval.values())

  def _add(
    self, method: str, score: float | np.floating, scores: Iterable[Any], images: Sequence[Hashable]
  ) -> None:
    self.setEval(score, method)
    self.setImgToEvalImgs(scores, images, method)
    print(f"{method}: {score:0.3f}")

  def _add_bleu(self, statistics: np.ndarray, images: Sequence[Hashable]) -> None:
    totals = statistics.sum(axis=0)
    length, reference, *counts = map(int, totals)
    correct, guess = counts[:_ORDERS], counts[_ORDERS:]
    print({"testlen": length, "reflen": reference, "guess": guess, "correct": correct})
    print("ratio:", (length + bleu.TINY) / (reference + bleu.SMALL))
    scores = bleu.unsmoothed(statistics)
    for order, score in enumerate(bleu.unsmoothed(totals).tolist()):
      self._add(f"Bleu_{order + 1}", score, scores[:, order].tolist(), images)

  def _add_meteor(self, statistics: np.ndarray, images: Sequence[Hashable]) -> None:
    metric = metrics.METRICS["meteor"]
    score = metric.aggregate(statistics.sum(axis=0), np.float64(len(images)))
    self._add("METEOR", float(score), metric.image_scores(statistics).tolist(), images)

  def _add_spice(self, tokens: metrics.Corpus, images: Sequence[Hashable]) -> None:
    try:
      details = spice.details(tokens)
    except XmcapError as error:
      print(f"xmcap: SPICE is left out: {shown(str(error), limit=None)}", file=sys.stderr)
      return
    print("computing SPICE score...")
    scores = [
      {
        category: {name: _float(value) for name, value in of_category.items()}
        for category, of_category in of_image.items()
      }
      for of_image in details
    ]
    self._add("SPICE", np.mean([of_image["All"]["f"] for of_image in scores]), scores, images)


def _corpora(
  hypotheses: Sequence[str], references: Iterable[str], counts: Sequence[int]
) -> tuple[metrics.Corpus, metrics.Corpus]:
  """Returns the captions split at spaces, and at any white space: pycocoevalcap's scorers differ in this.

  `counts` are the numbers of references of each image.
  """
  flat = iter(references)
  of_images = [list(itertools.islice(flat, count)) for count in counts]
  tokens, words = (
    metrics.Corpus(
      [text.split(at) for text in hypotheses], [[text.split(at) for text in texts] for texts in of_images]
    )
    for at in (" ", None)
  )
  return tokens, words


def _captions(of: CocoCaptions, image: Hashable, noun: str) -> list[str]:
  """Returns the captions of an image."""
  annotations = of.imgToAnns.get(image) or ()
  captions: list[Any] = [note.get("caption") if isinstance(note, Mapping) else note for note in annotations]
  for caption in captions:
    if not isinstance(caption, str):
      raise UsageError(f"image {shown(str(image))}: a {noun} is {shown(repr(caption))}; it must be a text")
  return captions


def _check(images: Sequence[Hashable], references: Sequence[list[str]], results: Sequence[list[str]]) -> None:
  """Raises UsageError unless each image has one or more references and one result."""
  if not images:
    raise UsageError("params['image_id'] names no image: give ids of images that have references and results")
  for fault, wrong in (
    ("no reference", [str(image) for image, texts in zip(images, references, strict=True) if not texts]),
    ("no result", [str(image) for image, texts in zip(images, results, strict=True) if not texts]),
    ("several results", [str(image) for image, texts in zip(images, results, strict=True) if len(texts) > 1]),
  ):
    if wrong:
      raise UsageError(
        f"{fault} for {wording.count(len(wrong), 'image')} ({wording.first_few(wrong)}); give one result for "
        "each image, or score only the images of the results: params['image_id'] = cocoRes.getImgIds()"
      )


def _float(value: Any) -> float:
  """Returns a number of SPICE's program; NaN for none, as in pycocoevalcap."""
  try:
    return float(value)
  except (TypeError, ValueError):
    return float("nan")
