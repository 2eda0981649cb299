"""`xmcap tag`: the tags of new pictures are the network's, from a run's folder alone; and what it refuses."""

import json

import jax
import numpy as np
import pytest
from PIL import Image

from tests import drawn_params
from tests.corpora import label_folders
from tests.make import files, models
from tests.make.command import xmcap
from xmcap.families.tagging import labels as labels_lib
from xmcap.families.tagging.objective import LabelObjective
from xmcap.human import annotation_page
from xmcap.models import model_json
from xmcap.models.vit import ViTConfig

NAMES = {"en": ["cat", "dog", "owl", "ship"], "zh": ["狗", "猫", "100"]}
VIT = ViTConfig(width=16, depth=1, mlp_dim=16, num_heads=2, patch_size=8, image_size=16, dtype="float32")


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
  """The folder of a tagger as `xmcap train` leaves it, its objective and its parameters."""
  root = tmp_path_factory.mktemp("tagger")
  labels = {code: label_folders.write(root / "data" / code, code, names) for code, names in NAMES.items()}
  objective = LabelObjective(labels, vit=VIT, hidden=8)
  params = drawn_params.of(objective.init, {"image": np.zeros((1, 16, 16, 3), np.uint8)})
  folder = models.save(root / "run", params)
  models.write_json(folder, {"vit": VIT, "tagger": objective.module.tagger}, languages=("en", "zh"))
  labels_lib.write_names(folder / "labels", objective.names)
  return folder, objective, params


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
  folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
  for name in "abc":
    Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8)).save(folder / f"{name}.png")
  return folder


def tag(folder, *more):
  return xmcap("tag", f"--model_dir={folder}", *more)


def test_tag_command_equals_the_network(tagger, photos, tmp_path):
  folder, objective, params = tagger
  out = tmp_path / "tags.jsonl"
  tag(folder, photos, f"--out={out}", "--most=3").succeeded()
  rows = files.rows(out)
  assert [(row["image/key"], row["language"]) for row in rows] == [
    (key, code) for key in "abc" for code in NAMES
  ]
  pixels = np.stack([np.asarray(Image.open(photos / f"{name}.png")) for name in "abc"])
  logits = np.asarray(jax.jit(objective.module.apply)({"params": params}, pixels))
  for number, of_picture in enumerate(logits):
    for row, scores in zip(rows[2 * number :], (of_picture[:4], of_picture[4:]), strict=False):
      best = np.argsort(-scores)[:3]
      assert list(row["tags"]) == [NAMES[row["language"]][place] for place in best]
      assert list(row["tags"].values()) == pytest.approx(1 / (1 + np.exp(-scores[best])), rel=1e-4)
  # Annotators are shown them as they are.
  assert annotation_page.read_tags([out], "zh")["a"] == list(rows[1]["tags"])
  shown = tag(folder, photos / "b.png", "--languages=zh", "--most=1").succeeded().out
  key, told = shown.splitlines()
  assert key == str(photos / "b.png") and told.split()[:3] == ["zh", "Chinese", next(iter(rows[3]["tags"]))]


def test_tag_command_names_and_skips_a_broken_image(tagger, photos, tmp_path):
  broken = files.text(tmp_path / "broken.png", b"\x89PNG no picture")
  said = tag(tagger[0], photos / "a.png", broken, "--json", "--languages=en")
  said.refused("1 of 2 pictures left out", code=1)
  assert [json.loads(line)["image/key"] for line in said.out.splitlines()] == ["a"]
  assert "left out: " in said.err


@pytest.mark.parametrize(
  "more, message",
  [
    (["PHOTOS", "--languages=de"], "no labels in de: choose of en, zh"),
    ([], "give pictures, or --features"),
    (["PHOTOS", "--features=x"], "give pictures, or --features"),
    (["PHOTOS", "--most=0"], "--most=0: give a number from 1"),
  ],
)
def test_tag_command_usage_errors_are_one_line(tagger, photos, more, message):
  tag(tagger[0], *(word.replace("PHOTOS", str(photos)) for word in more)).refused(message)


def changed(folder, tmp_path, **fields):
  """A copy of the folder whose model.json has other fields of the tagger; None: it has none."""
  copy = tmp_path / "copy"
  copy.mkdir()
  for name in ("checkpoints", "labels"):
    (copy / name).symlink_to(folder / name)
  values = json.loads((folder / model_json.NAME).read_text())
  values["tagger"] |= fields
  if None in fields.values():
    del values["tagger"]
  (copy / model_json.NAME).write_text(json.dumps(values))
  return copy


@pytest.mark.parametrize(
  "fields, code, message",
  [
    ({"sizes": None}, 2, "this is an image tower: xmcap features"),
    ({"sizes": [["en", 4], ["zh", 9]]}, 2, "labels/zh: 3 labels, but the model was trained with 9"),
    ({"sizes": [["en", 4]]}, 1, "the parameters of"),
    ({"hidden": 9}, 1, "has shape (8, 4), but (9, 4) in this model"),
    ({"sizes": [["../..", 4]]}, 2, "tagger.sizes is of ['../..']: give languages"),
    ({"sizes": [["en", -1]]}, 2, "tagger.sizes is"),
    ({"sizes": []}, 2, "tagger.sizes is of []"),
    ({"dropout_rate": 1.0}, 2, "tagger.dropout_rate is 1"),
    ({"colour": 1}, 2, "tagger.colour is not a field"),
  ],
)
def test_tag_command_refuses_mismatched_model_json(tagger, photos, tmp_path, fields, code, message):
  tag(changed(tagger[0], tmp_path, **fields), photos).refused(message, code=code)


def test_tag_command_refuses_features_for_a_vit_tagger(tagger, tmp_path):
  np.save(tmp_path / "pictures.npy", np.ones((2, 16), "f4"))
  (tmp_path / "keys.txt").write_text("a\nb\n")
  tag(tagger[0], f"--features={tmp_path}").refused("sees pictures: name them")
