"""What setup.py asks for, read by running it without setuptools."""

import functools
import pathlib
import runpy
import sys
import types
from typing import Any

from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).parents[1]


@functools.cache
def arguments() -> dict[str, Any]:
  """The arguments of `setuptools.setup`."""
  given: dict[str, Any] = {}
  kept = sys.modules.get("setuptools")
  sys.modules["setuptools"] = types.SimpleNamespace(setup=given.update, find_packages=lambda **_: [])  # type: ignore
  try:
    runpy.run_path(str(ROOT / "setup.py"))
  finally:
    sys.modules.pop("setuptools")
    if kept is not None:
      sys.modules["setuptools"] = kept
  return given


def extras() -> dict[str, list[Requirement]]:
  """Extra -> its requirements."""
  return {name: list(map(Requirement, asked)) for name, asked in arguments()["extras_require"].items()}


def scoring() -> list[Requirement]:
  """The requirements of an install without extras."""
  return list(map(Requirement, arguments()["install_requires"]))
