"""The keys of pictures that are files, the same in a corpus of own pictures, in predictions, and in a report."""

import hashlib
import re

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_MOST = 96  # characters of a name that are kept in a key


def is_safe(stem: str) -> bool:
  """Whether the name of a file, without its suffix, may be a key as it is."""
  return stem == _safe(stem) != ""


def hashed(stem: str, path: str) -> str:
  """The key where the name is none, or is that of several pictures: a hash of the path in their folder is added."""
  digits = hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:8]
  return f"{_safe(stem) or 'picture'}-{digits}"


def _safe(stem: str) -> str:
  return _UNSAFE.sub("_", stem).lstrip("_.-")[:_MOST]
