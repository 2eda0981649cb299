"""The gin files of the paper's runs: their resolved settings, and two training steps."""

import inspect
import re

import gin
import pytest

from tests.make import small_corpus
from tests.make.command import xmcap
from xmcap import configuration, gin_files
from xmcap.data import images
from xmcap.errors import UsageError
from xmcap.families.plugs.image_inputs import VectorAndLabelsConfig
from xmcap.families.plugs.stabilizer import Stabilizer
from xmcap.languages import TRAINED
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.planning.parameters import count_parameters
from xmcap.training.run_arguments import Arguments

RUNS = ("pretrain_cc3m35l", "finetune_coco35l", "train_coco35l")
MODELS = {
  "bb": (768, 12, 12, 768),
  "bg": (1408, 40, 12, 768),
  "lg": (1408, 40, 24, 1024),
  "tiny": (128, 2, 1, 128),
}
# Rates at the steps 0, 9,999, 10,000 and 40,000: Table 3 and section 3.2 of Thapliyal et al. (2022).
RATES = {
  "pretrain_cc3m35l": (3e-4, 3e-4, 3e-4, 1.5e-4),
  "finetune_coco35l": (3e-5, 3e-5, 3e-5, 3e-5),
  "train_coco35l": (1e-4, 1e-4, 1e-4, 0.5e-4),
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("model", MODELS)
def test_model_and_run_gin_files_are_a_complete_configuration(run, model):
  # tiny's rows are those of a vocabulary that is not here.
  configuration.parse(
    [f"models/{model}.gin", f"runs/{run}.gin"], ["T5Config.vocab_size=250112"] if model == "tiny" else []
  )
  vit, t5 = ViTConfig(), T5Config()
  assert (vit.width, vit.depth, t5.num_encoder_layers, t5.emb_dim) == MODELS[model]
  assert t5.vocab_size == 250112
  assert configuration.macro("BATCH_SIZE") == 2048
  assert configuration.macro("CAPTIONS_PER_IMAGE") == 1


@pytest.mark.parametrize("run", RUNS)
def test_learning_rates_of_the_paper(run):
  configuration.parse(["models/bb.gin", f"runs/{run}.gin"])
  optimizer = Arguments()["optimizer"]()
  assert optimizer.transformation.__name__ == "adafactor"
  found = [float(optimizer.schedule(step, 100_000)) for step in (0, 9_999, 10_000, 40_000)]
  assert found == pytest.approx(RATES[run], rel=1e-6)


@pytest.mark.parametrize("run", RUNS)
def test_paper_runs_keep_unprinted_settings_of_train_gin(run):
  configuration.parse(["models/bb.gin", f"runs/{run}.gin"])
  found = Arguments()
  optimizer = found["optimizer"]()
  assert optimizer.clip_norm is None and not optimizer.multipliers and not optimizer.frozen
  assert optimizer.schedule.warmup_steps == optimizer.schedule.cooldown_steps == 0
  rule = inspect.signature(optimizer.transformation).parameters
  assert {name: rule[name].default for name in rule} == {
    "decay_rate": 0.8, "clipping_threshold": 1.0, "multiply_by_parameter_scale": True, "min_dim_size_to_factor": 128,
    "momentum": None, "weight_decay": None,
  }  # fmt: skip
  assert not gin.get_bindings("adafactor")
  assert (T5Config().dropout_rate, ViTConfig().dropout_rate, ViTConfig().image_size) == (0.1, 0.0, 224)
  objective = found["objective"]()
  assert (objective.z_loss, objective.label_smoothing) == (1e-4, 0.0)
  assert configuration.macro("TARGET_LENGTH") == 64
  assert "search" not in gin.get_bindings("Predictor")
  assert "augment" not in gin.get_bindings("CaptionStream")


@pytest.mark.parametrize("run, clipped", [("train", None), ("quickstart", 1.0), ("pretrain_tags", 1.0)])
def test_clip_norm_of_runs(run, clipped):
  configuration.parse(["models/tiny.gin", "data/emoji36.gin", f"runs/{run}.gin"])
  assert Arguments()["optimizer"]().clip_norm == clipped


def test_the_model_file_may_follow_the_run():
  configuration.parse(["runs/train_coco35l.gin", "models/bg.gin"])
  assert gin.query_parameter("ViTConfig.patch_size") == 14


@pytest.mark.parametrize(
  "override, expected",
  [
    ([], ()),
    (["PRETRAINED=runs/pretrain"], "runs/pretrain"),
    (["PRETRAINED=['mt5', 'vit']"], ["mt5", "vit"]),
    (["PRETRAINED=[('runs/tags', 'vit')]"], [("runs/tags", "vit")]),
  ],
)
def test_pretrained_is_parameters_alone(override, expected):
  configuration.parse(["models/bb.gin", "runs/train_coco35l.gin"], override)
  assert Arguments()["pretrained"]() == expected
  assert Arguments()["initial_checkpoint"]() is None


def test_initial_checkpoint_is_a_whole_state():
  configuration.parse(["models/bb.gin", "runs/train_coco35l.gin"], ["INITIAL_CHECKPOINT=runs/other"])
  assert Arguments()["initial_checkpoint"]() == "runs/other"
  assert Arguments()["pretrained"]() == ()


def test_a_list_of_weights_is_no_initial_checkpoint():
  with pytest.raises(UsageError, match="initial_checkpoint"):
    configuration.parse(["models/bb.gin", "runs/train_coco35l.gin"], ["INITIAL_CHECKPOINT=['mt5', 'vit']"])


def _read(name: str) -> set[str]:
  """A gin file and all that it includes."""
  text = (gin_files.gin_folder() / name).read_text(encoding="utf-8")
  return {name}.union(*(_read(other) for other in re.findall(r"^include '(.+)'", text, re.MULTILINE)))


@pytest.mark.parametrize("path", sorted(gin_files.gin_folder().rglob("*.gin")), ids=lambda path: path.stem)
def test_a_run_is_at_most_four_gin_files(path):
  """Counted over the commands in the head of each file, with all that their files include."""
  head = path.read_text(encoding="utf-8").split("\n\n", maxsplit=1)[0]
  for command in re.findall(r"(?:xmcap|python -m) .*?(?=\n#\n|\n# [A-Z]|\n\n|$)", head, re.DOTALL):
    named = re.findall(r"--gin_file=([\w/]+\.gin)", command)
    assert len(set().union(*map(_read, named))) <= 4, command


@pytest.mark.parametrize("base", ["train", "quickstart"])
@pytest.mark.parametrize(
  "run, sources", [("mt", ("mt",)), ("mixed", ("mt", "human")), ("sequential", ("human",))]
)
def test_runs_by_source_complete_a_captioner_s_run(base, run, sources):
  files = ["models/tiny.gin", "data/emoji36.gin", f"runs/{base}.gin", f"runs/caption_{run}.gin"]
  configuration.parse(files, ["BATCH_SIZE=8"])
  assert configuration.macro("SOURCES") == sources and configuration.macro("SPLIT") == "train"
  bound = gin.get_bindings("CheckpointPolicy")
  assert (
    bound["best_metric"] == "cider_d" and gin.get_bindings("hooks", resolve_references=False)["eval_every"]
  )


def test_contrastive_then_caption_gin_differs_only_in_its_start():
  found = []
  for run in ("quickstart", "contrastive_then_caption"):
    configuration.parse(["models/tiny.gin", "data/emoji36.gin", f"runs/{run}.gin"])
    found.append(set(configuration.explain().splitlines()))
  changed = {line.split(" = ")[0] for line in found[0] ^ found[1] if not line.startswith("#")}
  assert changed == {"MODEL_DIR", "PRETRAINED"}


def test_fine_tuning_begins_where_pretraining_writes():
  configuration.parse(["models/bb.gin", "runs/pretrain_cc3m35l.gin"])
  written = configuration.macro("MODEL_DIR")
  configuration.parse(["models/bb.gin", "runs/finetune_coco35l.gin"])
  assert Arguments()["pretrained"]() == written


@pytest.mark.parametrize("name", ["cc3m_35l", "coco_35l"])
def test_the_corpora_hold_the_35_trained_languages(name):
  from xmcap.data import registry
  from xmcap.tasks import cc3m35l, coco35l  # noqa: F401

  rates = registry.registration(name).rates
  assert tuple(rates) == TRAINED and len(rates) == 35 and "quz" not in rates
  assert set(rates.values()) == {1.0}


def test_fine_tuning_lasts_one_epoch_of_captions(corpus):
  overrides = [f"DATA_DIR={corpus}", "BATCH_SIZE=8", "IMAGE_SIZE=32"]
  configuration.parse(["models/tiny.gin", "runs/finetune_coco35l.gin"], overrides)
  # 12 pictures with two captions in each of 35 languages, 8 a step.
  assert Arguments()["total_steps"]() == 105
  configuration.parse(["models/tiny.gin", "runs/finetune_coco35l.gin"], [*overrides, "epochs.count=0.5"])
  assert Arguments()["total_steps"]() == 52
  configuration.parse(["models/tiny.gin", "runs/finetune_coco35l.gin"], [*overrides, "TOTAL_STEPS=7"])
  assert Arguments()["total_steps"]() == 7


@pytest.mark.full  # its dry run: tests/dry_run/test_run.py; with another objective: tests/training/test_processes.py
@pytest.mark.slow
def test_train_coco35l_gin_trains_two_steps(corpus, tmp_path):
  said = xmcap(
    "train", "--gin_file=models/tiny.gin", "--gin_file=runs/train_coco35l.gin", f"--gin.DATA_DIR={corpus}",
    f"--gin.MODEL_DIR={tmp_path / 'model'}", "--gin.BATCH_SIZE=4", "--gin.TOTAL_STEPS=2",
    "--gin.Writers.tensorboard=False", "--gin.TARGET_LENGTH=16", *small_corpus.SMALLER,
  )  # fmt: skip
  said.succeeded("finished at step 2", "validation/loss")
  assert (tmp_path / "model/vocabulary.model").read_bytes() == (corpus / "vocabulary.model").read_bytes()


def test_a_vocabulary_too_large_for_the_model_is_one_line(corpus, tmp_path):
  said = xmcap(
    "train", "--gin_file=models/tiny.gin", "--gin_file=runs/train_coco35l.gin", f"--gin.DATA_DIR={corpus}",
    f"--gin.MODEL_DIR={tmp_path / 'model'}", "--gin.T5Config.vocab_size=256",
  )  # fmt: skip
  said.refused("pieces do not fit the model's 256 rows (T5Config.vocab_size)")
  assert not (tmp_path / "model").exists()


def test_inception_crops_are_for_training_alone(corpus):
  overrides = [f"DATA_DIR={corpus}", "BATCH_SIZE=8", "IMAGE_SIZE=32"]
  configuration.parse(["models/tiny.gin", "runs/train_coco35l.gin", "data/inception_crop.gin"], overrides)
  assert Arguments()["stream"]().augment == images.InceptionCrop(max_aspect=1.3333)
  (evaluator,) = Arguments()["evaluators"]()
  assert evaluator.stream.augment is None


# Section 3.3 and Table 4 of the draft: rate, steps of halving, batch, decoder layers, form, millions of parameters.
@pytest.mark.parametrize(
  "run, overrides, rate, halve_every, batch, decoder_layers, form, millions",
  [
    ("tgt", [], 0.18, 200_000, 4096, 6, None, 57),
    ("plugs", ["FORM='plain'"], 1e-4, 150_000, 4096, 6, "plain", 57),
    ("plugs", [], 1e-4, 150_000, 4096, 6, "consistent", 57),
    ("plugs", ["DECODER_LAYERS=8", "BATCH_SIZE=8192"], 1e-4, 150_000, 8192, 8, "consistent", 65),
    ("plugs", ["DECODER_LAYERS=10", "BATCH_SIZE=8192"], 1e-4, 150_000, 8192, 10, "consistent", 73),
  ],
  ids=["TGT", "L31", "L31-CMCD", "L31-CMCD8", "L31-CMCD10"],
)
def test_models_of_the_draft(run, overrides, rate, halve_every, batch, decoder_layers, form, millions):
  rows = "T5Config.vocab_size=12032"  # 12,000 tokens, and the separator
  files = ["data/cc3m35l.gin", "runs/train.gin", "models/plugs.gin", f"runs/{run}.gin"]
  configuration.parse(files, [*overrides, rows])
  optimizer, t5 = Arguments()["optimizer"](), T5Config()
  assert optimizer.transformation.__name__ == ("sgd" if run == "tgt" else "adam")
  assert (optimizer.l2, optimizer.clip_norm, t5.dropout_rate) == (1e-5, None, 0.3)
  schedule = optimizer.schedule
  assert (schedule.learning_rate, schedule.warmup_steps, schedule.every) == (rate, 16_000, halve_every)
  assert configuration.macro("BATCH_SIZE") == batch
  assert (t5.emb_dim, t5.num_encoder_layers, t5.num_decoder_layers) == (512, 6, decoder_layers)
  counts = count_parameters(VectorAndLabelsConfig(), t5)
  assert sum(counts.values()) == pytest.approx(1e6 * millions, rel=0.012)
  languages = gin.query_parameter("CaptionStream.languages")
  if form is None:
    assert languages == ("en",)
  else:
    assert set(configuration.macro("LANGUAGES")) == set(TRAINED) - {"bn", "mi", "sw", "te"}
    assert Stabilizer().form == form
