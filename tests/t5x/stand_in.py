"""A stand-in for t5x, which is on no package index: what xmcap.t5x and gin/t5x use of it, and its three scripts.

  run("train|eval|infer|build", "--gin_file=FILE", ..., "--gin.NAME=VALUE", ..., "--", "train|...", ...)

reads gin files and locks gin as t5x's scripts do, once per run of those that `--` separates, and builds all objects
that the files name; `build` ends there. In place of computing, a script then traces (`jax.eval_shape`) all that t5x
calls on the model, and runs all that it calls on the data. `install` puts the stand-in in place of t5x; test_adapter.py
holds its signatures against those of t5x where that is installed.
"""

import copy
import dataclasses
import enum
import functools
import itertools
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import flax
import gin
import jax
import numpy as np
import optax
import seqio
from gin import config as gin_config

_AXES = (
  "batch", "vocab", "embed", "mlp", "heads", "kv", "joined_kv", "relpos_buckets", "abspos_buckets", "length", "layers",
  "stack", "mlp_activations",
)  # fmt: skip


class FactorDim(enum.Enum):
  """adafactor.FactorDim."""

  NONE = None
  BATCH = "batch"
  ROW = "row"
  COLUMN = "col"


@dataclasses.dataclass
class Adafactor:
  """adafactor.Adafactor."""

  logical_factor_rules: Any = None


def standard_logical_factor_rules() -> Mapping[str, FactorDim]:
  """adafactor.standard_logical_factor_rules."""
  return flax.core.freeze({**dict.fromkeys(_AXES[1:9], FactorDim.COLUMN), "layers": FactorDim.BATCH})


def standard_logical_axis_rules(
  activation_partitioning_dims: int = 1, parameter_partitioning_dims: int = 1, additional_rules: Any = None
) -> list[tuple[str, str | None]]:
  """partitioning.standard_logical_axis_rules."""
  del activation_partitioning_dims, parameter_partitioning_dims
  return [*((axis, None) for axis in _AXES), *(additional_rules or ())]


@dataclasses.dataclass
class PjitPartitioner:
  """partitioning.PjitPartitioner."""

  num_partitions: int | None = None
  logical_axis_rules: Any = None

  def __post_init__(self):
    self._num_partitions = self.num_partitions


class EncoderDecoderModel:
  """models.EncoderDecoderModel."""

  FEATURE_CONVERTER_CLS = seqio.EncDecFeatureConverter

  def __init__(
    self, module, input_vocabulary, output_vocabulary, optimizer_def, decode_fn=None, label_smoothing=0.0, z_loss=0.0,
    loss_normalizing_factor=None,
  ):  # fmt: skip
    del decode_fn, label_smoothing, z_loss, loss_normalizing_factor
    self.module = module
    self.input_vocabulary = input_vocabulary
    self.output_vocabulary = output_vocabulary
    self.optimizer_def = optimizer_def

  def loss_fn(self, params, batch, dropout_rng):
    """The mean cross entropy of the target tokens."""
    logits = self._compute_logits(params, batch, dropout_rng)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["decoder_target_tokens"])
    return (losses * batch["decoder_loss_weights"]).mean(), {}

  def score_batch(self, params, batch, return_intermediates=False):
    """The shape of a score for each row."""
    assert not return_intermediates
    return self._compute_logits(params, batch).sum((1, 2))

  def predict_batch(self, params, batch, rng=None):
    return self.predict_batch_with_aux(params=params, batch=batch, rng=rng)[0]


@dataclasses.dataclass
class DatasetConfig:
  """utils.DatasetConfig."""

  mixture_or_task_name: str
  task_feature_lengths: Mapping[str, int]
  split: str
  batch_size: int
  shuffle: bool
  seed: int | None
  use_cached: bool = False
  pack: bool = False


@dataclasses.dataclass
class SaveCheckpointConfig:
  """utils.SaveCheckpointConfig."""

  dtype: str = "float32"
  period: int | None = None
  keep: int | None = None
  save_dataset: bool = False


@dataclasses.dataclass
class RestoreCheckpointConfig:
  """utils.RestoreCheckpointConfig."""

  path: Any
  mode: str = "latest"
  dtype: str | None = None


@dataclasses.dataclass
class CheckpointConfig:
  """utils.CheckpointConfig."""

  save: SaveCheckpointConfig | None = None
  restore: RestoreCheckpointConfig | None = None


@dataclasses.dataclass
class Trainer:
  """trainer.Trainer."""

  model: Any
  train_state: Any
  partitioner: Any
  eval_names: Any
  summary_dir: str | None
  train_state_axes: Any
  rng: Any
  learning_rate_fn: Callable
  num_microbatches: int | None


def summarize_gin_config(model_dir, summary_writer, step):
  """gin_utils.summarize_gin_config."""
  del model_dir, summary_writer, step


def write_inferences_to_file(path, inferences, task_ds, mode, vocabulary=None):
  """infer.write_inferences_to_file."""
  del path, inferences, task_ds, mode, vocabulary


MODULES = {
  "adafactor": (Adafactor, FactorDim, standard_logical_factor_rules),
  "gin_utils": (summarize_gin_config,),
  "infer": (write_inferences_to_file,),
  "models": (EncoderDecoderModel,),
  "optimizers": (),
  "partitioning": (PjitPartitioner, standard_logical_axis_rules),
  "trainer": (Trainer,),
  "utils": (CheckpointConfig, DatasetConfig, RestoreCheckpointConfig, SaveCheckpointConfig),
}


def install() -> None:
  """Puts the stand-in in place of t5x, for this process."""
  package = sys.modules["t5x"] = types.ModuleType("t5x")
  for name, members in MODULES.items():
    module = sys.modules[f"t5x.{name}"] = types.ModuleType(f"t5x.{name}")
    setattr(package, name, module)
    for member in members:
      member.__module__ = module.__name__
      setattr(module, member.__name__, member)
  package.optimizers.OptimizerDefType = Any


# ---- the scripts ---------------------------------------------------------------------------------


def train(
  *, model, train_dataset_cfg, train_eval_dataset_cfg, infer_eval_dataset_cfg, checkpoint_cfg, partitioner, trainer_cls,
  model_dir, total_steps, eval_steps, eval_period, random_seed, summarize_config_fn, inference_evaluator_cls,
):  # fmt: skip
  """t5x.train: a step, the loss on a validation split, an evaluation, and what a checkpoint needs."""
  del checkpoint_cfg, eval_steps, eval_period, random_seed
  summarize_config_fn(model_dir, None, 0)
  params = _variables(model, partitioner, _batch(model, train_dataset_cfg))
  trainer = trainer_cls(
    model=model, train_state=None, partitioner=partitioner, eval_names=[], summary_dir=None, train_state_axes=None,
    rng=None,
  )  # fmt: skip
  assert float(trainer.learning_rate_fn(np.int32(total_steps - 1))) > 0
  for config, dropout in ((train_dataset_cfg, jax.random.PRNGKey(0)), (train_eval_dataset_cfg, None)):
    loss = functools.partial(model.loss_fn, batch=_batch(model, config), dropout_rng=dropout)
    (value, _), gradients = jax.eval_shape(jax.value_and_grad(loss, has_aux=True), params)
    assert value.shape == () and jax.tree.structure(gradients) == jax.tree.structure(params)
  if infer_eval_dataset_cfg:
    _evaluate(model, infer_eval_dataset_cfg, inference_evaluator_cls, params)


def evaluate(
  *, model, dataset_cfg, restore_checkpoint_cfg, partitioner, output_dir, inference_evaluator_cls
):  # fmt: skip
  """t5x.eval."""
  del restore_checkpoint_cfg, output_dir
  params = _variables(model, partitioner, _batch(model, dataset_cfg))
  _evaluate(model, dataset_cfg, inference_evaluator_cls, params)


def infer(
  *, mode, model, dataset_cfg, restore_checkpoint_cfg, partitioner, output_dir, checkpoint_period, write_fn,
  checkpoint_ds_iter, shard_id, num_shards,
):  # fmt: skip
  """t5x.infer."""
  del mode, restore_checkpoint_cfg, checkpoint_period, checkpoint_ds_iter, shard_id, num_shards
  # Two of the tasks, which differ in their language alone.
  for task in seqio.get_subtasks(seqio.get_mixture_or_task(dataset_cfg.mixture_or_task_name))[:2]:
    _variables(
      model, partitioner, _batch(model, dataclasses.replace(dataset_cfg, mixture_or_task_name=task.name))
    )
    examples = task.get_dataset(dataset_cfg.task_feature_lengths, dataset_cfg.split, shuffle=False)
    tokens = np.ones((sum(1 for _ in examples), 2), np.int32)
    aux = {"scores": np.zeros(len(tokens))}
    for mode, found in (
      ("predict", (tokens, aux)),
      ("predict_with_aux", (tokens, aux)),
      ("score", aux["scores"]),
    ):
      write_fn(f"{output_dir}/{task.name}-{mode}.jsonl", found, examples, mode, model.output_vocabulary)


def _batch(model, config: DatasetConfig) -> dict[str, np.ndarray]:
  """The first batch of a dataset, as utils.get_dataset gives it; after utils.verify_matching_vocabs."""
  provider = seqio.get_mixture_or_task(config.mixture_or_task_name)
  features = provider.output_features
  assert features["inputs"].vocabulary == model.input_vocabulary
  assert features["targets"].vocabulary == model.output_vocabulary
  converter = model.FEATURE_CONVERTER_CLS(pack=config.pack, use_custom_packing_ops=False)
  dataset = seqio.get_dataset(
    config.mixture_or_task_name, config.task_feature_lengths, feature_converter=converter, dataset_split=config.split,
    shuffle=config.shuffle, seed=config.seed, shard_info=seqio.ShardInfo(0, 1), num_epochs=None,
  )  # fmt: skip
  lengths = converter.get_model_feature_lengths(config.task_feature_lengths)
  batch = next(dataset.batch(2).as_numpy_iterator())
  assert {name: batch[name].shape[1] for name in lengths} == lengths
  return batch


def _variables(model, partitioner, batch) -> Any:
  """The shapes of the parameters; each of their axes has rules for the mesh and for Adafactor."""
  shapes = {name: array.shape for name, array in batch.items()}
  kinds = {name: array.dtype for name, array in batch.items()}
  init = functools.partial(model.get_initial_variables, input_shapes=shapes, input_types=kinds)
  variables = jax.eval_shape(init, jax.random.PRNGKey(0))
  names = flax.linen.partitioning.get_axis_names(variables["params_axes"])
  axes = {
    axis for leaf in jax.tree.leaves(names, is_leaf=lambda leaf: isinstance(leaf, tuple)) for axis in leaf
  }
  assert axes - {None} <= {axis for axis, _ in partitioner.logical_axis_rules}
  assert axes <= set(model.optimizer_def.logical_factor_rules)
  assert partitioner.mesh.shape["model"] == (partitioner.num_partitions or 1)
  return variables["params"]


def _evaluate(model, config: DatasetConfig, evaluator_cls, params) -> None:
  """eval.InferenceEvaluator: predicts for all tasks of a mixture, and computes their metrics."""
  evaluator = evaluator_cls(
    mixture_or_task_name=config.mixture_or_task_name, feature_converter=model.FEATURE_CONVERTER_CLS(pack=False),
    eval_split=config.split, use_cached=config.use_cached, seed=config.seed,
    sequence_length=config.task_feature_lengths, logger_cls=(),
  )  # fmt: skip
  batch = _batch(model, config)
  for step in (model.predict_batch, model.predict_batch_with_aux):
    found = jax.eval_shape(step, params, batch, jax.random.PRNGKey(0))
    assert jax.tree.leaves(found)[0].shape == batch["decoder_target_tokens"].shape
  assert jax.eval_shape(model.score_batch, params, batch).shape == (len(batch["encoder_image"]),)
  metrics, _ = evaluator.evaluate(
    compute_metrics=True, step=0,
    predict_fn=lambda dataset: [(row, [1]) for row, _ in enumerate(dataset)],
    score_fn=None,
  )  # fmt: skip
  for task, scores in metrics.result().items():
    assert scores["cider"] == 0.0, task


SCRIPTS = {"train": train, "eval": evaluate, "infer": infer}


def main(script: str, *arguments: str) -> None:
  """Does what a script of t5x does: it locks gin before anything is built."""
  from xmcap import gin_files

  gin.clear_config()
  files, bindings = [], []
  for argument in arguments:
    if argument.startswith("--gin_file="):
      files.append(argument.removeprefix("--gin_file="))
    else:
      bindings.append(argument.removeprefix("--gin."))
  gin.add_config_file_search_path(str(gin_files.gin_folder()))
  gin.parse_config_files_and_bindings(files, bindings)
  copy.deepcopy(list(gin_config._CONFIG.values()))  # builds every object that a binding names
  if script in SCRIPTS:
    gin.get_configurable(script)()


def run(*words: str) -> None:
  """Does what the words say, in a process of its own: gin keeps the scripts, and Python the stand-in."""
  install()
  for name, function in SCRIPTS.items():
    gin.configurable(name, module="__main__")(function)
    function.__module__ = "__main__"
    setattr(sys.modules["__main__"], function.__name__, function)  # as in a script: the gin files import it
  for ends, arguments in itertools.groupby(words, "--".__eq__):
    if not ends:
      main(*arguments)
