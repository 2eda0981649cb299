"""Babel-ImageNet: ImageNet's validation pictures with their classes; for `TagStream`, since they have no captions."""

from xmcap.data.registry import register_corpus

CORPUS = register_corpus(
  "babel_imagenet",
  splits=("validation",),
  build_hint="`xmcap data build babel_imagenet --labels=FILE --images=DIR --out DIR`",
)
