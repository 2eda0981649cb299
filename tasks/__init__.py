"""The seqio tasks and mixtures for the gin files; importing this module registers them all."""

from . import (  # noqa: F401
  babel_imagenet,
  cc3m35l,
  coco35l,
  coco_cn,
  emoji36,
  emoji100,
  emoji_tags,
  folder,
  xm3600,
)
