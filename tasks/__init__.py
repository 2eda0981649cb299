"""The seqio tasks and mixtures that the gin files name; importing this module registers them all."""

from . import cc3m35l, coco35l, emoji36, folder, xm3600  # noqa: F401
