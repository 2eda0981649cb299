"""Captioners with stabilizers, from training to serving: both forms learn a few pictures, and are then used."""

import json

import gin
import numpy as np
import pytest

import xmcap as xmcap_lib
from tests.make import small_corpus
from tests.make.command import xmcap
from xmcap.data import images
from xmcap.evaluation import model_dir
from xmcap.evaluation.predictor import Predictor
from xmcap.export import program, stablehlo
from xmcap.families.plugs.stabilizer import Marks, Stabilizer, distinct
from xmcap.models import model_json

pytestmark = pytest.mark.slow

CODES = ("de", "en", "th")
FORMS = (pytest.param("plain", marks=pytest.mark.full), "consistent")  # training takes a quarter of a minute


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  return small_corpus.write(
    tmp_path_factory.mktemp("corpus") / "data", train=3, validation=1, languages=CODES, captions=1
  )


@pytest.fixture(scope="module", params=FORMS)
def model(request, corpus, tmp_path_factory):
  """A captioner that has learnt its three pictures by heart."""
  folder = tmp_path_factory.mktemp(request.param) / "model"
  xmcap(
    "train", "--gin_file=models/tiny.gin", "--gin_file=data/coco35l.gin", "--gin_file=runs/train.gin",
    "--gin_file=runs/plugs.gin", f"--gin.DATA_DIR={corpus}", f"--gin.MODEL_DIR={folder}", *small_corpus.SMALLER,
    f"--gin.FORM={request.param}", f"--gin.CaptionStream.languages={CODES}", "--gin.TOTAL_STEPS=350",
    "--gin.BATCH_SIZE=9", "--gin.CAPTIONS_PER_IMAGE=3", "--gin.STABILIZER_LENGTH=12",
    "--gin.TARGET_LENGTH=32", "--gin.CaptionStream.target_lengths=()",
    "--gin.Writers.tensorboard=False", "--gin.EVALUATORS=[]",
    "--gin.LEARNING_RATE=5e-3", "--gin.WarmupStepDecay.warmup_steps=10", "--gin.Predictor.search=@Greedy()",
    "--gin.WarmupStepDecay.every=100",
  ).succeeded()  # fmt: skip
  return request.param, folder


def wanted(index, code):
  return small_corpus.record(index, (code,), 1).captions[0].text


def test_eval_scores_captions_without_stabilizers(model, corpus, tmp_path):
  form, folder = model
  held = model_json.read(folder / model_json.NAME)
  assert held.parts["stabilizer"] == {"form": form, "language": "en", "length": 12, "phases": 2}
  xmcap(
    "eval", f"--model_dir={folder}", "--gin_file=runs/eval.gin", f"--gin.REFERENCES={corpus}",
    "--gin.CaptionEvaluator.split=train", f"--gin.EVAL_DIR={tmp_path / 'eval'}",
    "--gin.CaptionEvaluator.metrics=('exact',)", f"--gin.CaptionEvaluator.languages={CODES}",
  ).succeeded(
    "exact  1.0000", "distinct_stabilizers  1.0000",
    "distinct stabilizers of a picture, and the share of pictures with so many: 1: 100.0%",
  )  # fmt: skip
  for name, code_of in (("predictions.jsonl", lambda code: code), ("stabilizers.jsonl", lambda code: "en")):
    lines = [json.loads(line) for line in (tmp_path / "eval" / name).read_text(encoding="utf-8").splitlines()]
    assert {(line["image/key"], line["language"], line["caption"]) for line in lines} == {
      (f"{index:012d}", code, wanted(index, code_of(code))) for index in range(3) for code in CODES
    }


def test_caption_output_has_no_stabilizer(model, corpus, tmp_path):
  _, folder = model
  pictures = []
  for index in range(3):
    pictures.append(tmp_path / f"{index}.png")
    pictures[-1].write_bytes(small_corpus.record(index).image)
  expected = [{code: wanted(index, code) for code in CODES} for index in range(3)]
  captioner = xmcap_lib.load_captioner(folder)
  found = captioner.best(pictures, CODES)
  assert [{code: one.text for code, one in of_picture.items()} for of_picture in found] == expected
  model_dir.parse(str(folder))
  predictor, params = Predictor(), model_dir.load_params(str(folder))
  list(predictor(params, range(3), lambda key: captioner.load(pictures[key]), CODES))
  assert predictor.probabilities == pytest.approx(
    {(key, code): one.probability for key, codes in enumerate(found) for code, one in codes.items()}, abs=1e-5
  )
  several = captioner.candidates(pictures[:1], ["th", "en"], search="beam", n=2)[0]
  assert {code: found[0].text for code, found in several.items()} == {
    code: expected[0][code] for code in ("th", "en")
  }
  out = xmcap("caption", f"--model_dir={folder}", "--languages=de,en,th", "--json", *pictures).succeeded().out
  lines = [json.loads(line) for line in out.splitlines()]
  assert [line["caption"] for line in lines] == [
    text for of_picture in expected for text in of_picture.values()
  ]


def test_stabilizer_one_and_two_phase_decoding_agree(model):
  form, folder = model
  found = []
  for phases in (1, 2):
    gin.clear_config()
    model_dir.parse(str(folder), overrides=[f"Stabilizer.phases={phases}"])
    predictor = Predictor()
    assert predictor.generator.marks.stabilizer.phases == phases
    params = model_dir.load_params(str(folder))
    pixels = {
      f"{index}": images.load(small_corpus.record(index).image, "", predictor.image_size)
      for index in range(3)
    }
    found.append(dict(predictor(params, list(pixels), pixels.get, CODES)))
    assert predictor.stabilizers == {
      f"{index}": dict.fromkeys(CODES, wanted(index, "en")) for index in range(3)
    }
  assert found[0] == found[1]


def test_exported_model_output_has_no_stabilizer(model, tmp_path):
  _, folder = model
  model_dir.parse(str(folder), overrides=["Predictor.search=@Beam()"])
  exported = program.load(str(folder))
  pixels = np.stack(
    [images.load(small_corpus.record(index).image, "", exported.image_size) for index in range(3)]
  )
  prompts = np.array([exported.prompts[code] for code in CODES], np.int32)
  tokens, _ = stablehlo.exported(exported).call(exported.params, pixels, prompts)
  assert [[exported.vocabulary.decode(row) for row in of_picture] for of_picture in np.asarray(tokens)] == [
    [wanted(index, code) for code in CODES] for index in range(3)
  ]
  result = xmcap("export", f"--model_dir={folder}", "--to=hf", f"--out={tmp_path / 'hf'}")
  result.refused("it writes a stabilizer before each caption, for which transformers has no class")


def test_distinct_stabilizers_per_image_are_counted():
  found = {"a": {"en": "x", "de": "x"}, "b": {"en": "x", "de": "y"}, "c": {"en": "x", "de": "z"}}
  assert distinct(found) == {1: 1, 2: 2}
  marks = Marks(Stabilizer(), 9, (1,))
  assert list(marks.rows(found, "xm3600/")) == [("mean", "xm3600/distinct_stabilizers", pytest.approx(5 / 3))]
  assert marks.text(found).endswith("1: 33.3%, 2: 66.7%")


def test_plugs_gin_decodes_the_form_of_its_targets(corpus, tmp_path):
  files = ("models/tiny.gin", "data/coco35l.gin", "runs/train.gin", "runs/plugs.gin")
  xmcap(
    "train", *(f"--gin_file={file}" for file in files), f"--gin.DATA_DIR={corpus}", "--gin.TOTAL_STEPS=1",
    f"--gin.MODEL_DIR={tmp_path}", "--gin.CaptionStream.stabilizer=None",
  ).refused("CaptionStream.stabilizer and Predictor.stabilizer differ: give both the same")  # fmt: skip
