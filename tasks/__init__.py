"""The seqio tasks and mixtures that the gin files name; importing this module registers them all."""

from . import emoji36  # noqa: F401
