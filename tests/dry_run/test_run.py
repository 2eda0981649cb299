"""`xmcap train --dry_run`: a sound run passes, and each defect is one FAILED line that names it."""

import re
import shutil

import gin
import jax
import numpy as np
import pytest

from tests.make import small_corpus
from tests.make.command import xmcap
from tests.training.toy import ToyObjective, ToyStream
from xmcap import configuration
from xmcap.data.vocabulary import train_vocabulary
from xmcap.dry_run import first_step, trial_checkpoint
from xmcap.dry_run import run as dry_run
from xmcap.errors import UsageError, XmcapError
from xmcap.evaluation import evaluators
from xmcap.training.checkpoints import settings
from xmcap.training.checkpoints import write as checkpoints
from xmcap.training.checkpoints.read import load_params
from xmcap.training.checkpoints.train_state import TrainState
from xmcap.training.optimizer import Optimizer, adam
from xmcap.training.sharding import Partitioning
from xmcap.training.state import StatePlan, plan_state

FILES = ["--gin_file=models/tiny.gin", "--gin_file=runs/train_coco35l.gin"]
COMMON = ["--gin.BATCH_SIZE=4", "--gin.TARGET_LENGTH=12", *small_corpus.SMALLER]
NO_EVALUATORS = "--gin.EVALUATORS=[]"


@gin.configurable(module="tests")
class BrokenEvaluator:
  def small(self, pictures):
    return self

  def run(self, params, step):
    raise XmcapError("the references have vanished")


@gin.configurable(module="tests")
class NotANumber:
  def small(self, pictures):
    return self

  def run(self, params, step):
    yield "th", "cider", float("nan")


@gin.configurable(module="tests")
class LargeEvaluator:
  def run(self, params, step):
    pytest.fail("it cannot be made small")


@pytest.fixture
def run(tmp_path):
  """Runs the command; returns (exit code, lines by status, the error line)."""

  def _run(corpus, *extra, common=COMMON):
    arguments = [
      "train",
      *FILES,
      f"--gin.DATA_DIR={corpus}",
      f"--gin.MODEL_DIR={tmp_path / 'a/model'}",
      *common,
      *extra,
    ]
    printed = xmcap(*arguments, "--dry_run")
    lines = {status: [] for status in ("ok", "FAILED", "skipped", "")}
    for line in printed.out.splitlines():
      word = line.split(" ")[0]
      lines[word if word in lines else ""].append(line[8:] if word in lines else line)
    errors = [line for line in printed.err.splitlines() if line.startswith("xmcap: error")]
    return printed.code, lines, errors

  return _run


def assert_one_failure(result, name, *words, code):
  found, lines, errors = result
  assert found == code, lines
  (line,) = lines["FAILED"]
  assert line.startswith(f"{name}: ") and all(word in line for word in words)
  assert len(errors) == 1 and f"checks failed: {name}" in errors[0]


@pytest.fixture
def quick(monkeypatch):
  """Nothing is compiled: a fresh state is all ones, and a step leaves it as it is."""

  def create(plan, given=()):
    return jax.tree.map(
      lambda leaf: jax.device_put(np.ones(leaf.shape, leaf.dtype), leaf.sharding), plan.target
    )

  def step(objective, optimizer, plan, state, arrays, *_):
    pictures = len(arrays["image"])
    return f"{pictures} picture{' with random parameters' * (state is None)}", state or plan.create()

  monkeypatch.setattr(StatePlan, "create", create)
  monkeypatch.setattr(first_step, "take_step", step)


@pytest.fixture
def trained(corpus, tmp_path, quick):
  """The folder of a run of one step."""
  folder = tmp_path / "trained"
  parse(corpus, folder)
  arguments = dry_run.Arguments()
  objective = arguments["objective"]()
  mesh = Partitioning().mesh()
  arrays = first_step.shapes(objective, None)
  plan = plan_state(objective, arguments["optimizer"](), arrays, mesh, Partitioning().logical_rules())
  save(folder, plan.create().replace(step=np.ones((), np.int32)), settings.of_run(arguments["stream"]()))
  shutil.copy(corpus / "vocabulary.model", folder)
  return folder


def parse(corpus, model_dir, *bindings):
  overrides = [argument.removeprefix("--gin.") for argument in [*COMMON, NO_EVALUATORS, *bindings]]
  files = [file.removeprefix("--gin_file=") for file in FILES]
  configuration.parse(files, [*overrides, f"DATA_DIR={corpus}", f"MODEL_DIR={model_dir}"])


def save(folder, state, of_run=None):
  written = checkpoints.Checkpoints(folder, checkpoints.CheckpointPolicy(asynchronous=False), of_run)
  written.save(1, state)
  written.close()


@pytest.mark.slow
def test_dry_run_of_a_valid_run_passes_and_leaves_no_files(corpus, tmp_path, run):
  code, lines, errors = run(
    corpus,
    "--gin.EVALUATORS=[@LossEvaluator(), @CaptionEvaluator()]",
    f"--gin.REFERENCES={corpus / 'captions.jsonl'}",
    "--gin.CheckpointPolicy.best_metric='cider'",
    "--gin.TOTAL_STEPS=210",
    "--gin.CaptionStream.target_lengths=(8,)",
  )
  assert code == 0 and not errors and not lines["FAILED"] and not lines["skipped"]
  assert [line.split(":")[0] for line in lines["ok"]] == [
    "data", "data of evaluator 1 (LossEvaluator)", "vocabulary", "mesh", "model", "steps", "model folder", "weights",
    "step", "evaluator 1 (LossEvaluator)", "evaluator 2 (CaptionEvaluator)", "best checkpoint",
  ]  # fmt: skip
  said = "\n".join(lines["ok"])
  assert "model: 67,904 parameters, all of them trained" in said
  assert "batches of 4 captions, 1 for each of 4 pictures" in said
  assert re.search(r"targets of 8 tokens in \d+%, 12 tokens in \d+% of the steps", said)
  assert "1.00 epochs of 840 captions; each picture is seen 70.0 times" in said
  assert "rate 0.0001 at the first step" in said and "weights: starting from scratch" in said
  assert lines[""][-1].startswith("dry run: all 12 checks are ok")
  assert list(tmp_path.iterdir()) == []


def test_dry_run_loads_pretrained_weights(corpus, trained, run, tmp_path):
  before = sorted(tmp_path.rglob("*"))
  code, lines, _ = run(corpus, NO_EVALUATORS, f"--gin.PRETRAINED={trained}")
  assert code == 0 and not lines["FAILED"]
  (weights,) = [line for line in lines["ok"] if line.startswith("weights")]
  assert f"from {trained}" in weights and "fresh" not in weights
  assert sorted(tmp_path.rglob("*")) == before


def test_dry_run_resumes_a_run_without_changing_it(corpus, trained, run):
  before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
  code, lines, _ = run(corpus, NO_EVALUATORS, f"--gin.MODEL_DIR={trained}", "--gin.PRETRAINED=/nowhere")
  assert any(line.startswith("weights: resuming from step 1") for line in lines["ok"])
  after = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
  assert set(before) == set(after) and {path for path in before if before[path] != after[path]} <= {trained}


def test_dry_run_refuses_other_data_on_resume(corpus, trained, run):
  changed = (NO_EVALUATORS, f"--gin.MODEL_DIR={trained}", "--gin.BATCH_SIZE=8")
  found = run(corpus, *changed)
  assert_one_failure(found, "weights", "was trained on other data (batch_size: 4 -> 8)", code=2)
  code, lines, _ = run(corpus, *changed, "--other_data")
  assert code == 0 and any(line.startswith("weights: resuming from step 1") for line in lines["ok"])


@pytest.mark.parametrize(
  "options, name, words, code",
  [
    (["--gin.VOCABULARY=/nowhere/spiece.model", "--gin.T5Config.vocab_size=512"], "vocabulary",
     ["spiece.model: the vocabulary cannot be read"], 2),
    ([NO_EVALUATORS, "--gin.PRETRAINED=/nowhere"], "weights", ["/nowhere: no checkpoint found"], 2),
    ([NO_EVALUATORS, "--gin.MODEL_DIR=/dev/null/model"], "model folder", ["/dev/null/model: cannot be written"], 1),
    ([NO_EVALUATORS, "--gin.MODEL_DIR="], "model folder", ["MODEL_DIR is empty: give the path of a folder"], 2),
    (["--gin.EVALUATORS=[@NotANumber()]"], "evaluator 1 (NotANumber)", ["cider of th is nan"], 1),
    (["--gin.CheckpointPolicy.best_metric='bleu'"], "best checkpoint", ["'bleu'", "validation/loss"], 2),
    ([NO_EVALUATORS, "--gin.EMA_DECAY=2"], "model", ["Optimizer.ema_decay (EMA_DECAY) is 2: give a number"], 2),
    ([NO_EVALUATORS, "--gin.Optimizer.schedule=@WarmupStableDecay()", "--gin.WarmupStableDecay.decay=999999"], "steps",
     ["WarmupStableDecay.decay (999,999): too long for the run of"], 2),
  ],
)  # fmt: skip
def test_dry_run_reports_an_invalid_setting(corpus, run, quick, options, name, words, code):
  assert_one_failure(run(corpus, *options), name, *words, code=code)


def test_dry_run_takes_no_step_with_a_vocabulary_of_another_size(corpus, run, quick):
  found = run(corpus, NO_EVALUATORS, "--gin.T5Config.vocab_size=256")
  assert_one_failure(found, "vocabulary", "pieces do not fit the model's 256 rows", code=2)
  assert found[1]["skipped"] == ["step: needs the vocabulary"]


def test_dry_run_reports_a_failing_evaluator_and_leaves_out_a_large_one(corpus, run, quick):
  found = run(corpus, "--gin.EVALUATORS=[@BrokenEvaluator(), @LargeEvaluator()]")
  assert_one_failure(found, "evaluator 1 (BrokenEvaluator)", "the references have vanished", code=1)
  assert "evaluator 2 (LargeEvaluator): not run: it has no method small(pictures)" in found[1]["ok"]


# ---- data ----------------------------------------------------------------------------------------


def test_dry_run_reports_a_missing_train_split(tmp_path, run, quick):
  found = run(small_corpus.write(tmp_path / "corpus", train=0), NO_EVALUATORS)
  assert_one_failure(found, "data", "has no split 'train'; its splits: validation", code=2)


def test_dry_run_reports_a_missing_split_of_an_evaluator(tmp_path, run, quick):
  found = run(small_corpus.write(tmp_path / "corpus", validation=0))
  assert_one_failure(found, "evaluator 1 (LossEvaluator)", "has no split 'validation'", code=2)


def test_dry_run_reports_a_missing_corpus_once(tmp_path, run, corpus, quick):
  found = run(tmp_path / "nowhere", f"--gin.VOCABULARY={corpus / 'vocabulary.model'}")
  assert_one_failure(found, "data", "nowhere is not a corpus", code=2)
  assert "evaluator 1 (LossEvaluator): same error as data" in found[1]["skipped"]


def test_dry_run_reports_a_truncated_array_record(tmp_path, run, quick):
  damaged = small_corpus.write(tmp_path / "corpus")
  (file,) = damaged.glob("*train*array_record-*-of-?????")
  file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
  found = run(damaged, NO_EVALUATORS)
  assert_one_failure(found, "data", file.name, "is damaged", code=1)
  # The step is tried all the same, with a picture that is made up.
  assert any(line == "step: 1 picture" for line in found[1]["ok"])


def test_dry_run_reports_a_missing_language(tmp_path, run, quick):
  few = small_corpus.write(tmp_path / "corpus", languages=("de", "en", "th"))
  assert_one_failure(
    run(few, NO_EVALUATORS), "data", "no caption in ar bn cs", "12 of 12 pictures of train", code=2
  )


# ---- vocabulary ----------------------------------------------------------------------------------


def test_dry_run_reports_a_vocabulary_without_thai(corpus, tmp_path, run, monkeypatch, quick):
  import sentencepiece

  text = tmp_path / "text.txt"
  text.write_text("".join(f"{letter * 3} dog\n" for letter in "abcdefghijklmnopqrstuvwxyz"), encoding="utf-8")
  train = sentencepiece.SentencePieceTrainer.train
  monkeypatch.setattr(
    sentencepiece.SentencePieceTrainer,
    "train",
    lambda **options: train(**{**options, "byte_fallback": False}),
  )
  train_vocabulary(str(text), str(tmp_path / "latin.model"), size=120)
  found = run(corpus, NO_EVALUATORS, f"--gin.VOCABULARY={tmp_path / 'latin.model'}")
  assert_one_failure(found, "vocabulary", "latin.model", "(ar) decodes to", code=2)


# ---- weights, folder, mesh, evaluators -----------------------------------------------------------


def test_dry_run_reports_weights_of_another_shape(corpus, trained, run):
  found = run(corpus, NO_EVALUATORS, f"--gin.PRETRAINED={trained}", "--gin.T5Config.mlp_dim=48")
  assert_one_failure(found, "weights", "mlp/wi_0/kernel has shape (1, 32, 32)", "(1, 32, 48)", code=1)
  assert any(line == "step: 1 picture with random parameters" for line in found[1]["ok"])


def test_dry_run_reports_nan_weights(corpus, trained, tmp_path, run):
  params = jax.tree.map(np.array, load_params(trained))
  params["encoder"]["encoder_norm"]["scale"][3] = np.nan
  count = np.zeros((), np.int32)
  save(tmp_path / "bad", TrainState(count, params, {"none": count}, count, count))
  found = run(corpus, NO_EVALUATORS, f"--gin.PRETRAINED={tmp_path / 'bad'}")
  assert_one_failure(found, "weights", "encoder/encoder_norm/scale holds NaN or infinity", code=1)


def test_dry_run_reports_converted_weights_of_another_vocabulary(corpus, tmp_path, run, quick):
  from safetensors.numpy import save_file

  (tmp_path / "mt5").mkdir()
  save_file(
    {"token_embedder/embedding": np.ones((1024, 32), np.float32)}, tmp_path / "mt5/params.safetensors"
  )
  found = run(corpus, NO_EVALUATORS, f"--gin.PRETRAINED={tmp_path / 'mt5'}")
  assert_one_failure(found, "weights", "its embedding has 1,024 rows", "428 tokens", code=2)


def test_dry_run_reports_weights_of_another_vocabulary(corpus, trained, tmp_path, run):
  other = small_corpus.write(tmp_path / "other", pieces=410, validation=0)
  found = run(
    corpus,
    NO_EVALUATORS,
    f"--gin.PRETRAINED={trained}",
    f"--gin.VOCABULARY={other / 'vocabulary.model'}",
  )
  assert_one_failure(found, "weights", "trained with a different vocabulary", code=2)


def test_trial_checkpoint_refuses_too_little_disk_space(tmp_path):
  with pytest.raises(XmcapError, match=r"are free, but the run's checkpoints take 1,000,000.0 GB"):
    trial_checkpoint.write_and_read(str(tmp_path / "model"), 10**15)
  assert list(tmp_path.iterdir()) == []


def test_dry_run_reports_an_unset_gin_argument(corpus, run, quick):
  found = run(corpus, NO_EVALUATORS, "--gin.train.objective=None")
  assert found[0] == 1 and [line.split(":")[0] for line in found[1]["FAILED"]] == ["model"]


def test_dry_run_notes_a_mesh_of_more_devices():
  text, mesh = dry_run.make_mesh(Partitioning(data=8, fsdp=4, model=2), None, 1)
  assert "data 8 x fsdp 4 x model 2 needs 64 devices" in text and mesh.size == len(jax.devices())
  assert "a multiple of 8 devices" in dry_run.make_mesh(Partitioning(fsdp=8), None, 1)[0]


class Stream:
  num_images = 12


@pytest.mark.parametrize(
  "partitioning, parts", [(Partitioning(fsdp=8), 1), (Partitioning(), 5), (Partitioning(), 0)]
)
def test_dry_run_refuses_a_mesh_that_does_not_divide_the_batch(partitioning, parts):
  with pytest.raises(UsageError, match="a batch of 12 pictures cannot be split evenly over data x fsdp"):
    dry_run.make_mesh(partitioning, Stream(), parts)


# ---- one step ------------------------------------------------------------------------------------


class BlindObjective(ToyObjective):
  def loss(self, params, batch, rng, deterministic):
    return super().loss({**params, "wi": jax.lax.stop_gradient(params["wi"])}, batch, rng, deterministic)


class DivergedObjective(ToyObjective):
  def loss(self, params, batch, rng, deterministic):
    loss, metrics = super().loss(params, batch, rng, deterministic)
    return loss / 0.0, metrics


def toy_step(objective, optimizer, stream):
  arrays = first_step.batch(objective, stream, 2)
  mesh = Partitioning(1, 1, 1).mesh(jax.devices()[:1])
  plan = plan_state(objective, optimizer, arrays, mesh, Partitioning().logical_rules())
  return first_step.take_step(objective, optimizer, plan, None, arrays, 10, 0, None)


def test_dry_run_step_names_parameters_with_gradients():
  text, state = toy_step(ToyObjective(), Optimizer(adam, frozen=["wi"]), ToyStream())
  assert "on 2 pictures; gradients in bias, wo" in text and int(state.step) == 1
  assert re.search(r"; compiled in \d+\.\d s for this batch$", text)


@pytest.mark.parametrize(
  "objective, bad_steps, message",
  [
    (BlindObjective(), [], "the gradient of wi is 0.0 in the first step"),
    (DivergedObjective(), [], "the loss of the first step is inf"),
    (ToyObjective(), [0], "the gradient of wi of the first step is nan: check the weights"),
  ],
)
def test_dry_run_step_reports_no_or_non_finite_gradients(objective, bad_steps, message):
  with pytest.raises(XmcapError, match=message):
    toy_step(objective, Optimizer(adam), ToyStream(bad_steps=bad_steps))


def test_dry_run_step_reports_a_stream_without_captions():
  stream = ToyStream()
  stream.batch = lambda step: {"target_weights": np.zeros((4, 1, 3), np.float32)}
  with pytest.raises(XmcapError, match="none of the first pictures has a caption"):
    first_step.batch(None, stream, 1)


# ---- evaluators made small -----------------------------------------------------------------------


def test_dry_run_evaluator_takes_two_images_and_two_languages(corpus):
  evaluator = evaluators.CaptionEvaluator(
    predictor=None, references=str(corpus / "captions.jsonl"), out_dir="/never"
  )
  small = evaluator.small(2)
  assert list(small.languages) == ["ar", "bn"] and small.out_dir == ""
  assert [sorted(captions) for captions in small.references.values()] == [["ar", "bn"]] * 2
  assert len(evaluator.references) == 6 and evaluator.out_dir == "/never"


def test_dry_run_evaluator_reports_a_missing_image(tmp_path):
  corpus = small_corpus.write(tmp_path / "corpus", train=1)
  last = sorted((corpus / "images").iterdir())[-1]
  last.unlink()
  evaluator = evaluators.CaptionEvaluator(predictor=None, references=str(corpus / "captions.jsonl"))
  with pytest.raises(UsageError, match=f"no picture {last.stem}.jpg or .png"):
    evaluator.small(2)
