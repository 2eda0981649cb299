"""Hashes that name texts and sets of images in signatures and keys."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any


def digest(text: str) -> str:
  """Returns a hash of a text as 16 hex digits."""
  return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def of_texts(texts: Iterable[str]) -> str:
  """Returns the number of texts and a hash of them, in this order, as `NUMBER#16 hex digits`."""
  texts = list(texts)
  hashed = digest("\n".join(texts))
  return f"{len(texts)}#{hashed}"


def of_images(keys: Iterable[str]) -> str:
  """Returns the part `images`: the number of keys, and a hash of the sorted keys."""
  return of_texts(sorted(keys))


def of_json(value: Any) -> str:
  """Returns a hash of a JSON value as 16 hex digits; `xmcap embed` identifies texts by it."""
  return digest(json.dumps(value, ensure_ascii=False))
