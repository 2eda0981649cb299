"""A registered corpus of three languages, as a user's own; t5x's scripts import it by the gin file written here.

A split without captions in a language of the mixture would keep seqio looking for ever, so coco_35l is no use here.
"""

import pathlib

import numpy as np

from tests.make import small_corpus
from xmcap.data.registry import register_corpus

LANGUAGES = ("en", "de", "th")
CORPUS = register_corpus("three", languages=LANGUAGES)

_GIN = """
import tests.t5x.corpus
import xmcap.data.stream
import xmcap.evaluation.predictor

MIXTURE = 'three'
three.data_dir = '{folder}'
vocabulary_rows.mixture = %MIXTURE
CaptionStream.mixture = %MIXTURE
TARGET_LENGTH = 16
CaptionStream.target_length = %TARGET_LENGTH
CaptionStream.image_size = %IMAGE_SIZE
Predictor.max_length = %TARGET_LENGTH
"""


def write(folder: pathlib.Path) -> pathlib.Path:
  """Writes the corpus, 16 and 6 pictures with two captions a language, and `three.gin`, which says where it is."""
  small_corpus.write(folder, "three", train=16, validation=6, languages=LANGUAGES, pieces=500)
  (folder / "three.gin").write_text(_GIN.format(folder=folder), encoding="utf-8")
  return folder


def from_stream(batch):
  """A batch of `CaptionStream` with one caption a picture, in the converter's layout."""
  targets = batch["target_tokens"][:, 0]
  return {
    "encoder_image": batch["image"],
    "encoder_input_tokens": batch["prompt_tokens"][:, 0],
    "decoder_target_tokens": targets,
    "decoder_input_tokens": np.pad(targets[:, :-1], ((0, 0), (1, 0))),
    "decoder_loss_weights": batch["target_weights"][:, 0].astype(np.int32),
  }
