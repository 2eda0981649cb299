"""The seqio tasks and mixtures for the gin files; importing this module registers them all."""

from . import babel_imagenet, cc3m35l, coco35l, coco_cn, emoji36, emoji100, folder, xm3600  # noqa: F401
