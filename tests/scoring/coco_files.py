"""Captions that pycocoevalcap and xmcap score, as pycocotools' objects."""

import pytest

from tests.make import files
from xmcap.scoring.metrics import Corpus

METRICS = ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "METEOR", "ROUGE_L", "CIDEr")
CAPTIONS = [
  ("A dog runs in group B.", ["A dog runs on the beach.", "The dog is in the U.S.", "a dog"]),
  ("Two cats -- asleep, on a sofa!", ["Two cats sleep on a red couch."]),
  ("", ["A man rides a bike.", "."]),  # no words at all, in the caption and in a reference
  ("It's 1\u00a01/2 cups of milk", ["1\u00a01/2 cups", "Some milk (1.5 cups) in a 'jug'"]),
  ("a a a a a a a a", ["a b", "a b c d e f g h i j"]),
  ("caf\u00e9 \u4e2d\u6587 man\non a street", ["A man on a street\nwith a caf\u00e9."]),
]
METEOR_HYPOTHESES = [
  "a dog on a beach",
  "two cats sleep on a couch",
  "",
  "a dog",
  "the man rides quickly down streets",
  "two dogs running through the waters",  # stems
  "a kid is near an automobile",  # synonyms
  "a large number of people in front of a shop",  # paraphrases
]
METEOR_REFERENCES = [
  ["a dog on the beach", "a dog runs on the sand"],
  ["two cats on couch"],
  ["a dog"],
  ["a dog"],
  ["a man is riding his bicycle down the street", "someone on a bike"],
  ["a dog runs through water"],
  ["a child is close to a car"],
  ["a lot of people before the store"],
]


def meteor_corpus() -> Corpus:
  references = [[text.split() for text in texts] for texts in METEOR_REFERENCES]
  return Corpus([text.split() for text in METEOR_HYPOTHESES], references)


def pycocotools(folder, captions):
  """Returns pycocotools' objects of references and results; captions are pairs of a result and references."""
  api = pytest.importorskip("pycocotools.coco")
  ids = [7 * place % 1009 for place in range(1, len(captions) + 1)]
  annotations = [
    {"image_id": image, "id": 100 * place + number, "caption": text}
    for place, (image, (_, texts)) in enumerate(zip(ids, captions, strict=True))
    for number, text in enumerate(texts)
  ]
  document = {
    "images": [{"id": image} for image in ids],
    "annotations": annotations,
    "info": {},
    "licenses": [],
  }
  files.json(folder / "references.json", document | {"type": "captions"})
  results = {image: text for image, (text, _) in zip(ids, captions, strict=True)}
  references = api.COCO(str(folder / "references.json"))
  return references, references.loadRes(str(files.coco_results(folder / "results.json", results)))


def pycocoevalcap(references, results):
  """Returns pycocoevalcap's object, evaluated; without SPICE, which downloads a parser."""
  evaluation = pytest.importorskip("pycocoevalcap.eval")

  class NoSpice:
    def method(self):
      return "SPICE"

    def compute_score(self, gts, res):
      return 0.0, [0.0] * len(gts)

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(evaluation, "Spice", NoSpice)
    scored = evaluation.COCOEvalCap(references, results)
    scored.evaluate()
  return scored
