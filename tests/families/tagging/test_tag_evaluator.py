"""The tag evaluator: scores, prediction files and baselines of a split."""

import json
import pathlib

import jax
import numpy as np
import pytest

from tests import drawn_params
from tests.corpora import label_folders
from tests.make import files
from tests.make.command import xmcap
from tests.make.tiny_corpus import NUM_PICTURES
from xmcap.errors import UsageError
from xmcap.families.tagging import tag_baselines
from xmcap.families.tagging.objective import LabelObjective
from xmcap.families.tagging.stream import LabelStream
from xmcap.families.tagging.tag_evaluator import TagEvaluator
from xmcap.models.vit import ViTConfig
from xmcap.ranked.tags import score_tags
from xmcap.reading import tag_files

NAMES = {"en": ["cat", "dog", "owl", "ship"], "zh": ["狗", "猫", "船"]}
VIT = ViTConfig(width=16, depth=1, mlp_dim=16, num_heads=2, patch_size=8, image_size=16, dtype="float32")


def truth_of(code):
  """Labels by image key; the last picture has none."""
  names = NAMES[code]
  held = {
    f"{index:016x}": [names[index % len(names)], names[0]][: 1 + index % 2] for index in range(NUM_PICTURES)
  }
  return {key: [*dict.fromkeys(tags)] for key, tags in held.items()} | {f"{NUM_PICTURES - 1:016x}": []}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
  root = tmp_path_factory.mktemp("labels")
  return {code: label_folders.write(root / code, code, NAMES[code], train=truth_of(code)) for code in NAMES}


@pytest.fixture(scope="module")
def objective(folders):
  return LabelObjective(folders, vit=VIT, hidden=8)


@pytest.fixture(scope="module")
def params(objective):
  return drawn_params.of(objective.init, {"image": np.zeros((1, 16, 16, 3), np.uint8)})


@pytest.fixture
def stream(tiny, folders):
  return LabelStream(tiny.name, labels=folders, batch_size=10, image_size=16)


def test_tag_evaluator_equals_the_network(stream, objective, params, tiny, folders, tmp_path):
  training = LabelStream(tiny.name, split="train[0%:]", labels=folders, batch_size=8, image_size=16)
  evaluator = TagEvaluator(
    stream,
    objective=objective,
    depths=(1, 3),
    baselines=training,
    name="test",
    out_dir=str(tmp_path),
    bootstrap=2,
  )
  rows = {(code, name): value for code, name, value in evaluator.run(params, None)}

  written = tag_files.read(tmp_path / "test" / "predictions.jsonl")
  batch = stream.first(NUM_PICTURES, NUM_PICTURES)[0].batch(0)
  ours = jax.nn.sigmoid(jax.jit(objective.module.apply)({"params": params}, batch["image"]))
  for number, key in enumerate(batch["key"].tolist()):
    assert list(written["en"][key]) == [NAMES["en"][place] for place in np.argsort(-ours[number, :4])]
    np.testing.assert_allclose(list(written["zh"][key].values()), np.sort(ours[number, 4:])[::-1], rtol=1e-5)

  for prefix, file in {"test/": "predictions", "test/most_frequent/": "baseline_most_frequent"}.items():
    table = score_tags(
      {code: truth_of(code) for code in NAMES}, tag_files.read(tmp_path / "test" / f"{file}.jsonl"), (1, 3)
    ).table
    for code in NAMES:
      for name in table.metrics:
        assert rows[code, f"{prefix}{name}"] == pytest.approx(table.rows[code][name])
  assert rows["mean", "test/tags_p1"] == pytest.approx(
    np.mean([rows[code, "test/tags_p1"] for code in NAMES])
  )
  # Each picture is nearest to itself, and has its own tags.
  assert rows["en", "test/nearest_picture/tags_r3"] == 1
  table = json.loads((tmp_path / "test" / "table.json").read_text(encoding="utf-8"))
  # By files: what was evaluated is signed.
  merged = files.text(
    tmp_path / "true.jsonl",
    "\n".join(pathlib.Path(folders[code], "train.jsonl").read_text() for code in NAMES),
  )
  predicted = f"--predictions={tmp_path / 'test' / 'predictions.jsonl'}"
  options = "--k=1,3", "--bootstrap=2", f"--out={tmp_path / 'by_files'}"
  xmcap("score", "tags", f"--references={merged}", predicted, *options).succeeded()
  by_files = json.loads((tmp_path / "by_files" / "table.json").read_text(encoding="utf-8"))
  assert by_files["signature"] == table["signature"] and by_files["notes"] == table["notes"]
  assert [note for note in table["notes"] if "without a true tag" in note and "en 1, zh 1" in note]
  assert "nearest picture (P@1)" in (tmp_path / "test" / "table.csv").read_text(encoding="utf-8")


def test_tag_evaluator_scores_chosen_languages_only(stream, objective, params):
  evaluator = TagEvaluator(stream, objective=objective, languages=("zh",), depths=(1,))
  assert {code for code, _, _ in evaluator.run(params, None)} == {"zh", "mean"}
  small = evaluator.small(2)
  assert small.stream.num_images == 2 and {name for _, name, _ in small.run(params, None)} >= {"tags_p1"}


@pytest.mark.parametrize(
  ("options", "message"),
  [
    ({"depths": (1, 5)}, r"P@5 needs 5 labels or more, and .*/en/labels.txt has 4: choose a smaller depth"),
    ({"depths": (1,), "languages": ("de",)}, "no labels in de: choose of en, zh"),
  ],
)
def test_tag_evaluator_refuses_invalid_options(stream, objective, options, message):
  with pytest.raises(UsageError, match=message):
    TagEvaluator(stream, objective=objective, **options)


def test_tag_evaluator_refuses_baselines_of_the_scored_split(stream, objective):
  with pytest.raises(UsageError, match="from the split 'train' that is scored"):
    TagEvaluator(stream, objective=objective, depths=(1,), baselines=stream)


def test_tag_evaluator_refuses_other_labels(stream, folders):
  objective = LabelObjective({"zh": folders["zh"]}, vit=VIT)
  with pytest.raises(UsageError, match="other labels"):
    TagEvaluator(stream, objective=objective, depths=(1,))


def test_tag_baselines_equal_a_plain_loop():
  rng = np.random.default_rng(0)
  tags = {"en": {f"{n}": [f"t{tag}" for tag in set(rng.integers(0, 6, 3))] for n in range(9)}}
  train, queries = rng.normal(size=(9, 4)).astype(np.float32), rng.normal(size=(5, 4)).astype(np.float32)
  counts = {tag: sum(tag in held for held in tags["en"].values()) for tag in {*sum(tags["en"].values(), [])}}
  frequent = sorted(counts, key=lambda tag: (-counts[tag], tag))
  keys = list("abcde")
  assert [*tag_baselines.most_frequent(tags, keys, 3)["en"]["c"]] == frequent[:3]
  found = tag_baselines.nearest_picture(tags, list(tags["en"]), train, keys, queries, 4)["en"]
  for key, query in zip(keys, queries, strict=True):
    cosines = [query @ one / np.linalg.norm(one) for one in train]
    own = tags["en"][f"{np.argmax(cosines)}"]
    assert [*found[key]] == [*own, *(tag for tag in frequent if tag not in own)][:4]
