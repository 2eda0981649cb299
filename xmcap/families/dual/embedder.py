"""Images and texts to embeddings by a dual tower, on the devices that hold its parameters."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import gin
import jax
import numpy as np

from xmcap import configuration
from xmcap.data import images, vocabulary
from xmcap.errors import UsageError, one_line
from xmcap.evaluation import image_features, sharded_params
from xmcap.evaluation.text_embedding import EmbedsTexts
from xmcap.families.dual import text_input, tokenizer_files
from xmcap.families.dual.model import DualConfig, DualTower
from xmcap.families.dual.text_input import TextInput
from xmcap.families.dual.text_tower import TextConfig
from xmcap.files.bucket_paths import epath
from xmcap.models import model_json, stacking
from xmcap.models.parts import bound_image_config
from xmcap.models.stacking import merge
from xmcap.models.t5 import T5Config
from xmcap.terminal import shown
from xmcap.training.checkpoints import weights
from xmcap.training.hosts import stopping

_SHORTEST = 8  # pieces; lengths are this and its doubles, so that few programs are compiled


def configured_tower() -> DualTower:
  """The dual tower of gin's `ViTConfig`, `T5Config` and `DualConfig`; UsageError if none is configured."""
  text = TextConfig if gin.get_bindings(TextConfig) else T5Config
  try:
    return DualTower(
      configuration.bound(bound_image_config()), configuration.bound(text), configuration.bound(DualConfig)
    )
  except (TypeError, RuntimeError) as error:  # gin raises these for missing parameters
    raise UsageError(
      f"no dual tower is configured ({one_line(error)}): give the folder of a run of runs/contrastive.gin"
    ) from None


def resizing(stream: Any, tower: DualTower) -> Any:
  """A stream of images that are made square as the tower was trained."""
  resize = tower.dual.resize
  return stream if stream.resize == resize else dataclasses.replace(stream, resize=resize)


def converted_tokenizer(text: T5Config | TextConfig) -> TextInput | None:
  """The tokenizer beside the weights that `xmcap convert` wrote into MODEL_DIR; None if that is a run's folder.

  UsageError if the folder lacks the tokenizer.
  """
  if not configuration.has_macro("MODEL_DIR"):
    return None
  folder = epath.Path(configuration.macro("MODEL_DIR"))
  return text_input.of_folder(folder, text) if (folder / weights.PARAMS).exists() else None


class TextEmbedder(EmbedsTexts):
  """Embeds texts with a dual tower, in batches of about equal length.

  If the parameters are sharded over several processes, all call it with the same texts, each feeds those of its own
  devices, and all get all embeddings.

  Args:
    module, sharded: the tower and its parameters.
    text_input: the tokenizer that it was trained with.
    batch_size: as in `EmbedsTexts`.
  """

  def __init__(
    self, module: Any, sharded: sharded_params.ShardedParams, text_input: TextInput, batch_size: int = 512
  ):
    def embed(params, batch):
      return module.apply({"params": params}, batch["tokens"], method="embed_texts")

    super().__init__(sharded, embed, batch_size, f"{text_input.max_length} pieces")
    self.module, self.text_input = module, text_input

  def _window(
    self, texts: Sequence[str], tokenized: Sequence[str], first: int, language: str
  ) -> tuple[np.ndarray, np.ndarray]:
    del tokenized
    encoded, cut = self.text_input.encode_all(texts, language)
    lengths = np.array([len(ids) for ids in encoded])
    usable = lengths > self.text_input.added
    for place in np.flatnonzero(~usable).tolist():
      if texts[place].strip():
        raise UsageError(
          f"text {first + place} ('{shown(texts[place])}'): the tokenizer finds nothing in it; leave it out"
        )
    highest, rows = max((max(ids) for ids in encoded if ids), default=0), self.module.text.vocab_size
    if highest >= rows:
      raise UsageError(
        f"the tokenizer gives id {highest}, and the text tower has {rows} embeddings: put the tokenizer there that the"
        " tower was trained with"
      )
    self.cut += cut
    order = np.argsort(lengths, kind="stable")
    parts = []
    for start in range(0, len(order), self.batch_size):
      stopping.evaluation_batch(f"text {first + start}")
      chosen = [encoded[place] for place in order[start : start + self.batch_size]]
      parts.append(self._batch({"tokens": self._padded(chosen)})[: len(chosen)])
    embedded = np.concatenate(parts)
    vectors = np.empty_like(embedded)
    vectors[order] = embedded
    return vectors, usable

  def _padded(self, encoded: Sequence[Sequence[int]]) -> np.ndarray:
    """The ids of texts in ascending order of length, int32 [batch_size, T]."""
    most = self.text_input.max_length
    length = most if self.text_input.fixed else _SHORTEST
    while length < len(encoded[-1]):
      length *= 2
    tokens = np.full((self.batch_size, min(length, most)), self.text_input.pad_id, np.int32)
    for row, ids in zip(tokens, encoded, strict=False):
      row[: len(ids)] = ids
    return tokens


def adapted(texts: TextEmbedder, folder: str, language: str) -> TextEmbedder:
  """Returns a text embedder with the adapter of a language, or `texts` if the language has none.

  The tower's parameters are shared, not copied.

  Args:
    texts: embeds texts with the tower alone.
    folder: has a folder CODE, which `xmcap convert --part=adapter` wrote, for each language with an adapter; "": none.
    language: the language.

  Raises:
    UsageError: CODE holds no adapter, or that of another tower.
  """
  path = pathlib.Path(folder, language)
  if not folder or not path.is_dir():
    return texts
  where = path / model_json.NAME
  if not where.is_file():
    raise UsageError(
      f"{path}: not an adapter ({model_json.NAME} is missing): give the output of `convert --part=adapter`"
    )
  model = model_json.read(where)
  config = model.text_config()
  if not isinstance(config, T5Config | TextConfig) or config.adapter == "none":
    raise UsageError(f"{path}: holds no adapter: give the output of `convert --part=adapter`")
  module: Any = DualTower(texts.module.vit, config, texts.module.dual)
  adapter = stacking.flatten(weights.read_all(path))
  shapes = jax.eval_shape(
    lambda: module.init(jax.random.key(0), jax.numpy.ones((1, 8), int), method="embed_texts")["params"]
  )
  sharded = texts.sharded
  base = stacking.flatten(sharded.params)
  for name, leaf in stacking.flatten(shapes).items():
    array = adapter.get(name, base.get(name))
    if array is None or array.shape != leaf.shape:
      shape = "is missing" if array is None else f"has shape {array.shape}, but {leaf.shape} in the tower"
      raise UsageError(f"{path}: {name} {shape}: this adapter belongs to another tower")
  params = merge(sharded.params, jax.device_put(stacking.nested(adapter), sharded.replicated))
  return TextEmbedder(
    module,
    sharded_params.ShardedParams(params, sharded.mesh, sharded.rules),
    texts.text_input,
    texts.batch_size,
  )


class DualEmbedder:
  """A dual tower, on the devices of this process; `texts` embeds texts.

  Args:
    folder, model, params: a run's folder, or what `xmcap convert` wrote, and what it holds.

  Raises:
    UsageError: the folder lacks the files of its tokenizer.
  """

  def __init__(self, folder: epath.Path, model: model_json.Model, params: Any, features: str = ""):
    del features  # it embeds pixels
    vit, dual = model.image_config(), model.config("dual")
    text = model.text_config()
    assert vit is not None and isinstance(dual, DualConfig) and isinstance(text, T5Config | TextConfig)
    module: Any = DualTower(vit, text, dual)
    self._folder, self._image_size, self._resize = folder, vit.image_size, dual.resize
    sharded = sharded_params.for_evaluation(params, jax.local_devices())
    self.texts = TextEmbedder(module, sharded, text_input.of_folder(folder, text), batch_size=256)
    self._embed = jax.jit(
      lambda params, batch: module.apply({"params": params}, batch["image"], method="embed_images")
    )

  @property
  def preprocessing(self) -> str:
    """How images and texts are prepared, with a hash of the tokenizer."""
    own = self._folder / vocabulary.VOCABULARY
    read = [own] if own.exists() else tokenizer_files.describe(pathlib.Path(self._folder)).files
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in read)).hexdigest()[:16]
    return f"{self._image_size} px {self._resize}; up to {self.texts.longest}, tokenizer#{digest}"

  def texts_of(self, language: str, adapters: str = "") -> TextEmbedder:
    """Returns what embeds texts of a language: with its adapter in the folder `adapters`, if it has one there."""
    return adapted(self.texts, adapters, language)

  def pictures(self, paths: Sequence[str], read: Callable[[str], bytes]) -> np.ndarray:
    """Returns the embeddings of images, float32 [N, E]; XmcapError names one that cannot be decoded."""

    def load(path: str) -> np.ndarray:
      return images.load_pixels(read(path), path, self._image_size, self._resize)

    sharded, batch_size = self.texts.sharded, self.texts.batch_size
    return np.concatenate(list(image_features.in_batches(paths, load, self._embed, sharded, batch_size)))
