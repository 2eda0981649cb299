"""The vector and the labels of an image as inputs of a captioner, from stored rows to scored captions."""

import pathlib
import runpy

import jax
import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.make import files, small_corpus
from tests.make.command import xmcap
from xmcap.data import features
from xmcap.data.features import Features
from xmcap.errors import UsageError
from xmcap.families.plugs import image_inputs
from xmcap.models import model_json, parts
from xmcap.models.captioner import Captioner
from xmcap.models.t5 import T5Config
from xmcap.training.checkpoints import read

ROOT = pathlib.Path(__file__).parents[3]
CODES = ("de", "en", "th")
SMALLER = tuple(
  f"--gin.T5Config.{name}={size}"
  for name, size in {"emb_dim": 32, "num_heads": 2, "head_dim": 16, "num_encoder_layers": 1, "num_decoder_layers": 1,
                     "mlp_dim": 32}.items()
)  # fmt: skip
CONFIG = image_inputs.VectorAndLabelsConfig(
  num_labels=5, label_dim=3, width=7, vector_dim=4, most=2, dtype="float32"
)


def test_tower_and_projection_are_two_linear_layers():
  torch = pytest.importorskip("torch")  # 2.13
  captioner = Captioner(CONFIG, T5Config(16, 8, 1, 8, 1, 1, 8, dtype="float32"))
  rows = np.array([[0.5, -1.0, 2.0, 0.1, 5, 1], [1.0, 1.0, 1.0, 1.0, 3, 0]], np.float32)
  tokens = np.ones((2, 1, 2), np.int32)
  params = captioner.init(jax.random.key(0), rows, tokens, tokens)["params"]
  found = captioner.apply({"params": params}, rows, method="encode_image")

  def linear(layer, x):
    kernel, bias = (torch.tensor(np.asarray(layer[name])) for name in ("kernel", "bias"))
    return torch.nn.functional.linear(x, kernel.T, bias)

  vit = params["vit"]
  table = torch.nn.Embedding.from_pretrained(torch.tensor(np.asarray(vit["label_embedding"])))
  of_vector = linear(vit["vector"], torch.tensor(rows[:, :4]))
  of_labels = linear(vit["labels"], table(torch.tensor([[5, 1], [3, 0]])))
  expected = linear(params["projection"], torch.cat([of_vector[:, None], of_labels], dim=1))
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_rows_have_the_vector_and_then_the_labels_best_first():
  vectors = Features(("a", "b"), np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))
  tags = {"a": ["dog", "cat", "sky"], "b": ["sky"]}
  rows = image_inputs.with_labels(vectors, tags, ["sky", "cat", "dog"], most=2)
  assert rows.keys == ("a", "b") and rows.vectors.tolist() == [[1, 2, 3, 2], [3, 4, 1, 0]]
  with pytest.raises(UsageError, match="picture 'a': 'dog' is none of the 2 labels"):
    image_inputs.with_labels(vectors, tags, ["sky", "cat"])
  with pytest.raises(UsageError, match="no labels of 1 picture"):
    image_inputs.with_labels(vectors, {"a": []}, ["sky"])


def test_pixels_are_refused_in_one_line():
  with pytest.raises(UsageError, match="reads stored vectors and labels, not pictures"):
    parts.image_tower(CONFIG, name=None).init(jax.random.key(0), np.zeros((1, 4, 4, 3), np.uint8))
  assert parts.input_shape(CONFIG) == (6,)


def test_program_joins_vectors_and_tags(tmp_path, monkeypatch):
  features.write(tmp_path / "vectors.safetensors", Features(("a",), np.array([[1.0, 2.0]], np.float32)))
  files.lines(tmp_path / "tags.jsonl", '{"image/key": "a", "language": "en", "tags": ["dog", "sky"]}')
  files.lines(tmp_path / "labels.txt", "sky", "cat", "dog")
  monkeypatch.chdir(tmp_path)
  program = runpy.run_path(str(ROOT / "examples/plugs_inputs.py"))
  program["main"]("vectors.safetensors", "tags.jsonl", "labels.txt", "inputs.safetensors")
  assert features.read("inputs.safetensors").vectors.tolist() == [[1, 2, 3, 1, *[0] * 14]]


@pytest.mark.parametrize("value", [-1, 0.5, 6])
def test_a_column_that_is_no_label_is_refused_with_its_place(value):
  rows = np.zeros((3, 6), np.float32)
  CONFIG.check_stored(rows, "rows.safetensors")
  rows[1, 5] = value
  with pytest.raises(
    UsageError, match=rf"rows.safetensors, row 2, column 6: {value:g} is no number of one of 5 labels"
  ):
    parts.check_stored(CONFIG, rows, "rows.safetensors")


@pytest.mark.slow
def test_captioner_learns_from_stored_rows_and_pretrained_labels(tmp_path):
  corpus = small_corpus.write(tmp_path / "data", train=3, validation=1, languages=CODES, captions=1)
  keys = tuple(f"{index:012d}" for index in range(4))
  vectors = Features(keys, np.eye(4, dtype=np.float32))
  rows = image_inputs.with_labels(vectors, dict.fromkeys(keys, ["sky", "dog"]), ["dog", "sky"], most=16)
  features.write(tmp_path / "rows.safetensors", rows)
  labels = tmp_path / "labels"
  labels.mkdir()
  table = np.arange(9, dtype=np.float32).reshape(3, 3) / 10
  save_file({"vit/label_embedding": table}, labels / "params.safetensors")
  sizes = "--gin.VECTOR=4", "--gin.LABELS=2"
  model, gin_files = tmp_path / "model", ("data/coco35l", "runs/train", "models/plugs", "runs/plugs")
  command = (
    "train", *(f"--gin_file={name}.gin" for name in gin_files), f"--gin.DATA_DIR={corpus}", f"--gin.MODEL_DIR={model}",
    *SMALLER, f"--gin.LANGUAGES={CODES}", "--gin.TOTAL_STEPS=250", "--gin.BATCH_SIZE=9",
    "--gin.CAPTIONS_PER_IMAGE=3", "--gin.STABILIZER_LENGTH=12", "--gin.TARGET_LENGTH=32",
    "--gin.VectorAndLabelsConfig.label_dim=3", "--gin.VectorAndLabelsConfig.width=8",
    "--gin.CaptionStream.target_lengths=()", "--gin.Writers.tensorboard=False", "--gin.T5Config.dropout_rate=0.0",
    "--gin.LEARNING_RATE=5e-3", "--gin.WarmupStepDecay.warmup_steps=10", "--gin.EVALUATORS=[]",
    f"--gin.PRETRAINED=['{labels}']",
  )  # fmt: skip
  xmcap(*command, *sizes).refused("features.safetensors: no such file or folder")
  stored = f"--gin.FEATURES={tmp_path / 'rows.safetensors'}"
  xmcap(*command, stored, "--gin.VECTOR=4", "--gin.LABELS=3").refused(
    "vit/label_embedding has shape (3, 3), but (4, 3)", code=1
  )
  xmcap(*command, stored, "--gin.VECTOR=5", "--gin.LABELS=2").refused(
    "vectors of 20 numbers, but the model's have 21"
  )
  plain = tmp_path / "plain.safetensors"
  features.write(plain, Features(keys, np.full((4, 20), 0.25, np.float32)))
  xmcap(*command, f"--gin.FEATURES={plain}", *sizes).refused(
    "row 1, column 5: 0.25 is no number of one of 2 labels"
  )
  xmcap(*command, stored, *sizes).succeeded("starting with vit from")
  assert model_json.of_folder(model).parts["vector_and_labels"]["num_labels"] == 2
  assert read.load_params(model, 250)["vit"]["label_embedding"].shape == (3, 3)
  evaluate = (
    "eval", f"--model_dir={model}", "--gin_file=runs/eval.gin", f"--gin.REFERENCES={corpus}",
    "--gin.CaptionEvaluator.split=train", f"--gin.EVAL_DIR={tmp_path / 'eval'}",
    "--gin.CaptionEvaluator.metrics=('exact',)", f"--gin.CaptionEvaluator.languages={CODES}",
  )  # fmt: skip
  xmcap(*evaluate, f"--gin.Predictor.features={tmp_path / 'rows.safetensors'}").succeeded(
    "exact  1.0000", "distinct_stabilizers  1.0000"
  )
  (tmp_path / "0.png").write_bytes(small_corpus.record(0).image)
  for refused in (evaluate, ("caption", f"--model_dir={model}", tmp_path / "0.png")):
    xmcap(*refused).refused("Predictor.features is empty, and the model reads no pixels")
