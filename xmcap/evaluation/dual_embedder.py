"""Pictures and texts to embeddings by a dual tower."""

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from etils import epath

from xmcap.data import text_input
from xmcap.data.vocabulary import Vocabulary, check_rows
from xmcap.errors import UsageError
from xmcap.evaluation import embedder, picture_features, sharded_params
from xmcap.evaluation.predictor import VOCABULARY
from xmcap.models import model_json
from xmcap.models.dual import DualConfig
from xmcap.models.t5 import T5Config
from xmcap.models.text_tower import TextConfig
from xmcap.models.vit import ViTConfig

_LONGEST = 64  # pieces of a text, for towers that read any length


class DualEmbedder:
  """A dual tower and the devices that it computes on.

  Args:
    folder: a run's folder, or what `xmcap convert` wrote, with the files of its tokenizer.
    model: its `model.json`.
    params: its parameters.

  Attributes:
    texts: embeds texts.

  Raises:
    UsageError: the folder lacks the files of its tokenizer.
  """

  def __init__(self, folder: epath.Path, model: model_json.Model, params: Any):
    vit, dual = model.config("vit"), model.config("dual")
    text = model.config("t5" if model.text is None else "text")
    assert (
      isinstance(vit, ViTConfig) and isinstance(dual, DualConfig) and isinstance(text, T5Config | TextConfig)
    )
    module: Any = embedder.tower(vit, text, dual)
    self._image_size, self._resize = vit.image_size, dual.resize
    sharded = sharded_params.for_evaluation(params, jax.local_devices())
    self.texts = embedder.TextEmbedder(module, sharded, _tokenizer(folder, text), batch_size=256)
    self._embed = jax.jit(
      lambda params, batch: module.apply({"params": params}, batch["image"], method="embed_images")
    )

  def pictures(self, paths: Sequence[str], read: Callable[[str], bytes]) -> np.ndarray:
    """Returns the embeddings of pictures, float32 [N, E]; XmcapError names one that cannot be decoded."""

    def load(path: str) -> np.ndarray:
      return picture_features.load_pixels(read(path), path, self._image_size, self._resize)

    sharded, batch_size = self.texts.sharded, self.texts.batch_size
    return np.concatenate(list(picture_features.in_batches(paths, load, self._embed, sharded, batch_size)))


def _tokenizer(folder: epath.Path, config: T5Config | TextConfig) -> text_input.TextInput:
  most = _LONGEST if isinstance(config, T5Config) else config.max_length
  if (folder / VOCABULARY).exists():
    vocabulary = Vocabulary(os.fspath(folder / VOCABULARY))
    check_rows(vocabulary, config.vocab_size)
    return text_input.OwnPieces(vocabulary, most, fixed=getattr(config, "pool", "") == "last")
  if isinstance(config, TextConfig) and config.pool == "last" and (folder / text_input.SIGLIP).exists():
    return text_input.SiglipPieces(pathlib.Path(folder / text_input.SIGLIP), most)
  if isinstance(config, TextConfig) and (folder / text_input.TOKENIZER).exists():
    path = pathlib.Path(folder / text_input.TOKENIZER)
    if config.positions == "sinusoidal":
      return text_input.NllbPieces(path, most, config.pad_id)
    return text_input.TokenizerJson(path, most, config.pad_id, siglip=config.pool == "last")
  known = f"{VOCABULARY}, {text_input.TOKENIZER}, {text_input.SIGLIP} (SigLIP's)"
  raise UsageError(f"{folder}: no tokenizer of its text tower: put one of these files there: {known}")
