"""`COCOEvalCap`, the drop-in for pycocoevalcap, against pycocoevalcap 1.2, both with pycocotools' `COCO`."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from xmcap.errors import UsageError, XmcapError
from xmcap.scoring import coco as coco_lib
from xmcap.scoring.coco import COCOEvalCap

_MULTI30K = pathlib.Path(__file__).parents[3] / "shared" / "multi30k"
_METRICS = ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "METEOR", "ROUGE_L", "CIDEr")
_CAPTIONS = [
  ("A dog runs in group B.", ["A dog runs on the beach.", "The dog is in the U.S.", "a dog"]),
  ("Two cats -- asleep, on a sofa!", ["Two cats sleep on a red couch."]),
  ("", ["A man rides a bike.", "."]),  # no words at all, in the caption and in a reference
  ("It's 1\u00a01/2 cups of milk", ["1\u00a01/2 cups", "Some milk (1.5 cups) in a 'jug'"]),
  ("a a a a a a a a", ["a b", "a b c d e f g h i j"]),
  ("caf\u00e9 \u4e2d\u6587 man\non a street", ["A man on a street\nwith a caf\u00e9."]),
]


def _multi30k():
  """100 images of Multi30K: the first of five people as the system, the others as references."""
  people = [(_MULTI30K / f"task2_test_2016.{person}.en") for person in range(1, 6)]
  if not all(path.exists() for path in people):
    return []
  captions = zip(*(path.read_text("utf-8").splitlines()[:100] for path in people), strict=True)
  return [(own, list(others)) for own, *others in captions]


def _coco(folder, pairs, ids):
  """Returns pycocotools' objects of references and results; images in the order of `ids`."""
  api = pytest.importorskip("pycocotools.coco")
  annotations = [
    {"image_id": image, "id": 100 * place + number, "caption": text}
    for place, (image, (_, texts)) in enumerate(zip(ids, pairs, strict=True))
    for number, text in enumerate(texts)
  ]
  images = [{"id": image} for image in ids]
  references = {"images": images, "annotations": annotations, "info": {}, "type": "captions", "licenses": []}
  results = [{"image_id": image, "caption": text} for image, (text, _) in zip(ids, pairs, strict=True)]
  (folder / "references.json").write_text(json.dumps(references))
  (folder / "results.json").write_text(json.dumps(results))
  held = api.COCO(str(folder / "references.json"))
  return held, held.loadRes(str(folder / "results.json"))


class _NoSpice:
  """In place of pycocoevalcap's `Spice`, which downloads a parser."""

  def method(self):
    return "SPICE"

  def compute_score(self, gts, res):
    return 0.0, [0.0] * len(gts)


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
  """pycocoevalcap's object and ours, evaluated on the same files."""
  theirs_lib = pytest.importorskip("pycocoevalcap.eval")
  if not shutil.which("java"):
    pytest.skip("no Java")
  pairs = _CAPTIONS + _multi30k()
  ids = [7 * place % 1009 for place in range(1, len(pairs) + 1)]
  references, results = _coco(tmp_path_factory.mktemp("coco"), pairs, ids)
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(theirs_lib, "Spice", _NoSpice)
    theirs = theirs_lib.COCOEvalCap(references, results)
    theirs.evaluate()
  ours = COCOEvalCap(references, results)
  ours.evaluate()
  return theirs, ours


def test_coco_eval_cap_scores_equal_pycocoevalcap(scored):
  theirs, ours = scored
  for metric in _METRICS:
    assert ours.eval[metric] == pytest.approx(theirs.eval[metric], rel=1e-12), metric


def test_coco_eval_cap_image_scores_equal_pycocoevalcap(scored):
  theirs, ours = scored
  assert list(ours.imgToEval) == list(theirs.imgToEval)
  assert [each["image_id"] for each in ours.evalImgs] == [each["image_id"] for each in theirs.evalImgs]
  for metric in _METRICS:
    found, wanted = ([each[metric] for each in held.evalImgs] for held in (ours, theirs))
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15, err_msg=metric)


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
  assert "SPICE" not in held.eval and set(held.eval) == set(_METRICS)
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
  with pytest.raises(UsageError) as caught:
    COCOEvalCap(_Captions(references), _Captions(results)).evaluate()
  assert message in str(caught.value)


def test_coco_eval_cap_without_java_is_an_error(monkeypatch, tmp_path):
  pytest.importorskip("pycocoevalcap.tokenizer.ptbtokenizer")
  monkeypatch.setenv("PATH", str(tmp_path))
  with pytest.raises(XmcapError, match="needs Java, which does not start"):
    COCOEvalCap(_Captions({1: ["a"]}), _Captions({1: ["a"]})).evaluate()
