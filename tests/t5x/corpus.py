"""A registered corpus of three languages, as a user's own; t5x's scripts import it by the gin file written here.

A split without captions in a language of the mixture would keep seqio looking for ever, so coco_35l is no use here.
"""

import pathlib

from tests import small_corpus
from xmcap.data.tasks import register_corpus

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
