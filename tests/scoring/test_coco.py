"""`COCOEvalCap`, the drop-in for pycocoevalcap, against pycocoevalcap 1.2, both with pycocotools' `COCO`."""

import shutil

import numpy as np
import pytest

from tests.make.refusals import refusal
from tests.scoring import coco_files, human_captions
from tests.scoring.replayed_java import goldens
from xmcap.errors import XmcapError
from xmcap.scoring import coco as coco_lib
from xmcap.scoring.coco import COCOEvalCap


def _assert_equal(scored, of_all, of_images):
  assert list(scored.imgToEval) == [scores["image_id"] for scores in of_images]
  assert [scores["image_id"] for scores in scored.evalImgs] == list(scored.imgToEval)
  for metric in coco_files.METRICS:
    assert scored.eval[metric] == pytest.approx(of_all[metric], rel=1e-12), metric
    ours, theirs = ([scores[metric] for scores in images] for images in (scored.evalImgs, of_images))
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15, err_msg=metric)


def test_coco_eval_cap_scores_equal_recorded_pycocoevalcap(tmp_path, replayed_java):
  pytest.importorskip("pycocoevalcap")
  scored = COCOEvalCap(*coco_files.pycocotools(tmp_path, coco_files.CAPTIONS))
  scored.evaluate()
  _assert_equal(scored, goldens()["eval"], goldens()["evalImgs"])


@pytest.mark.full  # starts Java's METEOR twice
def test_coco_eval_cap_scores_equal_pycocoevalcap(tmp_path):
  """On 100 images of Multi30K too: the first of five people as the system, the others as references."""
  if not shutil.which("java"):
    pytest.skip("no Java")
  captions = list(coco_files.CAPTIONS)
  if human_captions.MULTI30K.exists():
    people = (human_captions.multi30k(f"task2_test_2016.{n}.en")[:100] for n in range(1, 6))
    captions += [(caption, others) for caption, *others in zip(*people, strict=True)]
  references, results = coco_files.pycocotools(tmp_path, captions)
  theirs, scored = coco_files.pycocoevalcap(references, results), COCOEvalCap(references, results)
  scored.evaluate()
  _assert_equal(scored, theirs.eval, theirs.evalImgs)


class _Captions:
  """Without pycocotools: only what the drop-in needs."""

  def __init__(self, captions):
    self.imgToAnns = {image: [{"caption": text} for text in texts] for image, texts in captions.items()}

  def getImgIds(self):
    return self.imgToAnns.keys()


@pytest.fixture
def without_java(monkeypatch):
  """Words are those between spaces, and METEOR is 0."""

  def statistics_of(self, corpus):
    return np.zeros((len(corpus().hypotheses), 23))

  monkeypatch.setattr(coco_lib.ptb.Ptb, "tokenize_together", lambda _, texts: list(texts))
  monkeypatch.setattr(coco_lib.metrics.Meteor, "statistics_of", statistics_of)


def _no_spice(corpus):
  raise XmcapError("metric 'spice' needs a parser")


def test_coco_eval_cap_prints_as_pycocoevalcap_without_spice(without_java, monkeypatch, capsys):
  monkeypatch.setattr(coco_lib.spice, "details", _no_spice)
  held = COCOEvalCap(_Captions({1: ["a dog", "b"], 2: ["a cat"]}), _Captions({1: ["a dog"], 2: ["a dog"]}))
  held.evaluate()
  captured = capsys.readouterr()
  assert captured.err == "xmcap: SPICE is left out: metric 'spice' needs a parser\n"
  assert "SPICE" not in held.eval and set(held.eval) == set(coco_files.METRICS)
  assert captured.out.splitlines() == [
    "tokenization...",
    "setting up scorers...",
    "computing Bleu score...",
    "{'testlen': 4, 'reflen': 4, 'guess': [4, 2, 0, 0], 'correct': [3, 1, 0, 0]}",
    "ratio: 0.9999999997500002",
    "Bleu_1: 0.750",
    "Bleu_2: 0.612",
    "Bleu_3: 0.007",
    "Bleu_4: 0.001",
    "computing METEOR score...",
    "METEOR: 0.000",
    "computing Rouge score...",
    f"ROUGE_L: {held.eval['ROUGE_L']:.3f}",
    "computing CIDEr score...",
    f"CIDEr: {held.eval['CIDEr']:.3f}",
  ]


def test_coco_eval_cap_has_spice_of_each_image(without_java, monkeypatch):
  def details(corpus):
    return [
      {"All": {"f": 0.5 if words == ["a"] else None, "tp": 1}, "Color": {"f": None}}
      for words in corpus.hypotheses
    ]

  monkeypatch.setattr(coco_lib.spice, "details", details)
  held = COCOEvalCap(_Captions({9: ["a"], 2: ["b"]}), _Captions({9: ["a"], 2: ["c"]}))
  held.evaluate()
  assert held.imgToEval[9]["SPICE"]["All"] == {"f": 0.5, "tp": 1.0}
  assert np.isnan(held.imgToEval[2]["SPICE"]["All"]["f"]) and np.isnan(held.eval["SPICE"])


def test_coco_eval_cap_scores_chosen_images_only(without_java, monkeypatch):
  monkeypatch.setattr(coco_lib.spice, "details", _no_spice)
  held = COCOEvalCap(_Captions({1: ["a dog"], 2: ["a cat"], 3: ["x"]}), _Captions({3: ["y"], 1: ["a dog"]}))
  held.params["image_id"] = held.cocoRes.getImgIds()
  held.evaluate()
  assert [each["image_id"] for each in held.evalImgs] == [3, 1]


@pytest.mark.parametrize(
  "references, results, message",
  [
    ({1: ["a"], 2: ["b"]}, {1: ["a"]}, "no result for 1 image (2); give one result"),
    ({1: ["a"]}, {1: ["a", "b"]}, "several results for 1 image (1)"),
    ({1: []}, {1: ["a"]}, "no reference for 1 image (1)"),
    ({1: ["a"]}, {1: [None]}, "image 1: a result is None; it must be a text"),
    ({}, {}, "params['image_id'] names no image"),
  ],
)
def test_coco_eval_cap_refuses_missing_results(references, results, message):
  assert message in refusal(COCOEvalCap(_Captions(references), _Captions(results)).evaluate)


def test_coco_eval_cap_without_java_is_an_error(monkeypatch, tmp_path):
  pytest.importorskip("pycocoevalcap.tokenizer.ptbtokenizer")
  monkeypatch.setenv("PATH", str(tmp_path))
  with pytest.raises(XmcapError, match="needs Java, which does not start"):
    COCOEvalCap(_Captions({1: ["a"]}), _Captions({1: ["a"]})).evaluate()
