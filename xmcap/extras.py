"""The extras of setup.py: what a command needs beyond scoring, and how it is installed.

xmcap is on no package index, where a stranger could take its name: it is installed from a clone or from a wheel.
"""

import sys

from xmcap import __version__
from xmcap.errors import UsageError

_TRAIN = (
  "absl", "array_record", "flax", "fsspec", "google", "jax", "optax", "orbax", "pyarrow", "rapidgzip", "sentencepiece",
  "tensorboard", "tensorstore", "tokenizers", "wrapt",
)  # fmt: skip

MODULES: dict[str, tuple[str, ...]] = {
  "train": _TRAIN,
  "seqio": (*_TRAIN, "seqio", "tensorflow", "tensorflow_datasets"),
  "serve": (*_TRAIN, "prometheus_client", "starlette", "uvicorn"),
}
"""The extras that whole commands need -> the modules that they add to those of scoring."""


def install(extra: str) -> str:
  """Returns how an extra is installed, for the end of a message."""
  wheel = f"xmcap-{__version__}-py3-none-any.whl"
  return f"pip install '.[{extra}]' in a clone of xmcap, or pip install '{wheel}[{extra}]'"


def check(command: str, extra: str) -> None:
  """Raises UsageError if a module of an extra of `MODULES` is not installed; imports none."""
  for module in MODULES[extra]:
    # As importlib.util.find_spec, which asks nobody about a module that was imported.
    if not any(finder.find_spec(module, None) for finder in sys.meta_path):
      raise UsageError(f"{command} needs the extra {extra}, of which {module} is missing: {install(extra)}")


def explained(error: BaseException) -> UsageError | None:
  """Returns the error to report for the failed import of a module of `MODULES`; None for any other error."""
  if not isinstance(error, ModuleNotFoundError):
    return None
  module = (error.name or "").split(".")[0]
  for extra, modules in MODULES.items():
    if module in modules:
      return UsageError(f"this needs the extra {extra}, of which {error.name} is missing: {install(extra)}")
  return None
