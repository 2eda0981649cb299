"""Captions images in the requested languages."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gin
import jax
import jax.numpy as jnp
import numpy as np

from xmcap import configuration, processes
from xmcap.data import features as features_lib
from xmcap.data import registry
from xmcap.data.tag_prompts import TagPrompts, Tags
from xmcap.data.vocabulary import Vocabulary, check_rows
from xmcap.data.workers import Job, prefetch
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.evaluation import sharded_params
from xmcap.models.captioner import Captioner, variable_shapes
from xmcap.models.decoding.generator import Generator
from xmcap.models.decoding.search import Greedy
from xmcap.models.parts import (
  bound_image_config,
  bound_language_model,
  check_stored,
  input_shape,
  reads_stored,
)
from xmcap.models.t5 import PAD_ID
from xmcap.models.targets import Stabilizing
from xmcap.training import sharding
from xmcap.training.checkpoints.read import check_same, flat
from xmcap.training.hosts import stopping

_GREEDY = Greedy()


@gin.configurable
class Predictor:
  """Captions images; each is encoded once for all languages. The model is that of gin's `ViTConfig` and `T5Config`.

  Args:
    mixture: name of the seqio mixture whose vocabulary the model was trained with.
    search: `Greedy()`, `Beam(...)` or `Sample(...)`.
    max_length: the largest number of tokens in a caption, counting EOS.
    batch_size: images per batch, each in all languages; rounded up to a multiple of the devices that share a batch.
    cache_dtype: dtype of the cached keys and values; see `Generator`.
    vocabulary: the file of the vocabulary; "": the mixture's.
    prompt_tags: the tags that follow the LangId in the prompts; None: none.
    prompt_length: the largest number of tokens in a prompt with tags, in a model folder that of training; 0: any.
    stabilizer: as in training; None: the model writes captions alone. `max_length` counts stabilizer and caption.
    features: file or folder of stored vectors by the keys of the images, which then are not read; "": pixels.

  Raises:
    UsageError: a value is out of range, there is neither mixture nor vocabulary, the vocabulary does not fit the model,
      or no captioner is configured.
  """

  def __init__(
    self, mixture: str = "", search: Any = _GREEDY, max_length: int = 64, batch_size: int = 32,
    cache_dtype: str = "auto", vocabulary: str = "", prompt_tags: TagPrompts | None = None, prompt_length: int = 0,
    stabilizer: Stabilizing | None = None, features: str = "",
  ):  # fmt: skip
    if batch_size < 1:
      raise UsageError(f"Predictor.batch_size is {batch_size}: it must be at least 1")
    if not (mixture or vocabulary):
      raise UsageError("Predictor has neither mixture nor vocabulary: set one of them")
    self.captioner = _captioner()
    if reads_stored(self.captioner.vit) and not features:
      raise UsageError(
        "Predictor.features is empty, and the model reads no pixels: give the stored vectors (FEATURES)"
      )
    if vocabulary:
      self.vocabulary = Vocabulary(vocabulary)
      check_rows(self.vocabulary, self.captioner.t5.vocab_size)
    else:
      self.vocabulary = registry.registration(mixture).vocabulary()
    self.batch_size = batch_size
    self.prompt_tags = prompt_tags
    self.prompt_length = prompt_length
    self.features = features
    # (key, language) -> mean token probability of its caption; only with greedy search.
    self.probabilities: dict[tuple[str, str], float] = {}
    # key -> language -> stabilizer of its caption.
    self.stabilizers: dict[str, dict[str, str]] = {}
    self._is_greedy = isinstance(search, Greedy)
    marks = self.vocabulary.marks(stabilizer)
    self.generator = Generator(self.captioner, search, max_length, cache_dtype, marks)

  @property
  def image_size(self) -> int:
    """Side of the images that the model sees, in pixels."""
    return self.captioner.vit.image_size

  def __call__(
    self,
    params: Any,
    keys: Sequence[str],
    load: Callable[[str], np.ndarray],
    languages: Sequence[str],
    numbers: Sequence[int] | None = None,
    own_tags: Tags | None = None,
  ) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields (key, {language: caption}) for each image, in order.

    If the parameters are sharded over several processes, as in a training run, all must call this with the same
    arguments, and decode each batch together; each loads the images of its own devices, and all get all captions.

    Args:
      params: parameters of the captioner.
      keys: keys of the images.
      load: key -> uint8 [image_size, image_size, 3]; called in threads while the previous batch is decoded.
      languages: codes of the languages.
      numbers: numbers of the images in their split, by default 0, 1, ...; random samples depend on them.
      own_tags: the images' own tags, for `TagPrompts.tags = 'own'`.

    Raises:
      UsageError: as `prompts`.
      XmcapError: the parameters belong to another model; the message names the first difference.
    """
    check_params(self.captioner, params)
    load = self._stored(keys) if self.features else load
    row_ids = np.asarray(range(len(keys)) if numbers is None else numbers, np.int32)
    prompts = self.prompts(keys, languages, own_tags)
    self.stabilizers = {}
    for batch, tokens, scores in self._decoded(params, keys, load, prompts, row_ids):
      means = mean_probabilities(tokens, scores).tolist()
      for key, rows, row_means in zip(batch, tokens, means, strict=False):
        if self._is_greedy:
          self.probabilities |= {
            (key, language): mean for language, mean in zip(languages, row_means, strict=True)
          }
        if self.generator.marks is not None:
          stabilizers, rows = self.generator.marks.split(rows, prompts_of(self.vocabulary, languages))
          self.stabilizers[key] = self._texts(languages, stabilizers)
        yield key, self._texts(languages, rows)

  def _stored(self, keys: Sequence[str]) -> Callable[[str], np.ndarray]:
    """Key -> its stored vector, float32 [D]; UsageError if a key has none, or they are of another width."""
    vectors = features_lib.of_keys(
      features_lib.read(self.features), keys, self.features, "the pictures to caption"
    )
    vit = self.captioner.vit
    width = input_shape(vit)[0] if reads_stored(vit) else vit.width
    if vectors.shape[1] != width:
      raise UsageError(
        f"{self.features}: vectors of {vectors.shape[1]} numbers, but the model's have {width}: give those that it was"
        " trained on"
      )
    check_stored(vit, vectors, self.features)
    return dict(zip(keys, vectors, strict=True)).__getitem__

  def _texts(self, languages: Sequence[str], rows: np.ndarray) -> dict[str, str]:
    return {language: self.vocabulary.decode(row) for language, row in zip(languages, rows, strict=True)}

  def prompts(
    self, keys: Sequence[str], codes: Sequence[str], own_tags: Tags | None = None
  ) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a function from positions of images, [B], to their prompts, int32 [L, P] or [B, L, P].

    Raises:
      UsageError: the tags cannot be read, an image has none for its prompt, or they do not fit.
    """
    plain = prompts_of(self.vocabulary, codes)
    if self.prompt_tags is None:
      return lambda positions: plain
    tags = self.prompt_tags.read(own_tags)
    # Records hold no empty lists, but a tagger's file does, so that a language absent there is a mistake.
    tags.check(keys, () if self.prompt_tags.is_own else codes)
    if self.prompt_length:
      tags.check_length(self.vocabulary, codes, self.prompt_length, "Predictor.prompt_length", keys)
    width = max(plain.shape[1], tags.width(keys, self.vocabulary, codes))
    padded = np.pad(plain, [(0, 0), (0, width - plain.shape[1])])

    def prompts_at(positions: np.ndarray) -> np.ndarray:
      shape = (len(positions), len(codes))
      batch, languages = np.broadcast_to(padded, (*shape, width)), np.broadcast_to(np.array(codes), shape)
      of_batch = [keys[int(position)] for position in positions]
      return tags.extend(batch, of_batch, languages, self.vocabulary)

    return prompts_at

  def _decoded(
    self, params: Any, keys: Sequence[str], load: Callable, prompts: Callable, row_ids: np.ndarray
  ) -> Iterator[tuple[Sequence[str], np.ndarray, np.ndarray]]:
    """Yields (keys of a batch, tokens [B, L, T], scores [B, L]); the last batch may have extra rows."""
    sharded = sharded_params.for_decoding(params, jax.local_devices(), self.generator.cast)
    size = sharded.rounded(self.batch_size)
    fed = sharding.process_rows(sharded.mesh, size)
    rng = key_on(sharded)
    starts = range(0, len(keys), size)
    # The last batch is padded with the last key, so that all batches have the same shape.
    batches = [np.minimum(np.arange(start, start + size), len(keys) - 1) for start in starts]

    def loading(positions: np.ndarray) -> Job[np.ndarray, np.ndarray]:
      unique, rows = np.unique(positions[fed], return_inverse=True)
      calls = [functools.partial(load, keys[position]) for position in unique]
      return Job(calls, lambda pictures: np.stack(pictures)[rows])

    images = prefetch(map(loading, batches), processes.available_cores(), depth=2)
    with contextlib.closing(images):
      for start, positions in zip(starts, batches, strict=True):
        stopping.evaluation_batch(f"batch {start // size + 1} of the pictures to decode")
        image, prompt, rows = next(images), prompts(positions), row_ids[positions]
        yield (
          keys[start : start + size],
          *decode_batch(self.generator, sharded, image, prompt, rng, rows, fed),
        )


def prompts_of(vocabulary: Vocabulary, languages: Sequence[str]) -> np.ndarray:
  """The LangId prompts of languages, int32 [L, P], padded with 0."""
  ids = [vocabulary.prompt(language) for language in languages]
  prompts = np.zeros((len(ids), max(map(len, ids))), np.int32)
  for row, prompt in zip(prompts, ids, strict=True):
    row[: len(prompt)] = prompt
  return prompts


def mean_probabilities(tokens: np.ndarray, scores: np.ndarray) -> np.ndarray:
  """Geometric means of the probabilities of tokens [..., T], whose scores [...] greedy search found.

  A stabilizer before the caption counts, with its separator and LangId, so the tokens are those before `Marks.split`.
  """
  return np.exp(scores / np.maximum((tokens != PAD_ID).sum(-1), 1))


def check_params(captioner: Captioner, params: Any) -> None:
  """Raises XmcapError if the parameters belong to another model; the message names the first difference."""
  arrays = flat(params)
  for path, leaf in arrays.items():
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.floating):
      raise XmcapError(f"the parameters: {path} is not an array of floats: fetch or copy the model again")
  shapes = flat(variable_shapes(captioner.vit, captioner.t5)["params"])
  check_same(shapes, arrays, "the parameters", allow_extra=True)


def key_on(sharded: sharded_params.ShardedParams, seed: int = 0) -> jax.Array:
  """The random key of a seed, replicated on all devices of the parameters."""
  return jax.jit(jax.random.key, out_shardings=sharded.replicated)(np.uint32(seed))


def decode_batch(
  generate: Generator, sharded: sharded_params.ShardedParams, images: np.ndarray, prompts: np.ndarray,
  rng: jax.Array, row_ids: np.ndarray, fed: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
  """Captions a batch on the devices of the parameters, which share it evenly.

  Args:
    generate: the generator.
    sharded: the parameters.
    images: uint8 [len(fed), S, S, 3], the images that this process feeds, or what `encode_batch` returns for them.
    prompts: int32 [L, P] or [B, L, P].
    rng: from `key_on`.
    row_ids: int32 [B], see `Generator`.
    fed: positions of the fed images in the batch; None: all B.

  Returns:
    Tokens and scores of all B images, as returned by `Generator`.
  """

  def compiled(params: Any, batch: Any) -> tuple[jax.Array, jax.Array]:
    return generate(params, batch["image"], prompts, rng, row_ids=row_ids)

  return sharded.compute(compiled, {"image": images}, len(row_ids), fed)


def encode_batch(
  captioner: Captioner, sharded: sharded_params.ShardedParams, images: np.ndarray
) -> np.ndarray:
  """What the image tower makes of images [B, ...], [B, N, W], on the devices of the parameters, which share it evenly.

  `decode_batch` takes it in the place of the images.
  """
  return sharded.compute(
    lambda params, batch: _tower_output(captioner, params, batch["image"]), {"image": images}, len(images)
  )


@functools.partial(jax.jit, static_argnames="captioner")
def _tower_output(captioner: Captioner, params: Any, image: jax.Array) -> Any:
  return captioner.apply({"params": params}, image, method="tower_output")


def _captioner() -> Captioner:
  try:
    return Captioner(configuration.bound(bound_image_config()), configuration.bound(bound_language_model()))
  except (TypeError, RuntimeError) as error:  # gin raises these for missing parameters
    raise UsageError(
      f"no captioner is configured ({one_line(error)}): give the folder of a captioner, or a gin file of its model"
    ) from None
