"""The t5x adapter within one process, against xmcap's stream, objective, generator and weights."""

import importlib
import inspect
import json

import numpy as np
import pytest

pytest.importorskip("t5x", reason="t5x is not installed: docs/t5x.md says how")

import flax
import jax
import seqio
from t5x import adafactor, checkpoints, utils

from tests.t5x import corpus, stand_in
from xmcap.data import registry
from xmcap.data.stream import CaptionStream
from xmcap.errors import UsageError
from xmcap.evaluation import predictor
from xmcap.models.decoding.beam_search import Beam
from xmcap.models.decoding.generator import Generator
from xmcap.models.decoding.search import Sample
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.t5x import adapter as t5x_adapter
from xmcap.t5x import checkpoints as t5x_checkpoints
from xmcap.training.checkpoints import start, weights
from xmcap.training.checkpoints.read import flat, load_params
from xmcap.training.objectives import CaptionObjective

LENGTHS = {"image": 32, "inputs": 4, "targets": 16}


@pytest.fixture(scope="module")
def fresh():
  """Keeps the parameters of the first test that asks: each would compile the same initialisation."""
  return {}


@pytest.fixture
def params(fresh, batch):
  if not fresh:
    fresh["params"] = _variables(_model(), batch)["params"]
  return fresh["params"]


@pytest.fixture
def stream(configured):
  return CaptionStream(batch_size=16, prompt_length=4)


@pytest.fixture
def batch(stream):
  return corpus.from_stream(stream.batch(0))


def _optimizer():
  return adafactor.Adafactor(logical_factor_rules=t5x_adapter.factor_rules())


def _model(**options):
  return t5x_adapter.CaptionerModel(t5x_adapter.captioner(), "three", _optimizer(), **options)


def _variables(model, batch):
  shapes = {name: array.shape for name, array in batch.items()}
  types = {name: array.dtype for name, array in batch.items()}
  return jax.jit(lambda key: model.get_initial_variables(key, shapes, types))(jax.random.PRNGKey(0))


def test_caption_feature_converter_equals_caption_stream(configured):
  stream = CaptionStream(mixture="three_en", batch_size=16, prompt_length=4)
  drawn = corpus.from_stream(stream.batch(0))
  dataset = seqio.get_mixture_or_task("three_en").get_dataset(LENGTHS, "train", shuffle=False)
  converted = t5x_adapter.CaptionFeatureConverter()(dataset, LENGTHS)
  by_targets = {tuple(row["decoder_target_tokens"]): row for row in converted.as_numpy_iterator()}
  for row in range(16):
    same = by_targets[tuple(drawn["decoder_target_tokens"][row])]
    assert set(same) == set(drawn)
    for name, value in same.items():
      assert value.dtype == drawn[name].dtype
      np.testing.assert_array_equal(value, drawn[name][row])


def test_packing_is_refused():
  with pytest.raises(UsageError, match="DatasetConfig.pack is True"):
    t5x_adapter.CaptionFeatureConverter(pack=True)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_t5x_model_loss_equals_caption_objective(stream, batch, params, smoothing):
  model = _model(label_smoothing=smoothing)
  loss = jax.jit(lambda params: model.eval_fn(params, batch)[0])(params)
  objective = CaptionObjective(ViTConfig(), T5Config(), label_smoothing=smoothing)
  numbers = {name: array for name, array in stream.batch(0).items() if name != "key"}
  expected = jax.jit(lambda params: objective.loss(params, numbers, jax.random.key(0), True)[0])(
    flax.core.unfreeze(params)
  )
  np.testing.assert_allclose(loss, expected, rtol=1e-6)


def test_dropout_is_on_in_training_alone(batch, params):
  import gin

  with gin.unlock_config():
    gin.bind_parameter("T5Config.dropout_rate", 0.3)
  model = _model()
  loss = jax.jit(lambda params, rng: model.loss_fn(params, batch, rng)[0])
  still = [float(loss(params, None)) for _ in range(2)]
  moved = [float(loss(params, jax.random.PRNGKey(seed))) for seed in (0, 1)]
  assert still[0] == still[1]
  assert len({still[0], *moved}) == 3


def test_t5x_model_initial_params_equal_xmcap(stream, params):
  objective = CaptionObjective(ViTConfig(), T5Config())
  numbers = {name: array for name, array in stream.batch(0).items() if name != "key"}
  expected = jax.jit(lambda key: objective.init(key, numbers)["params"])(jax.random.key(0))
  jax.tree.map(np.testing.assert_array_equal, flax.core.unfreeze(params), expected)


@pytest.mark.parametrize("search", [Beam(beams=3), Sample(top_k=5)], ids=["beam", "sample"])
def test_t5x_predict_batch_equals_generator(stream, batch, params, search):
  model = _model(search=search)
  # t5x's keys are bare numbers.
  tokens, aux = jax.jit(model.predict_batch_with_aux)(params, batch, jax.random.PRNGKey(3))
  drawn = stream.batch(0)
  expected, scores = Generator(t5x_adapter.captioner(), search, 16)(
    flax.core.unfreeze(params), drawn["image"], drawn["prompt_tokens"], jax.random.key(3)
  )
  np.testing.assert_array_equal(tokens, expected[:, 0])
  np.testing.assert_allclose(aux["scores"], scores[:, 0], rtol=1e-5)


def test_options_of_another_decoding_are_refused(batch):
  model = _model()
  with pytest.raises(UsageError, match="with its `search`"):
    model.predict_batch_with_aux({}, batch, num_decodes=4)


@pytest.mark.parametrize("scan", [False, True])
def test_every_logical_axis_has_t5x_rules(configured, batch, scan):
  import gin

  with gin.unlock_config():
    gin.bind_parameter("T5Config.scan", scan)
    gin.bind_parameter("ViTConfig.scan", scan)
  axes = flax.linen.partitioning.get_axis_names(
    jax.eval_shape(lambda: _variables(_model(), batch))["params_axes"]
  )
  named = {
    axis for names in jax.tree.leaves(axes, is_leaf=lambda leaf: isinstance(leaf, tuple)) for axis in names
  }
  assert {"vocab", "head_vocab", "layers", "channel", "image_embed"} <= named
  assert named <= set(t5x_adapter.factor_rules())
  assert named - {None} <= {axis for axis, _ in t5x_adapter.logical_axis_rules()}


def test_the_kernel_of_the_patches_keeps_whole_moments(batch):
  state = _initializer(_model(), batch)[0].global_train_state_shape
  kernel = state.params["vit"]["patch_embedding"]["kernel"]
  assert state.param_states["vit"]["patch_embedding"]["kernel"].v.shape == kernel.shape


def test_a_cpu_mesh_has_the_partitions_asked_for():
  count = jax.device_count()
  assert dict(t5x_adapter.Partitioner(num_partitions=count).mesh.shape) == {"data": 1, "model": count}
  with pytest.raises(UsageError, match="does not divide"):
    _ = t5x_adapter.Partitioner(num_partitions=count + 1).mesh


def test_learning_rate_function_equals_the_schedule(configured):
  schedule = lambda step, total: 0.5 * total + step  # noqa: E731
  assert t5x_adapter.learning_rate(10, schedule)(3) == 8.0
  assert t5x_adapter.learning_rate(10)(3) == pytest.approx(1e-3)


def test_evaluation_mixture_has_each_image_once_with_references(configured):
  name = t5x_adapter.evaluation_mixture("three")
  assert t5x_adapter.evaluation_mixture("three") == name
  task = seqio.get_mixture_or_task(f"{name}_en")
  rows = list(task.get_dataset(LENGTHS, "validation", shuffle=False).as_numpy_iterator())
  assert [row["key"].decode() for row in rows] == [f"{index:012d}" for index in range(16, 22)]
  assert json.loads(rows[0]["references"]) == ["English 16 0", "English 16 1"]
  assert rows[0]["image"].shape == (32, 32, 3)


def test_a_language_without_captions_gives_no_pictures(configured):
  indices = seqio.get_mixture_or_task("three_en").source.get_dataset("validation", shuffle=False)
  part = registry.CorpusPart(corpus.CORPUS, {"fr": 1.0})
  assert not list(t5x_adapter._read_pictures(indices, LENGTHS, part, "fr"))


def test_caption_metrics_of_captions():
  targets = [("a", "en", ["a red dog on a hill"]), ("b", "en", ["two cats in a green tree"])]
  assert t5x_adapter.caption_metrics(targets, [texts[0] for _, _, texts in targets])["cider"] > 0.9
  assert t5x_adapter.caption_metrics(targets, ["blue", "sea"]) == {"cider": 0.0, "cider_d": 0.0}


# ---- checkpoints ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(corpus_dir, tmp_path_factory):
  """A run of xmcap of one step, with its configuration."""
  from tests.make import small_corpus
  from xmcap import cli

  folder = tmp_path_factory.mktemp("run")
  arguments = [
    "--allow_import",
    "--gin_file=models/tiny.gin", f"--gin_file={corpus_dir / 'three.gin'}", "--gin_file=runs/train.gin",
    f"--gin.MODEL_DIR={folder}", "--gin.TOTAL_STEPS=1", "--gin.BATCH_SIZE=16", "--gin.EVALUATORS=[]",
  ]  # fmt: skip
  assert cli.main(["train", *arguments, *small_corpus.SMALLER]) in (0, None)
  return folder


def _same(folder, run):
  given, wanted = weights.open_weights(folder).tensors, weights.open_weights(run).tensors
  assert set(given) == set(wanted)
  for name, tensor in wanted.items():
    np.testing.assert_array_equal(given[name].read(), tensor.read())


def test_to_t5x_and_from_t5x_round_trip(run, tmp_path):
  checkpoint = t5x_checkpoints.to_t5x(str(run), str(tmp_path / "t5x"), say=lambda line: None)
  back = t5x_checkpoints.from_t5x(str(tmp_path / "t5x"), str(tmp_path / "back"), say=lambda line: None)
  assert checkpoint.name == "checkpoint_0"
  _same(back, run)


def _initializer(model, batch):
  partitioner = t5x_adapter.Partitioner(num_partitions=1, logical_axis_rules=t5x_adapter.logical_axis_rules())
  shapes = {name: array.shape for name, array in batch.items()}
  initializer = utils.TrainStateInitializer(
    model.optimizer_def,
    model.get_initial_variables,
    shapes,
    partitioner,
    input_types={"encoder_image": np.uint8},
  )
  return initializer, partitioner


def test_t5x_restores_a_checkpoint_of_to_t5x(run, configured, batch, tmp_path):
  checkpoint = t5x_checkpoints.to_t5x(str(run), str(tmp_path / "t5x"), say=lambda line: None)
  initializer, partitioner = _initializer(_model(), batch)
  state = _restored(initializer, partitioner, checkpoint)
  assert int(state.step) == 0
  _same_tree(state.params, run)


def _restored(initializer, partitioner, checkpoint):
  manager = checkpoints.OrbaxCheckpointManagerInterface(
    str(checkpoint.parent), initializer.global_train_state_shape, partitioner
  )
  return manager.restore(path=str(checkpoint))


def _same_tree(params, run):
  for name, tensor in weights.open_weights(run).tensors.items():
    leaf = flax.core.unfreeze(params)
    for key in name.split("/"):
      leaf = leaf[key]
    np.testing.assert_array_equal(leaf, tensor.read())


def test_from_t5x_reads_a_legacy_checkpoint(run, configured, batch, tmp_path):
  checkpoint = t5x_checkpoints.to_t5x(str(run), str(tmp_path / "t5x"), say=lambda line: None)
  initializer, partitioner = _initializer(_model(), batch)
  state = _restored(initializer, partitioner, checkpoint)
  checkpoints.Checkpointer(initializer.global_train_state_shape, partitioner, str(tmp_path / "old")).save(
    state
  )
  assert (tmp_path / "old" / "checkpoint_0" / "checkpoint").is_file()
  _same(t5x_checkpoints.from_t5x(str(tmp_path / "old"), str(tmp_path / "in"), say=lambda line: None), run)


def test_a_run_can_start_from_a_checkpoint_of_t5x(run, configured, tmp_path):
  t5x_checkpoints.to_t5x(str(run), str(tmp_path / "t5x"), say=lambda line: None)
  folder = t5x_checkpoints.from_t5x(str(tmp_path / "t5x"), str(tmp_path / "in"), say=lambda line: None)
  shapes = t5x_checkpoints.variable_shapes(ViTConfig(), T5Config())["params"]
  # What `train.pretrained` takes of the folder.
  parts, line = start.pretrained_parts(shapes, str(folder))
  assert set(parts) == set(flat(shapes)) and "fresh" not in line


def test_t5x_checkpoints_refuse_folders_without_a_captioner(run, tmp_path, capsys):
  assert t5x_checkpoints.main(["from_t5x", f"--input={run}", f"--out={tmp_path / 'x'}"]) == 2
  assert "no t5x checkpoint found" in capsys.readouterr().err
  assert t5x_checkpoints.main(["to_t5x", f"--input={tmp_path}", f"--out={tmp_path / 'y'}"]) == 2
  assert "not a model folder" in capsys.readouterr().err


def test_written_inferences_equal_predictor(run, configured, tmp_path):
  params = load_params(run)
  task = seqio.get_mixture_or_task(f"{t5x_adapter.evaluation_mixture('three')}_th")
  dataset = task.get_dataset(LENGTHS, "validation", shuffle=False)
  rows = t5x_adapter.CaptionFeatureConverter()(dataset, LENGTHS).batch(6)
  batch = next(rows.as_numpy_iterator())
  tokens, aux = _model().predict_batch_with_aux(params, batch)
  file = tmp_path / "out.jsonl"
  vocabulary = task.output_features["targets"].vocabulary
  t5x_adapter.write_captions(str(file), (np.asarray(tokens), aux), dataset, "predict_with_aux", vocabulary)
  written = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
  pictures = {row["key"].decode(): row["image"] for row in dataset.as_numpy_iterator()}
  predict = predictor.Predictor("three", max_length=16)
  expected = dict(predict(params, list(pictures), pictures.__getitem__, ["th"]))
  assert {row["image/key"]: {row["language"]: row["caption"]} for row in written} == expected
  assert isinstance(written[0]["score"], float)


def test_from_t5x_refuses_a_t5_without_vit(tmp_path):
  import orbax.checkpoint as ocp

  tree = {"target": {"token_embedder": {"embedding": np.zeros((4, 2), np.float32)}}}
  ocp.PyTreeCheckpointer().save(tmp_path / "checkpoint_5" / "state", tree)
  with pytest.raises(UsageError, match="not a captioner, as it has no vit"):
    t5x_checkpoints.from_t5x(str(tmp_path / "checkpoint_5"), str(tmp_path / "in"))


def test_from_t5x_does_not_overwrite_a_folder(tmp_path):
  (tmp_path / weights.PARAMS).touch()
  with pytest.raises(UsageError, match="is there already"):
    t5x_checkpoints.from_t5x(str(tmp_path), str(tmp_path))


# ---- the stand-in of test_stand_in.py ------------------------------------------------------------


def _parameters(function):
  return set(inspect.signature(function).parameters)


@pytest.mark.parametrize("module", stand_in.MODULES)
def test_the_stand_in_has_the_signatures_of_t5x(module):
  theirs = importlib.import_module(f"t5x.{module}")
  for ours in stand_in.MODULES[module]:
    assert _parameters(ours) <= _parameters(getattr(theirs, ours.__name__)), ours


@pytest.mark.parametrize("script", stand_in.SCRIPTS)
def test_the_scripts_of_the_stand_in_have_the_arguments_of_t5x(script):
  ours = stand_in.SCRIPTS[script]
  assert _parameters(ours) <= _parameters(getattr(importlib.import_module(f"t5x.{script}"), ours.__name__))
