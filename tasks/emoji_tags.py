"""emoji_tags: pictures of one to three emoji with tags and captions from Unicode CLDR in 36 languages.

Captions of `train_mt` are translated, except English; those of `train`, `val` and `test` are by people.
"""

from xmcap.data.registry import register_corpus
from xmcap.languages import LANGUAGES

CORPUS = register_corpus(
  "emoji_tags",
  languages=tuple(LANGUAGES),
  splits=("train_mt", "train", "val", "test"),
  build_hint="`xmcap data build emoji_tags --out DIR`",
)
