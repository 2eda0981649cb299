"""xmcap: image captioning in 36 languages, trained on TPU pods and measured exactly.

As a library:

  from xmcap import load_captioner, score

  captioner = load_captioner("runs/bb")
  captions = captioner.caption(["a.jpg", "b.jpg"], languages=["en", "th"])
  result = score({"en": [["a dog", "the dog"], ["two cats"]]}, {"en": [caption["en"] for caption in captions]})
"""

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
  from xmcap.evaluation.captioning import load_captioner
  from xmcap.scoring.lists import score

__version__ = "0.1.0"
__all__ = ["__version__", "load_captioner", "score"]

# Found when they are first used: neither needs what the other imports, and the command line needs neither.
_MODULES = {"load_captioner": "xmcap.evaluation.captioning", "score": "xmcap.scoring.lists"}


def __getattr__(name: str):
  if name not in _MODULES:
    raise AttributeError(f"module 'xmcap' has no attribute {name!r}")
  if name == "load_captioner" and "jax" not in sys.modules:
    from xmcap import platforms

    platforms.choose()
  return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
  return sorted({*globals(), *_MODULES})
