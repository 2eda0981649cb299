"""emoji100: pictures of emoji by three artists, captions from Unicode CLDR in 101 languages."""

from xmcap.data.registry import register_corpus
from xmcap.languages import WIDE

CORPUS = register_corpus(
  "emoji100",
  languages=WIDE,
  splits=("train", "validation", "test", "noto", "twemoji", "openmoji", "held_out"),
  build_hint="`xmcap data build emoji100 --out DIR`",
)
