"""A language's adapter: taught on the embeddings of a frozen tower, taken out of its run, put on and off again."""

import dataclasses
import functools
import json
import shutil

import jax
import numpy as np
import pytest

from tests import drawn_params
from tests.make import files, models
from tests.make.command import xmcap
from tests.make.models import DUAL
from tests.make.models import DUAL_T5 as T5
from tests.make.models import DUAL_VIT as VIT
from tests.make.tiny_corpus import NUM_PICTURES
from xmcap.errors import UsageError
from xmcap.evaluation import embed as embed_lib
from xmcap.families.dual.adapting import AdapterObjective
from xmcap.families.dual.taught_stream import TaughtStream
from xmcap.models import stacking
from xmcap.training import loop
from xmcap.training.checkpoints.read import load_params
from xmcap.training.checkpoints.retention import CheckpointPolicy
from xmcap.training.hooks import hooks
from xmcap.training.optimizer import Optimizer, adam
from xmcap.training.reporting.writers import Writers
from xmcap.training.run import Start
from xmcap.training.schedule import ConstantThenRsqrt


@pytest.fixture(scope="module")
def base(tmp_path_factory, tiny_dir):
  """The folder of a dual tower's run."""
  return models.dual_tower(tmp_path_factory.mktemp("dual") / "base", f"{tiny_dir}/vocabulary.model")


@pytest.fixture(scope="module")
def teacher(base, tiny_dir):
  out = base.parent / "teacher"
  options = f"--model_dir={base}", f"--corpus={tiny_dir}", "--languages=en", f"--out={out}"
  xmcap("embed", *options).succeeded()
  return out


def taught(tiny, teacher, **changes):
  options = dict(mixture=tiny.name, batch_size=8)
  return TaughtStream(**options | dict(languages=("de",), target_length=8, teacher=str(teacher)) | changes)


@pytest.fixture(scope="module", params=["bottleneck", "lora"])
def run(request, base, teacher, tiny_dir, register):
  """The folder of a run of some steps that taught German, and its text tower's configuration."""
  t5 = dataclasses.replace(T5, adapter=request.param, adapter_dim=4)
  folder = base.parent / request.param
  loop.train(
    str(folder), AdapterObjective(VIT, t5, DUAL), taught(register(tiny_dir), teacher), 30, pretrained=str(base),
    optimizer=Optimizer(adam, ConstantThenRsqrt(learning_rate=0.01), frozen=["^(?!.*adapter)"]),
    checkpoint=CheckpointPolicy(every=0), writers=Writers(tensorboard=False), hooks=hooks(log_every=1),
    start=Start(say=lambda line: None),
  )  # fmt: skip
  shutil.copy(f"{tiny_dir}/vocabulary.model", folder)
  return models.write_json(folder, {"vit": VIT, "t5": t5, "dual": DUAL})


def test_corpus_embeddings_are_in_the_order_of_records(base, teacher, tiny_dir):
  assert np.load(teacher / "pictures.npy").shape == (NUM_PICTURES, 8)
  assert (teacher / "keys.txt").read_text().split() == [f"{index:016x}" for index in range(NUM_PICTURES)]
  captions = embed_lib.of_corpus(tiny_dir, "train", ["en"]).captions["en"]
  assert captions.texts[:2] == ("dog 0", "small dog 1")
  with pytest.raises(UsageError, match="picture '0000000000000001' has no caption in 'ar'"):
    embed_lib.of_corpus(tiny_dir, "train", ["ar"])


def test_adapter_stream_pairs_captions_with_image_embeddings(teacher, tiny):
  stream = taught(tiny, teacher, target_lengths=(4, 8), bucket_window=2)
  text, image = np.load(teacher / "captions" / "en.npy"), np.load(teacher / "pictures.npy")
  for step in range(4):
    batch = stream.batch(step)
    numbers = [int(key, 16) for key in batch["key"]]
    np.testing.assert_array_equal(batch["teacher_text"], text[numbers])
    np.testing.assert_array_equal(batch["teacher_image"], image[numbers])
    assert "image" not in batch and batch["target_tokens"].shape[:2] == (8, 1)


def test_adapter_stream_refuses_embeddings_of_another_split(teacher, tiny, tmp_path):
  teacher = shutil.copytree(teacher, tmp_path / "teacher")
  np.save(teacher / "pictures.npy", np.zeros((3, 8), np.float32))
  with pytest.raises(UsageError, match="for 24 pictures of split 'train': run xmcap embed --corpus"):
    taught(tiny, teacher)
  with pytest.raises(UsageError, match="no/captions/en.npy: no such file.*xmcap embed --corpus"):
    taught(tiny, teacher.parent / "no")
  np.save(teacher / "pictures.npy", np.full((24, 8), np.nan, np.float32))
  with pytest.raises(UsageError, match="pictures.npy, row .* holds NaN or infinity; embed it again"):
    taught(tiny, teacher).batch(0)


@pytest.mark.parametrize("kind", ["mse", "contrastive", "lit", "lit_mse"])
def test_adapter_losses_equal_hand_computed_values(teacher, tiny, kind):
  t5 = dataclasses.replace(T5, adapter="bottleneck", adapter_dim=4)
  made = AdapterObjective(VIT, t5, DUAL, kind)
  batch = {name: value for name, value in taught(tiny, teacher).batch(0).items() if name != "key"}
  batch["target_weights"][5] = 0  # a caption that is not there
  held = drawn_params.of(made.init, batch, seed=1)
  loss, metrics = jax.jit(made.loss, static_argnums=3)(held, batch, jax.random.key(0), True)
  embed = jax.jit(functools.partial(made.module.apply, method="embed_texts"))
  text = np.asarray(embed({"params": held}, batch["target_tokens"][:, 0]))
  kept = np.arange(8) != 5
  text, of_text, of_image = text[kept], batch["teacher_text"][kept], batch["teacher_image"][kept]
  wanted = ((text - of_text) ** 2).sum(axis=1).mean() if "mse" in kind else 0.0
  if kind != "mse":
    logits = np.exp(held["logit_scale"]) * text @ (of_text if kind == "contrastive" else of_image).T
    rows, columns = (np.log(np.exp(logits).sum(axis=axis)) - np.diag(logits) for axis in (1, 0))
    wanted += (rows.mean() + columns.mean()) / 2
  np.testing.assert_allclose(loss, wanted, rtol=1e-5)
  np.testing.assert_allclose(metrics["similarity"], (text * of_text).sum(axis=1).mean(), rtol=1e-5)
  assert metrics["weight"] == 7


def test_adapter_simcse_contrasts_two_passes_with_dropout(teacher, tiny):
  """The loss of SimCSE's code (princeton-nlp/SimCSE, simcse/models.py), in torch: cosines / 0.05, cross-entropy."""
  torch = pytest.importorskip("torch")
  t5 = dataclasses.replace(T5, adapter="bottleneck", adapter_dim=4, dropout_rate=0.1)
  made = AdapterObjective(VIT, t5, DUAL, "simcse")
  batch = {name: value for name, value in taught(tiny, teacher).batch(0).items() if name != "key"}
  batch["target_weights"][5] = 0  # a caption that is not there
  alone = {name: value for name, value in batch.items() if not name.startswith("teacher")}
  params, rng = drawn_params.of(made.init, batch, seed=1), jax.random.key(4)
  loss, metrics = jax.jit(made.loss, static_argnums=3)(params, alone, rng, False)
  first, second = (
    torch.tensor(np.asarray(made.module.apply(
      {"params": params}, batch["target_tokens"][:, 0], False, method="embed_texts", rngs={"dropout": key}
    ))[np.arange(8) != 5])
    for key in (rng, jax.random.fold_in(rng, 1))
  )  # fmt: skip
  assert not torch.allclose(first, second, atol=1e-3)
  cosines = torch.nn.CosineSimilarity(dim=-1)(first[:, None], second[None])
  wanted = torch.nn.CrossEntropyLoss()(cosines / 0.05, torch.arange(7))
  np.testing.assert_allclose(loss, wanted.item(), rtol=1e-5)
  np.testing.assert_allclose(metrics["similarity"], cosines.diag().mean().item(), rtol=1e-5)
  with pytest.raises(UsageError, match="'simcse' needs dropout, by which its two passes differ"):
    AdapterObjective(VIT, dataclasses.replace(t5, dropout_rate=0.0), DUAL, "simcse")
  with pytest.raises(UsageError, match="temperature is 0"):
    AdapterObjective(VIT, t5, DUAL, "simcse", temperature=0)


def test_adapter_training_changes_the_adapter_only(run, base):
  before, after = stacking.flatten(load_params(base)), stacking.flatten(load_params(run))
  fresh = sorted(set(after) - set(before))
  assert fresh and all("adapter" in path for path in fresh)
  for path, leaf in before.items():
    np.testing.assert_array_equal(after[path], leaf, err_msg=path)
  lines = files.rows(run / "metrics.jsonl")
  losses = [line["train/loss"] for line in lines if "train/loss" in line]
  assert losses[-1] < 0.8 * losses[0]


def extracted(run, work):
  xmcap("convert", "--part=adapter", f"--input={run}", f"--out={work / 'de'}").succeeded("an adapter of ")
  return work / "de"


def embed(model_dir, out, labels, *options):
  return xmcap("embed", f"--model_dir={model_dir}", f"--labels={labels}", f"--out={out}", *options)


LABELS = {"EN": [[0, 1], ["dog", "cat"]], "DE": [[0, 1], ["Hund", "kleiner Hund"]]}


def test_adapter_is_extracted_and_applied_by_name(run, base, tmp_path):
  labels = files.json(tmp_path / "labels.json", LABELS)
  adapters = extracted(run, tmp_path / "adapters").parent

  def embedded(model_dir, name, *options):
    embed(model_dir, tmp_path / name, labels, *options).succeeded()
    return [np.load(tmp_path / name / "labels" / f"{language}.npy") for language in ("en", "de")]

  plain, whole = embedded(base, "plain"), embedded(run, "whole")
  english, german = embedded(base, "adapted", f"--adapters={adapters}")
  np.testing.assert_array_equal(english, plain[0])  # every bit: it has no adapter
  np.testing.assert_array_equal(german, whole[1])
  assert np.abs(german - plain[1]).max() > 0.01
  said = embed(base, tmp_path / "said", labels, f"--adapters={adapters}").succeeded()
  assert f"{adapters}: no adapter of en, whose texts the tower embeds alone" in said.err


def test_folder_without_an_adapter_of_the_languages_is_refused(base, tmp_path):
  labels = files.json(tmp_path / "labels.json", LABELS)
  embed(base, tmp_path / "out", labels, f"--adapters={labels}").refused("no adapter of de, en")


def test_adapter_of_another_tower_is_refused(run, base, tmp_path):
  labels = files.json(tmp_path / "labels.json", LABELS)
  adapter = extracted(run, tmp_path / "adapters")
  model = json.loads((adapter / "model.json").read_text())
  model["t5"]["adapter_dim"] = 5
  files.json(adapter / "model.json", model)
  result = embed(base, tmp_path / "out", labels, f"--adapters={adapter.parent}")
  result.refused("this adapter belongs to another tower")
  result = xmcap("convert", "--part=adapter", f"--input={base}", f"--out={tmp_path / 'none'}")
  result.refused("no adapter found")


def test_adapter_parameter_count_of_the_paper():
  """XLM-R-base's 894,528 (Geigle et al., 2024): 12 layers of width 768, reduction 16; mT5-base has the same."""
  t5 = dataclasses.replace(T5, emb_dim=768, num_encoder_layers=12, adapter="bottleneck", adapter_dim=48)
  made = AdapterObjective(VIT, t5, DUAL)
  shapes = jax.eval_shape(
    lambda: made.init(jax.random.key(0), {"target_tokens": np.ones((1, 1, 8), np.int32)})
  )
  sizes = [leaf.size for path, leaf in stacking.flatten(shapes["params"]).items() if "adapter" in path]
  assert sum(sizes) == 894_528
