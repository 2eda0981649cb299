"""Keys of picture files, made the same way for a corpus of own pictures, for predictions and for reports."""

import re

from xmcap.scoring.writing.signature import digest

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_MOST = 96  # characters of a name that are kept in a key


def is_safe(stem: str) -> bool:
  """Whether a file name without its suffix can be a key unchanged."""
  return stem == _safe(stem) != ""


def hashed(stem: str, path: str) -> str:
  """Returns a key for a name that is unsafe or not unique: a hash of the path within the folder is appended."""
  return f"{_safe(stem) or 'picture'}-{digest(path)[:8]}"


def _safe(stem: str) -> str:
  return _UNSAFE.sub("_", stem).lstrip("_.-")[:_MOST]
