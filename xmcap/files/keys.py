"""Keys of image files, made the same way for a corpus of own images, for predictions and for reports."""

import re
import unicodedata

from xmcap.digests import digest

MAX_LENGTH = 128
"""Characters of a key at most."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_MOST = 96  # characters of a name that are kept in a key


def is_key(text: str) -> bool:
  """Whether a text can be the key of a record: at most `MAX_LENGTH` letters, digits and, after the first, `_.-`.

  The letters may be of any script, with their marks, in Unicode's form NFC.
  """
  if text.isascii():
    return _KEY.fullmatch(text) is not None and len(text) <= MAX_LENGTH
  return len(text) <= MAX_LENGTH and text == _cleaned(text)


def normal(name: str) -> str:
  """Returns the name of a file in NFC: macOS lists `ñ` as `n` and a mark, and the same file must get the same key."""
  return name if name.isascii() else unicodedata.normalize("NFC", name)


def is_safe(stem: str) -> bool:
  """Whether a file name without its suffix, in its normal form, can be a key unchanged."""
  return stem == _safe(stem) != ""


def hashed(stem: str, path: str) -> str:
  """Returns a key for a name that is unsafe or not unique: a hash of the path within the folder is appended."""
  return f"{_safe(normal(stem)) or 'picture'}-{digest(normal(path))[:8]}"


def _safe(stem: str) -> str:
  return _cleaned(stem)[:_MOST]


def _cleaned(text: str) -> str:
  if text.isascii():
    return _UNSAFE.sub("_", text).lstrip("_.-")
  kept = (char if _is_kept(char) else " " for char in normal(text))
  return re.sub(" +", "_", "".join(kept)).lstrip("_.-")


def _is_kept(char: str) -> bool:
  return char in "_.-" or unicodedata.category(char)[0] in "LMN"
