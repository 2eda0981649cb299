"""BERTScore, computed by its authors' program; its model must be named, and has to be here or on the Hub."""

import functools
import hashlib
import importlib.util
import os
import pathlib
import re
from typing import Any

import numpy as np

from xmcap import extras
from xmcap.errors import UsageError, one_line
from xmcap.scoring.metrics import base

VARIABLE = "XMCAP_BERT_SCORE"
"""The environment variable that names the model: `roberta-large`, or FOLDER:LAYER."""

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


class BertScore(base.CaptionMetric):
  """BERTScore (Zhang et al., ICLR 2020), F1 of the reference that is most like a caption, neither idf nor rescaled.

  It equals bert_score's `score(captions, references, model)` of the words joined by spaces: on the words of the
  tokeniser `raw` that of the captions themselves. The score of a corpus is the mean over images.
  """

  name = "bert_score"
  heading = "BERTScore"
  scaled = True
  least = -1.0
  is_extra = True

  @property
  def signature(self) -> str:
    """The hash of bert_score, and of a folder the name and the SHA-256 of its weights."""
    from bert_score import utils

    model, layer = _model()
    folder = pathlib.Path(model)
    name, weights = (folder.name, f",weights={_digest(folder)}") if folder.is_dir() else (model, "")
    return utils.get_hash(name, layer, False, False, False, False) + f"{weights},refs=max"

  def statistics(self, corpus: base.Corpus) -> np.ndarray:
    """Returns float64 [images, 1], the F1 of each image.

    Raises UsageError if bert_score is not installed, or no model is named, or it cannot be read.
    """
    scorer = _scorer(*_model())
    captions = [" ".join(words) for words in corpus.hypotheses]
    references = [[" ".join(words) for words in of_image] for of_image in corpus.references]
    return np.asarray(scorer.score(captions, references)[2], np.float64)[:, None]


def _model() -> tuple[str, int]:
  """Returns the model that is named, and its layer whose vectors are compared."""
  if importlib.util.find_spec("bert_score") is None:
    raise UsageError(f"metric 'bert_score' needs bert_score: {extras.install('bert')}")
  named = os.environ.get(VARIABLE, "")
  match = re.fullmatch(r"(.+?)(?::(\d{1,3}))?", named)
  if match is None:
    raise UsageError(f"metric 'bert_score' needs a model: set {VARIABLE}=roberta-large, or FOLDER:LAYER")
  from bert_score import utils

  layer = match[2] or utils.model2layers.get(match[1])
  if layer is None:
    raise UsageError(
      f"{VARIABLE}={named}: bert_score does not say which layer of it to take: give {match[1]}:LAYER"
    )
  return match[1], int(layer)


@functools.lru_cache(maxsize=1)
def _scorer(model: str, layer: int) -> Any:
  import bert_score

  try:
    return bert_score.BERTScorer(model_type=model, num_layers=layer)
  except Exception as error:  # whatever transformers raises for a folder or the Hub
    raise UsageError(
      f"{VARIABLE}={model}: cannot be read ({one_line(error)}): give a folder of transformers"
    ) from None


@functools.lru_cache(maxsize=1)
def _digest(folder: pathlib.Path) -> str:
  path = next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
  if path is None:
    raise UsageError(f"{folder}: no {' or '.join(_WEIGHTS)}: give a folder of transformers")
  with path.open("rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()[:16]
