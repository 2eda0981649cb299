"""The captioner as a t5x model, for `t5x.train`, `t5x.eval` and `t5x.infer` with the files in `gin/t5x`.

A t5x example has one caption (K = 1). Nothing outside xmcap.t5x needs t5x; docs/t5x.md says how to install it.
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Before all that takes seconds to import.
try:
  from t5x import adafactor, infer, models, optimizers, partitioning
except ModuleNotFoundError as error:
  raise ModuleNotFoundError(
    f"xmcap.t5x.adapter needs t5x, and {error.name} is not installed: see docs/t5x.md", name=error.name
  ) from None

import flax
import jax
import jax.numpy as jnp
import numpy as np
import seqio
import tensorflow as tf

from xmcap.data import images, registry, seqio_tasks
from xmcap.data.vocabulary import EOS_ID
from xmcap.errors import UsageError
from xmcap.models.captioner import Captioner
from xmcap.models.decoding.generator import Generator
from xmcap.models.decoding.search import Greedy, Search
from xmcap.models.parts import bound_image_config
from xmcap.models.t5 import T5Config
from xmcap.scoring.score import score
from xmcap.training.schedule import ConstantThenRsqrt

Batch = Mapping[str, jax.Array]
_GREEDY = Greedy()


def captioner() -> Captioner:
  """Returns the captioner that `ViTConfig` and `T5Config` configure in gin."""
  return Captioner(bound_image_config()(), T5Config())


_IMAGE = seqio.FeatureConverter.FeatureSpec(dtype=tf.uint8, rank=3)


class CaptionFeatureConverter(seqio.EncDecFeatureConverter):
  """seqio's encoder-decoder converter with an image, `encoder_image` uint8 [H, W, 3]; packing is not supported."""

  TASK_FEATURES = {**seqio.EncDecFeatureConverter.TASK_FEATURES, "image": _IMAGE}
  MODEL_FEATURES = {**seqio.EncDecFeatureConverter.MODEL_FEATURES, "encoder_image": _IMAGE}

  def __init__(self, pack: bool = False, **arguments: Any):
    if pack:
      raise UsageError(
        "DatasetConfig.pack is True: captions of several pictures cannot share a row: set it to False"
      )
    super().__init__(pack=False, **arguments)

  def _convert_example(self, features: Mapping[str, tf.Tensor]) -> Mapping[str, tf.Tensor]:
    return {**super()._convert_example(features), "encoder_image": features["image"]}

  def get_model_feature_lengths(self, task_feature_lengths: Mapping[str, int]) -> Mapping[str, int]:
    lengths = super().get_model_feature_lengths(task_feature_lengths)
    return {**lengths, "encoder_image": task_feature_lengths["image"]}


class CaptionerModel(models.EncoderDecoderModel):
  """xmcap's captioner with the interface of t5x's models; the loss is t5x's.

  Args:
    module: see `captioner`.
    mixture: mixture of a corpus, whose vocabulary is used.
    optimizer_def: such as `t5x.adafactor.Adafactor` with `factor_rules`.
    search: a search of xmcap, for `t5x.eval` and `t5x.infer`.
    label_smoothing, z_loss: as in `CaptionObjective`.
    loss_normalizing_factor: as in t5x; the default makes the loss a mean over tokens, as in xmcap.
  """

  FEATURE_CONVERTER_CLS = CaptionFeatureConverter

  def __init__(
    self,
    module: Captioner,
    mixture: str,
    optimizer_def: optimizers.OptimizerDefType,
    search: Search = _GREEDY,
    label_smoothing: float = 0.0,
    z_loss: float = 1e-4,
    loss_normalizing_factor: float | str | None = "NUM_REAL_TARGET_TOKENS",
  ):
    vocabulary = seqio_tasks.CorpusVocabulary(registry.registration(mixture).parts[0].corpus)
    super().__init__(
      module, vocabulary, vocabulary, optimizer_def, label_smoothing=label_smoothing, z_loss=z_loss,
      loss_normalizing_factor=loss_normalizing_factor,
    )  # fmt: skip
    self._search = search

  def get_initial_variables(
    self, rng: jax.Array, input_shapes: Mapping[str, Any], input_types: Mapping[str, Any] | None = None
  ) -> Any:
    """Fresh `params` and `params_axes`, with the same values as in xmcap for the same key."""
    batch = {
      name: jnp.ones(shape, (input_types or {}).get(name, jnp.int32)) for name, shape in input_shapes.items()
    }
    return flax.core.freeze(self.module.init(rng, *_inputs(batch)))

  def _compute_logits(
    self,
    params: Any,
    batch: Batch,
    dropout_rng: jax.Array | None = None,
    mutable: Any = False,
    other_variables: Any = None,
  ) -> Any:
    rngs = None if dropout_rng is None else {"dropout": dropout_rng}
    variables = {"params": params, **(other_variables or {})}
    result = self.module.apply(variables, *_inputs(batch), dropout_rng is None, rngs=rngs, mutable=mutable)
    logits, *rest = result if isinstance(result, tuple) else (result,)
    return (logits[:, 0], *rest) if rest else logits[:, 0]

  def predict_batch_with_aux(
    self,
    params: Any,
    batch: Batch,
    rng: jax.Array | None = None,
    decoder_params: Mapping[str, Any] | None = None,
    return_all_decodes: bool = False,
    num_decodes: int = 1,
    prompt_with_targets: bool = False,
  ) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Captions a batch with xmcap's `Generator`, up to the length of its targets.

    Returns:
      Tokens int32 [B, T], and `scores` float32 [B].

    Raises:
      UsageError: options of t5x's own decoding are set; configure `CaptionerModel.search` instead.
    """
    if decoder_params or return_all_decodes or num_decodes != 1 or prompt_with_targets:
      raise UsageError(
        "CaptionerModel decodes with its `search`: bind that instead of t5x's decoding options"
      )
    image, prompts, _ = _inputs(batch)
    if rng is not None and not jnp.issubdtype(rng.dtype, jax.dtypes.prng_key):
      rng = jax.random.wrap_key_data(rng)  # t5x's keys are untyped arrays
    generator = Generator(self.module, self._search, max_length=batch["decoder_input_tokens"].shape[1])
    tokens, scores = generator(flax.core.unfreeze(params), image, prompts, rng)
    return tokens[:, 0], {"scores": scores[:, 0]}


def _inputs(batch: Batch) -> tuple[jax.Array, jax.Array, jax.Array]:
  """A captioner's arguments: image [B, H, W, 3], prompts [B, 1, P], targets [B, 1, T]."""
  tokens = (batch[name][:, None] for name in ("encoder_input_tokens", "decoder_target_tokens"))
  return (batch["encoder_image"], *tokens)


def learning_rate(
  total_steps: int, schedule: Callable[[Any, int], jax.Array] | None = None
) -> Callable[[jax.Array], jax.Array]:
  """A schedule of xmcap (by default `ConstantThenRsqrt` as configured in gin) as t5x's `learning_rate_fn`."""
  schedule = schedule or ConstantThenRsqrt()
  return lambda step: schedule(step, total_steps)


# Axes that t5x does not know.
_UNCUT_AXES = ("image_embed", "position", "height", "width", "channel", "classes")
# Names that the captioner has for the logits and their kernel alone, and t5x's for the same.
_OF_HEAD = {"logits": "vocab", "head_vocab": "vocab", "head_embed": "embed"}


def logical_axis_rules(
  activation_partitioning_dims: int = 1, parameter_partitioning_dims: int = 1
) -> list[tuple[str, str | None]]:
  """t5x's rules, and one for each additional axis of the captioner."""
  dims = (activation_partitioning_dims, parameter_partitioning_dims)
  rules = partitioning.standard_logical_axis_rules(*dims, [(axis, None) for axis in _UNCUT_AXES])
  return [*rules, *((own, names) for own, same in _OF_HEAD.items() for axis, names in rules if axis == same)]


def factor_rules() -> Mapping[str | None, Any]:
  """t5x's rules for Adafactor, and one for each additional axis of the captioner.

  They apply to parameters of more than two dimensions. With these rules the second moments of the patch kernel are not
  factored, as in optax.
  """
  rules = adafactor.standard_logical_factor_rules()
  uncut = dict.fromkeys((None, *_UNCUT_AXES), adafactor.FactorDim.NONE)
  return flax.core.freeze({**rules, **uncut, **{own: rules[same] for own, same in _OF_HEAD.items()}})


class Partitioner(partitioning.PjitPartitioner):
  """t5x's partitioner, with `num_partitions` also for simulated CPU devices."""

  @functools.cached_property
  def mesh(self) -> jax.sharding.Mesh:
    devices = jax.devices()
    if devices[0].platform != "cpu":
      return super().mesh
    model = self._num_partitions or 1
    if len(devices) % model:
      raise UsageError(
        f"Partitioner.num_partitions is {model}: it does not divide the {len(devices)} available devices"
      )
    return jax.sharding.Mesh(np.array(devices).reshape(-1, model), ("data", "model"))


def evaluation_mixture(mixture: str) -> str:
  """Registers MIXTURE_evaluation, for `t5x.eval` and `t5x.infer`, and returns its name.

  Its tasks, one per language (and corpus, of several), hold each image once with all its references, while the
  mixture itself holds it once per caption. They are scored by CIDEr.
  """
  name = f"{mixture}_evaluation"
  if name in seqio.MixtureRegistry.names():
    return name
  registered = registry.registration(mixture)
  provider, added = seqio.get_mixture_or_task(mixture), []
  for of_part, part in registered.named.items():
    for language in part.rates:
      task = f"{name}_{language}" if len(registered.parts) == 1 else f"{name}_{of_part}_{language}"
      seqio.TaskRegistry.add(
        task,
        source=seqio_tasks.RecordDataSource(part, language),
        preprocessors=[functools.partial(_read_pictures, part=part, language=language)],
        output_features=provider.output_features,
        postprocess_fn=_postprocess,
        metric_fns=[caption_metrics],
        shuffle_buffer_size=None,
      )
      added.append((task, 1.0))
  seqio.MixtureRegistry.add(name, added)
  return name


def _read_pictures(
  dataset: tf.data.Dataset, sequence_length: Mapping[str, int], part: registry.CorpusPart, language: str
) -> tf.data.Dataset:
  """Maps record indices to examples of the images with captions in the language; the target is the first caption."""
  size, vocabulary = sequence_length["image"], part.corpus.vocabulary()
  prompt = tf.constant(vocabulary.prompt(language), tf.int32)

  def read(index: np.ndarray, split: bytes):
    (record,) = part.source(split.decode()).read([int(index)])
    texts = seqio_tasks.texts_of(record, part, language)
    if not texts:
      return np.zeros((size, size, 3), np.uint8), np.zeros(0, np.int32), b"", b""
    ids = np.array([*vocabulary.encode(texts[0]), EOS_ID], np.int32)
    return images.load(record.image, record.key, size), ids, record.key.encode(), json.dumps(texts).encode()

  def example(item):
    image, targets, key, references = tf.numpy_function(
      read, (item["index"], item["split"]), (tf.uint8, tf.int32, tf.string, tf.string)
    )
    return {
      "image": tf.ensure_shape(image, (size, size, 3)), "inputs": prompt,
      "targets": tf.ensure_shape(targets, (None,)), "key": tf.ensure_shape(key, ()),
      "language": tf.constant(language), "references": tf.ensure_shape(references, ()),
    }  # fmt: skip

  examples = dataset.map(example, num_parallel_calls=tf.data.AUTOTUNE)
  return examples.filter(lambda item: tf.strings.length(item["references"]) > 0)


def _postprocess(output: Any, example: Mapping[str, Any], is_target: bool = False) -> Any:
  if not is_target:
    return output
  return _text(example["key"]), _text(example["language"]), json.loads(_text(example["references"]))


def caption_metrics(
  targets: Sequence[tuple[str, str, list[str]]], predictions: Sequence[str]
) -> dict[str, float]:
  """CIDEr and CIDEr-D of one language's captions, as in `xmcap score`.

  Args:
    targets: (image key, language, references) of each image.
    predictions: one caption per image.
  """
  references = {key: {language: texts} for key, language, texts in targets}
  captions = {key: {language: text} for (key, language, _), text in zip(targets, predictions, strict=True)}
  table = score(references, captions).table
  return {name: float(table.rows[targets[0][1]][name]) for name in table.metrics}


def write_captions(
  path: str, inferences: Any, task_ds: tf.data.Dataset, mode: str, vocabulary: seqio.Vocabulary | None = None
) -> None:
  """`write_fn` of `t5x.infer`: writes predictions for `xmcap score`, in mode `predict_with_aux` with their scores.

  In mode `score` it writes the same as t5x.
  """
  if mode == "score":
    return infer.write_inferences_to_file(path, inferences, task_ds, mode, vocabulary)
  tokens, aux = inferences
  with tf.io.gfile.GFile(path, "w") as file:
    for row, item in enumerate(task_ds.as_numpy_iterator()):
      caption = vocabulary.decode([int(token) for token in tokens[row]])
      line = {"image/key": _text(item["key"]), "language": _text(item["language"]), "caption": caption}
      if mode == "predict_with_aux":
        line["score"] = float(aux["scores"][row])
      file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _text(value: Any) -> str:
  value = value.item() if isinstance(value, np.ndarray) else value
  return value.decode() if isinstance(value, bytes) else value
