"""Fixtures of every test."""

import os

# libtpu is installed with the tests, to plan for chips that are not there: jax is not to look for them.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from tests.browser import chromium, page  # noqa: F401
