"""The parts of a model, registered here and nowhere else: `model.json` names them, modules are made from them.

An image tower is added by its module and a line in `PARTS`; gin chooses it: `CaptionObjective.vit = @ViTConfig()`. So
is a language model, which writes the captions: `CaptionObjective.t5 = @T5Config()`.
"""

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

import gin
import numpy as np

from xmcap.errors import UsageError
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig

IMAGE = "vit"
"""Name of the image tower's parameters, and of its configuration in other modules, whichever tower it is."""
LANGUAGE_MODEL = "t5"
"""Name, in other modules, of the configuration of the language model, whichever it is."""
T5_PARAMS = ("token_embedder", "encoder", "decoder")
CAPTIONER_PARAMS = (IMAGE, "projection", *T5_PARAMS)
"""Names of a captioner's parameters, in order of use."""


class ModelPart(NamedTuple):
  """A part of a model.

  Attributes:
    config: `module:Class` of its configuration, which is loaded when it is needed.
    module: `module:Class` of the Flax module that is made from the configuration; of a language model, the decoder.
    width: field of the configuration that is the width of its output; "" if it has none.
    tokens: of an image tower: property of the configuration that is the number of vectors of an image.
    gin: whether gin configures it.
    of_weights: whether a run takes it from the `model.json` of the weights that it starts from.
    encoder: `module:Class` of the encoder before it; "" if the part is no language model.
  """

  config: str
  module: str = ""
  width: str = ""
  tokens: str = ""
  gin: bool = True
  of_weights: bool = False
  encoder: str = ""

  @property
  def config_name(self) -> str:
    """The configuration's name in gin."""
    return self.config.partition(":")[2]


PARTS = {
  "vit": ModelPart("xmcap.models.vit:ViTConfig", "xmcap.models.vit:ViT", "width", "num_tokens", of_weights=True),
  "stored": ModelPart(
    "xmcap.models.stored_vectors:StoredVectorsConfig", "xmcap.models.stored_vectors:StoredVectors", "width",
    "num_tokens",
  ),
  "t5": ModelPart(
    "xmcap.models.t5:T5Config", "xmcap.models.t5:Decoder", "emb_dim", of_weights=True,
    encoder="xmcap.models.t5:Encoder",
  ),
  "lstm": ModelPart(
    "xmcap.families.show_and_tell.model:LstmConfig", "xmcap.families.show_and_tell.model:LstmDecoder", "emb_dim",
    of_weights=True, encoder="xmcap.families.show_and_tell.model:NoEncoder",
  ),
  "text": ModelPart(
    "xmcap.families.dual.text_tower:TextConfig", "xmcap.families.dual.text_tower:TextTower", "width",
    of_weights=True,
  ),
  "dual": ModelPart("xmcap.families.dual.model:DualConfig", width="embed_dim", of_weights=True),
  "words": ModelPart(
    "xmcap.families.word2visualvec.model:Word2VisualVecConfig",
    "xmcap.families.word2visualvec.model:Word2VisualVec", "output_dim",
  ),
  "tagger": ModelPart("xmcap.families.tagging.label_tagger:TaggerConfig", gin=False),
  "tags": ModelPart("xmcap.models.model_json:TagsInPrompt", gin=False),
  "vector_and_labels": ModelPart(
    "xmcap.families.plugs.image_inputs:VectorAndLabelsConfig",
    "xmcap.families.plugs.image_inputs:VectorAndLabels", "width", "num_tokens",
  ),
  "stabilizer": ModelPart("xmcap.families.plugs.stabilizer:Stabilizer"),
}  # fmt: skip
"""Name in `model.json` -> part."""


class ImageConfig(Protocol):
  """The configuration of an image tower.

  Its module maps images [rows, image_size, image_size, 3] with values 0..255, or stored vectors if it has an
  `input_shape`, to [rows, num_tokens, width], in a stack of `depth` layers (see `stacking`), of `num_heads` heads,
  whose activations have the `dtype`.
  """

  __dataclass_fields__: ClassVar[dict[str, Any]]

  @property
  def image_size(self) -> int: ...
  @property
  def num_tokens(self) -> int: ...
  @property
  def width(self) -> int: ...
  @property
  def depth(self) -> int: ...
  @property
  def num_heads(self) -> int: ...
  @property
  def remat(self) -> str: ...
  @property
  def scan(self) -> bool: ...
  @property
  def dtype(self) -> str: ...


class LanguageModelConfig(Protocol):
  """The configuration of a language model: an encoder and a decoder that are called as those of `t5.py` are."""

  __dataclass_fields__: ClassVar[dict[str, Any]]

  @property
  def vocab_size(self) -> int: ...
  @property
  def emb_dim(self) -> int: ...
  @property
  def dtype(self) -> str: ...


def load(place: str) -> type:
  """Loads a class, `module:Class`, as in `PARTS`; UsageError if its family is not there."""
  module, _, name = place.partition(":")
  try:
    with gin.unlock_config():  # its configurables are not registered where gin was read without them
      return getattr(importlib.import_module(module), name)
  except ModuleNotFoundError as error:
    if not (error.name or "").startswith("xmcap."):
      raise
    raise UsageError(f"the model needs {error.name}, which this xmcap is without") from None


def of_config(config: Any) -> str | None:
  """The name of the part that a configuration is of, if any."""
  place = f"{type(config).__module__}:{type(config).__qualname__}"
  return next((name for name, part in PARTS.items() if part.config == place), None)


def of_module(module: Any) -> dict[str, Any]:
  """Name of a part -> its configuration, of all that are attributes of a Flax module."""
  values = [getattr(module, field) for field in getattr(module, "__dataclass_fields__", ())]
  return {name: value for value in values if (name := of_config(value))}


def width(config: Any) -> int:
  """The width of the output of a part."""
  return getattr(config, PARTS[of_config(config) or ""].width)


def image_tower(config: ImageConfig, name: str | None = IMAGE) -> Any:
  """The module of an image tower, to be stored in the `setup` of another module; without a name, to be used alone."""
  return load(PARTS[of_config(config) or ""].module)(config, name=name)


def language_model(config: LanguageModelConfig, stepwise: bool) -> tuple[Any, Any]:
  """The encoder and the decoder of a language model, to be stored in the `setup` of another module."""
  part = PARTS[of_config(config) or ""]
  return load(part.encoder)(config), load(part.module)(config, stepwise)


def scanned(config: Any) -> Any:
  """The configuration with `scan`, if it has stacks of layers: one layer of each is traced."""
  return dataclasses.replace(config, scan=True) if "scan" in config.__dataclass_fields__ else config


def input_shape(config: ImageConfig) -> tuple[int, ...]:
  """The shape of what an image tower is given of an image: its pixels, or its stored vector."""
  return getattr(config, "input_shape", (config.image_size, config.image_size, 3))


def reads_stored(config: ImageConfig) -> bool:
  """Whether an image tower reads stored vectors instead of pixels."""
  return len(input_shape(config)) == 1


def check_stored(config: ImageConfig, rows: np.ndarray, path: str) -> None:
  """Raises UsageError, which names the file, if rows [N, D] are none that an image tower reads instead of pixels."""
  if check := getattr(config, "check_stored", None):
    check(rows, path)


def image_parts() -> Mapping[str, ModelPart]:
  """Those of `PARTS` that are image towers."""
  return {name: part for name, part in PARTS.items() if part.tokens}


def language_model_parts() -> Mapping[str, ModelPart]:
  """Those of `PARTS` that are language models."""
  return {name: part for name, part in PARTS.items() if part.encoder}


def bound_image_config() -> type[Any]:
  """The configuration of the image tower whose sizes gin binds; the ViT's if it binds none, UsageError if several."""
  return _bound(image_parts(), "image_size", "image towers") or ViTConfig


def bound_language_model() -> type[Any]:
  """The same of the language model; the T5's if gin binds none."""
  return _bound(language_model_parts(), "vocab_size", "language models") or T5Config


def _bound(alternatives: Mapping[str, ModelPart], size: str, noun: str) -> type[Any] | None:
  bound = [part for part in alternatives.values() if _is_bound(part.config_name, size)]
  if len(bound) > 1:
    names = " and ".join(part.config_name for part in bound)
    raise UsageError(f"gin binds the sizes of two {noun}, {names}: leave one of them out")
  return load(bound[0].config) if bound else None


def _is_bound(configurable: str, parameter: str) -> bool:
  try:
    return parameter in gin.get_bindings(configurable, resolve_references=False)
  except ValueError:  # nothing has loaded it
    return False
