"""A pulse of the whole system: every stage of quickstart.sh, through the command, with a few pictures and steps."""

import json
import re
import shutil

import pytest

from tests.make.command import xmcap
from xmcap.training.reporting import metric_names

pytestmark = pytest.mark.slow

COMMON = ["--gin_file=models/tiny.gin", "--gin_file=data/emoji36.gin"]
SMALL = [
  "--gin.TOTAL_STEPS=4",
  "--gin.hooks.log_every=2",
  "--gin.Writers.tensorboard=False",
  "--gin.ViTConfig.depth=1",
]
WATCH = ["--gin_file=runs/watch.gin", "--gin.LOOK_EVERY=2"]


def run(*arguments):
  return xmcap(*arguments).succeeded()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
  """A corpus, a ViT that saw tags, a captioner that saw captions."""
  root = tmp_path_factory.mktemp("pulse")
  options = {"num_emoji": 8, "num_train": 64, "num_validation": 8, "num_test": 8, "processes": 1}
  try:
    run("data", "build", "emoji36", "--out", root / "data", "--vocabulary_size", 900,
        *(f"--{name}={value}" for name, value in options.items()))  # fmt: skip
  except AssertionError:
    pytest.skip("emoji36 cannot be built: neither its Debian packages nor npm can be reached")
  data = f"--gin.DATA_DIR={root / 'data'}"
  run("train", *COMMON, "--gin_file=runs/pretrain_tags.gin", data, f"--gin.MODEL_DIR={root / 'tags'}", *SMALL,
      "--gin.BATCH_SIZE=8", *WATCH, f"--gin.LIVE_PAGE={root / 'tags.html'}", "--gin.WATCHED=@TagNames()")  # fmt: skip
  run("train", *COMMON, "--gin_file=runs/quickstart.gin", data, f"--gin.MODEL_DIR={root / 'model'}", *SMALL,
      f"--gin.PRETRAINED=[('{root / 'tags'}', 'vit')]", "--gin.BATCH_SIZE=16", "--gin.Writers.tensorboard=True",
      "--gin.hooks.evaluators=[@LossEvaluator(), @CaptionEvaluator()]", "--gin.CaptionEvaluator.limit=8",
      f"--gin.CaptionEvaluator.references='{root / 'data/test/captions.jsonl'}'", "--gin.Predictor.max_length=6",
      "--gin.CaptionEvaluator.predictor=@Predictor()", "--gin.Predictor.mixture=%MIXTURE",
      "--gin.T5Config.num_decoder_layers=1",
      # One step is compiled, and one decoding, for the four pictures of the live page too.
      "--gin.TARGET_LENGTH=12", "--gin.CaptionStream.target_lengths=()", "--gin.Predictor.batch_size=4",
      *WATCH, f"--gin.LIVE_PAGE={root / 'model.html'}")  # fmt: skip
  return root


def test_live_pages_of_both_runs(place):
  for name in ("tags", "model"):
    page = (place / f"{name}.html").read_text(encoding="utf-8")
    assert page.count("<article") == 4 and "Step 4 of 4" in page


def test_every_scalar_that_a_run_writes_is_explained(place):
  written = set()
  for run_dir in ("tags", "model"):
    for line in (place / run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
      written |= {name for name in json.loads(line) if "/" in name}
  assert {"eval/cider_d", "eval/cider_d/en", "grad_norm/vit", "train/loss", "train/exact"} <= written
  patterns = [re.sub("[A-Z]+", "[^/]+", name) for names in metric_names.NAMES for name in names.split(", ")]
  assert [name for name in written if not any(re.fullmatch(one, name) for one in patterns)] == []


def test_tensorboard_shows_configuration_and_captions(place):
  events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
  found = events.EventAccumulator(str(place / "model/tensorboard"), size_guidance={"tensors": 0})
  found.Reload()
  texts = {
    tag: found.Tensors(tag)[0].tensor_proto.string_val[0].decode()
    for tag in found.Tags()["tensors"]
    if tag == "configuration" or tag.startswith("captions/evaluator_1/")
  }
  assert "ViTConfig.image_size" in texts["configuration"]
  assert len(texts) == 1 + 8
  pictures = found.Tensors("captions/evaluator_1")[0].tensor_proto.string_val
  assert len(pictures) == 2 + 8 and all(picture.startswith(b"\x89PNG") for picture in pictures[2:])
  references = (place / "data/test/captions.jsonl").read_text(encoding="utf-8").splitlines()
  first = json.loads(references[0])
  shown = texts["captions/evaluator_1/1"]
  assert first["image/key"] in shown and first["en"]["caption"][0] in shown
  assert shown.count("\n| ") == 2 + 8  # heading, rule, and a language each


@pytest.fixture(scope="module")
def evaluated(place):
  """The folder of an evaluation, and what it printed."""
  printed = run("eval", f"--model_dir={place / 'model'}", "--gin_file=runs/eval_emoji36.gin",
                f"--gin.EVAL_DIR={place / 'eval'}", f"--gin.DATA_DIR={place / 'data'}",
                f"--gin.REFERENCES={place / 'data/test/captions.jsonl'}", "--gin.Predictor.max_length=6",
                "--gin.Predictor.batch_size=4")  # fmt: skip
  return place / "eval", printed.out


def test_eval_writes_a_row_per_language(evaluated):
  folder, printed = evaluated
  table = json.loads((folder / "table.json").read_text(encoding="utf-8"))
  # Eight emoji may leave Maori or Quechua without a name; the other 34 have all of them.
  assert len(table["languages"]) >= 34 and table["signature"]
  assert {path.name for path in folder.iterdir()} >= {
    "table.csv", "table.json", "table.md", "table.tex", "predictions.jsonl", "report.html",
    "baseline_most_frequent_caption.jsonl", "baseline_nearest_picture.jsonl",
  }  # fmt: skip
  assert "nearest picture" in printed


def test_score_gives_what_eval_gave(place, evaluated, tmp_path):
  folder, _ = evaluated
  run("score", f"--references={place / 'data/test/captions.jsonl'}", f"--out={tmp_path / 'score'}",
      f"--predictions={folder / 'predictions.jsonl'}", "--metrics=cider,cider_d,exact")  # fmt: skip
  tables = [json.loads((one / "table.json").read_text()) for one in (folder, tmp_path / "score")]
  assert [tables[0][name] for name in ("languages", "means", "signature")] == [
    tables[1][name] for name in ("languages", "means", "signature")
  ]


def test_a_model_folder_can_be_moved(place, tmp_path):
  moved = tmp_path / "elsewhere"
  shutil.copytree(place / "model", moved)
  picture = next((place / "data/test/images").iterdir())
  printed = run("caption", f"--model_dir={moved}", "--languages=en,th,ar", "--json", picture)
  rows = [json.loads(line) for line in printed.out.splitlines()]
  assert [row["language"] for row in rows] == ["en", "th", "ar"]
  assert {row["image/key"] for row in rows} == {picture.stem}


def test_caption_of_broken_images_is_one_line(place, tmp_path):
  (tmp_path / "a.jpg").write_text("not a picture")
  good = next((place / "data/test/images").iterdir()).read_bytes()
  (tmp_path / "b.png").write_bytes(good[: len(good) // 2])
  for name in ("a.jpg", "b.png"):
    xmcap("caption", f"--model_dir={place / 'model'}", tmp_path / name).refused(name, code=1)


def test_train_resumes_from_its_checkpoint(place):
  # To no more steps, which would be compiled.
  said = run("train", *COMMON, "--gin_file=runs/pretrain_tags.gin", f"--gin.DATA_DIR={place / 'data'}",
             f"--gin.MODEL_DIR={place / 'tags'}", *SMALL, "--gin.BATCH_SIZE=8")  # fmt: skip
  said.succeeded("resuming from step 4")


def test_a_checkpoint_of_another_shape_names_parameter_and_shapes(place):
  options = [*SMALL, "--gin.BATCH_SIZE=8", "--gin.ViTConfig.width=64"]
  run_of_tags = [f"--gin.DATA_DIR={place / 'data'}", f"--gin.MODEL_DIR={place / 'tags'}"]
  refused = xmcap("train", *COMMON, "--gin_file=runs/pretrain_tags.gin", *run_of_tags, *options)
  refused.refused("labels_dense/kernel has shape (128, 8), but (64, 8) in this model", code=1)
