"""`CaptionEvaluator`: options of scoring and output; `LossEvaluator`: the loss over a split."""

import jax
import numpy as np
import pytest

from tests import drawn_params, pictures
from tests.make import files as made
from xmcap.errors import UsageError
from xmcap.evaluation.evaluators import CaptionEvaluator, LossEvaluator
from xmcap.families.tagging.vit_objective import TagObjective
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.scoring.score import score_captions
from xmcap.training.objectives import CaptionObjective

_KEYS = ("a", "b", "c")


@pytest.fixture
def files(tmp_path):
  made.release(tmp_path / "captions.jsonl", {key: {"en": [f"{key} dog"]} for key in _KEYS}, locale="de")
  made.lines(tmp_path / "keys", "c", "a")
  return tmp_path


def _evaluator(files, **options):
  return CaptionEvaluator(predictor=None, references=str(files / "captions.jsonl"), **options)


def test_the_signature_names_the_subset(files):
  evaluator = _evaluator(files, subset=str(files / "keys"))
  assert list(evaluator.references) == ["a", "c"]
  table = score_captions(
    evaluator.references, {"a": {"en": "a dog"}, "c": {"en": "dog"}}, evaluator.options
  ).table
  assert "subset:file#" in table.signature


def test_evaluator_protocol_sets_tokenizer_metrics_and_scale(files):
  evaluator = _evaluator(files, protocol="xm3600")
  predictions = {key: {code: "dog" for code in held} for key, held in evaluator.references.items()}
  table = score_captions(evaluator.references, predictions, evaluator.options).table
  assert table.metrics == ("cider",) and "|protocol:xm3600|" in table.signature
  assert score_captions(evaluator.references, predictions, _evaluator(files).options).table.metrics == (
    "cider",
    "cider_d",
  )


@pytest.mark.parametrize(
  "options, message",
  [
    ({"protocol": "pali"}, "unknown protocol 'pali'"),
    ({"protocol": "xm3600", "metrics": ["bleu_4"]}, "--protocol=xm3600 is cider, not bleu_4"),
    ({"protocol": "xm3600", "subset": "xm600:1"}, "leave out --subset"),
    ({"protocol": "xm3600", "beside": "paligemma"}, "follows the protocol paligemma, and this table xm3600"),
  ],
)
def test_evaluator_refuses_options_against_the_protocol(files, options, message):
  with pytest.raises(UsageError, match=message):
    _evaluator(files, **options)


def test_a_limit_takes_the_first_images_and_keeps_locales(files):
  references = _evaluator(files, limit=2).references
  assert list(references) == ["a", "b"] and references.locales == {"a": "de", "b": "de"}


def test_failed_report_keeps_predictions_and_older_results(files, monkeypatch):
  (files / "images").mkdir()
  out = files / "out"
  evaluator = _evaluator(files, out_dir=str(out))
  evaluator._write({key: {"en": "a dog"} for key in _KEYS})
  before = {path.name: path.read_bytes() for path in out.iterdir()}
  assert "decoded.jsonl" not in before
  with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
    patch.setattr("xmcap.pages.report.write_report", lambda *_, **__: 1 / 0)
    evaluator._write({key: {"en": "a cat"} for key in _KEYS})
  decoded = (out / "decoded.jsonl").read_text()
  assert decoded.count("a cat") == 3
  assert {path.name: path.read_bytes() for path in out.iterdir() if path.name != "decoded.jsonl"} == before
  evaluator._write({key: {"en": "a cat"} for key in _KEYS})
  assert (out / "predictions.jsonl").read_text() == decoded
  assert {path.name for path in out.iterdir()} == before.keys()


def test_an_evaluation_does_not_write_over_its_references(files):
  (files / "captions.jsonl").rename(files / "predictions.jsonl")
  with pytest.raises(UsageError, match="out_dir=.*predictions.jsonl: would overwrite the input .*references"):
    CaptionEvaluator(None, references=str(files / "predictions.jsonl"), out_dir=str(files))


VIT = ViTConfig(16, 1, 32, 2, 8, pictures.SIDE, pool="map", dtype="float32")
T5 = T5Config(pictures.VOCABULARY, 16, 2, 8, 1, 1, 32, dtype="float32")
OBJECTIVES = {
  pictures.Captions: CaptionObjective(VIT, T5),
  pictures.Tags: TagObjective(VIT, num_classes=5, num_slots=2),
}


@pytest.fixture(scope="module", params=OBJECTIVES, ids=lambda kind: kind.__name__)
def measured(request):
  """A kind of stream, its objective, parameters, and the means over 11 pictures, taken one by one."""
  kind, objective = request.param, OBJECTIVES[request.param]
  alone = [{name: x for name, x in kind(11, 1).batch(step).items() if name != "key"} for step in range(11)]
  params = drawn_params.of(objective.init, alone[0])
  loss = jax.jit(lambda batch: objective.loss(params, batch, jax.random.key(0), True))
  rows = []
  for batch in alone:
    value, metrics = loss(batch)
    rows.append({"loss": value, **metrics})
  weights = np.array([float(row.pop("weight")) for row in rows])
  # Not all pictures count the same, or the weights would not matter.
  assert len(set(weights)) > 1 or kind is pictures.Tags
  means = {name: np.average([float(row[name]) for row in rows], weights=weights) for name in rows[0]}
  return kind, objective, params, means


@pytest.mark.parametrize(
  "batch", [4, pytest.param(16, marks=pytest.mark.full)]
)  # the last batch of 4 is part empty
def test_loss_evaluator_counts_every_image_once(measured, batch):
  kind, objective, params, means = measured
  found = {name: value for _, name, value in LossEvaluator(objective, kind(11, batch)).run(params, 0)}
  assert found == pytest.approx(means, rel=1e-5)


class Seen:
  """An objective that notes which pictures count, by the mean of their pixels."""

  def __init__(self):
    self.pixels = []

  def loss(self, params, batch, rng, deterministic):
    means = batch["image"].astype(np.float32).mean((1, 2, 3))
    jax.debug.callback(lambda means, weights: self.pixels.extend(means[weights > 0]), means, batch["weights"])
    return (means * batch["weights"]).sum() / batch["weights"].sum(), {"weight": batch["weights"].sum()}


def test_loss_evaluator_num_batches():
  stream, seen = pictures.Tags(11, 4), Seen()
  rows = list(LossEvaluator(seen, stream, num_batches=2, name="few").run({"a": np.zeros(1)}, 0))
  jax.effects_barrier()
  expected = [image.mean() for step in (0, 1) for image in stream.batch(step)["image"]]
  assert sorted(seen.pixels) == pytest.approx(sorted(expected), rel=1e-5)
  assert rows == [("", "few/loss", pytest.approx(np.mean(expected), rel=1e-5))]
