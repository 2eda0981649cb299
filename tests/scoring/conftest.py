"""Fixtures of scoring."""

from tests.scoring.replayed_java import replayed_java  # noqa: F401
