"""Modules that take seconds to import, which each worker would spend while it collects tests."""

from typing import Any

import pytest


class Module:
  """A module that is imported when an attribute of it is first used; a test is skipped where it is not installed."""

  def __init__(self, name: str):
    self._name = name

  def __getattr__(self, attribute: str) -> Any:
    if attribute.startswith("_"):  # pytest looks for `_mock_name` and `__wrapped__` while it collects
      raise AttributeError(attribute)
    return getattr(pytest.importorskip(self._name), attribute)
