"""Fixtures of every test."""

from tests.browser import chromium, page  # noqa: F401
