"""Keys of picture files, made the same way for a corpus of own pictures, for predictions and for reports."""

import hashlib
import re

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_MOST = 96  # characters of a name that are kept in a key


def is_safe(stem: str) -> bool:
  """Whether a file name without its suffix can be a key unchanged."""
  return stem == _safe(stem) != ""


def hashed(stem: str, path: str) -> str:
  """Returns a key for a name that is unsafe or not unique: a hash of the path within the folder is appended."""
  digits = hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:8]
  return f"{_safe(stem) or 'picture'}-{digits}"


def _safe(stem: str) -> str:
  return _UNSAFE.sub("_", stem).lstrip("_.-")[:_MOST]
