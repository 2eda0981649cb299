"""emoji36: pictures of one to three emoji, captions from Unicode CLDR in all 36 languages."""

from xmcap.data.registry import register_corpus
from xmcap.languages import LANGUAGES

CORPUS = register_corpus(
  "emoji36", languages=tuple(LANGUAGES), build_hint="`xmcap data build emoji36 --out DIR`"
)
