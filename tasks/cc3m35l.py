"""CC3M-35L: the pictures of Conceptual Captions, captions in 35 languages (Thapliyal et al. 2022)."""

from xmcap.data.tasks import register_corpus
from xmcap.languages import TRAINED

CORPUS = register_corpus(
  "cc3m35l", languages=TRAINED, build_hint="`xmcap.data.records.write_split`, for train and validation,"
)
