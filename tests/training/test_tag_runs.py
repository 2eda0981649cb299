"""The runs that train taggers, as their gin files configure them, over stored features: one, both, and a cascade."""

import gin
import numpy as np
import pytest

from tests.corpora import label_folders
from tests.make.command import xmcap
from tests.make.tiny_corpus import NUM_PICTURES
from xmcap import configuration
from xmcap.data import features
from xmcap.evaluation import model_dir
from xmcap.reading import tag_files
from xmcap.training import loop
from xmcap.training.checkpoints import read
from xmcap.training.run import Start

KEYS = tuple(f"{index:016x}" for index in range(NUM_PICTURES))
NAMES = {"en": [f"tag{n}" for n in range(6)], "zh": [f"标签{n}" for n in range(5)]}


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_dir, register):
  """A folder with labels in two languages and features that tell them, and the common options of runs."""
  root = tmp_path_factory.mktemp("runs")
  vectors = np.zeros((NUM_PICTURES, 6), np.float32)
  vectors[np.arange(NUM_PICTURES), np.arange(NUM_PICTURES) % 6] = 1
  features.write(root / "features.safetensors", features.Features(KEYS, vectors))
  for code, names in NAMES.items():
    tags = {key: [names[index % 6 % len(names)]] for index, key in enumerate(KEYS)}
    label_folders.write(root / code, code, names, train=tags)
  name = register(tiny_dir).name
  return root, [
    f"MIXTURE='{name}'", f"{name}.data_dir='{tiny_dir}'", f"FEATURES='{root}/features.safetensors'",
    "VALIDATION='train'", "TEST='train[:12]'", "TOTAL_STEPS=4", "BATCH_SIZE=8", "hooks.eval_every=2",
    "Writers.tensorboard=False", "LabelObjective.hidden=16", "LEARNING_RATE=0.01",
  ]  # fmt: skip


def configure(place, run, name, languages, *more):
  root, common = place
  gin.clear_config()
  labels = {code: str(root / code) for code in languages}
  configuration.parse(
    ["data/emoji36.gin", f"runs/{run}.gin", "models/features.gin"],
    [*common, f"LABELS={labels}", f"MODEL_DIR='{root / name}'", f"EVAL_DIR='{root / name}_eval'", *more],
  )
  return root / name


@pytest.fixture(scope="module")
def english(place):
  folder = configure(place, "tag_mono", "tag_en", ["en"])
  assert loop.train(start=Start(say=lambda line: None, begun=model_dir.write_model_dir)).finished
  return folder


def test_tag_run_keeps_the_best_checkpoint(english):
  notes = read.notes(read.checkpoints_dir(english))
  assert max(notes) == 4 and {note.metric for note in notes.values()} == {"validation/tags_p5"}


def test_tag_cascade_trains_its_second_network_and_tags_images(place, english):
  root, _ = place
  folder = configure(
    place, "tag_cascade", "cascade", ["zh"], f"FIRST={{'en': '{root / 'en'}'}}", f"PRETRAINED='{english}'"
  )
  run = loop.train(start=Start(say=lambda line: None, begun=model_dir.write_model_dir))
  assert run.finished and "validation/tags_p5" in run.metrics
  before, after = read.load_params(english, read.best_step(english)), read.load_params(folder, 4)
  for path, value in read.flat(before).items():
    np.testing.assert_array_equal(read.flat(after)[path], value, err_msg=path)
  assert after["cascade"]["hidden"]["kernel"].shape == (len(NAMES["en"]) + 6, 16)

  model_dir.evaluate()
  written = {path.name for path in (root / "cascade_eval").iterdir()}
  assert {"predictions.jsonl", "baseline_nearest_picture.jsonl", "table.csv", "report.html"} <= written

  # `xmcap tag` needs nothing but the run's folder, and predicts what the evaluator did.
  out = root / "tags.jsonl"
  options = [f"--model_dir={folder}", f"--features={root / 'features.safetensors'}", f"--out={out}"]
  xmcap("tag", *options).succeeded()
  ours, theirs = tag_files.read(out)["zh"], tag_files.read(root / "cascade_eval" / "predictions.jsonl")["zh"]
  assert set(theirs) < set(ours) == set(KEYS) and len(theirs) == 12
  for key, tags in theirs.items():
    assert list(ours[key]) == list(tags) and list(ours[key].values()) == pytest.approx(list(tags.values()))
  features.write(root / "narrow.safetensors", features.Features(("a",), np.ones((1, 5), np.float32)))
  xmcap("tag", options[0], f"--features={root / 'narrow.safetensors'}").refused("width 5, but")
  assert xmcap("tag", options[0], root).code == 2


def test_both_languages_share_a_hidden_layer(place):
  folder = configure(place, "tag_multitask", "both", ["en", "zh"])
  assert loop.train(start=Start(say=lambda line: None)).finished
  assert set(read.load_params(folder)["tags"]) == {"hidden", "en", "zh"}
