"""Subsets of the images: those that a file names, or 600 drawn by a seed.

XM3600's paper compares systems by people on 600 of the images (XM600), which were never published; a draw by
a seed that the signature names is the next best thing.
"""

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.inputs import Input
from xmcap.scoring.predictions import Predictions
from xmcap.scoring.references import References
from xmcap.terminal import shown

_DRAW = "xm600:"
_SIZE = 600


def check(spec: str | os.PathLike) -> None:
  """Raises a UsageError if SEED is no whole number, or there is no such file."""
  spec = os.fspath(spec)
  if spec.startswith(_DRAW) and not re.fullmatch("[0-9]{1,18}", spec.removeprefix(_DRAW)):
    raise UsageError(f"--subset={shown(spec)}: SEED must be a whole number, as in {_DRAW}7")
  if not spec.startswith(_DRAW) and not os.path.exists(spec):
    raise UsageError(
      f"--subset={shown(spec, limit=500)}: no such file of image keys; to draw {_SIZE} images give "
      f"{_DRAW}SEED, such as {_DRAW}7"
    )


def choose(spec: str | os.PathLike, references: Mapping[str, object]) -> tuple[tuple[str, ...], str]:
  """Chooses images; returns their keys in alphabetical order, and what the signature calls them.

  That is `xm600:7`, or `file#` and 16 hex digits of the SHA-256 of the keys, a line each.

  Args:
    spec: `xm600:SEED`, which draws 600 of the keys, the same ones whatever their order; or a file of keys,
      one a line.
    references: the images to choose from, by key.

  Raises:
    UsageError: as `check`, or there are fewer than 600 images, or the file does not name images of the references.
  """
  spec = os.fspath(spec)
  check(spec)
  if spec.startswith(_DRAW):
    return _drawn(spec, references)
  keys = tuple(sorted(_read_keys(spec, references)))
  digest = hashlib.sha256("\n".join(keys).encode()).hexdigest()
  return keys, f"file#{digest[:16]}"


def take(references: References, keys: Collection[str]) -> References:
  """Returns the references of some of the images, in their old order."""
  chosen = set(keys)

  def of_chosen(held: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in held.items() if key in chosen}

  return References(of_chosen(references), of_chosen(references.locales), of_chosen(references.tokenized))


def take_predictions(
  predictions: Predictions, references: Mapping[str, object], keys: Collection[str]
) -> Predictions:
  """Leaves out the predictions of images that have references and are not among the chosen keys.

  Those of unknown images stay, so that `match_references` finds them as it does without a subset.
  """
  left_out = references.keys() - set(keys)
  return {key: captions for key, captions in predictions.items() if key not in left_out}


def _drawn(spec: str, keys: Collection[str]) -> tuple[tuple[str, ...], str]:
  label = f"{_DRAW}{int(spec.removeprefix(_DRAW))}"
  if len(keys) < _SIZE:
    raise UsageError(f"--subset={spec}: draws {_SIZE} images, and the references have {len(keys):,}")

  def rank(key: str) -> bytes:
    # A hash and no random generator: the draw depends on the seed and the key alone, on every platform.
    return hashlib.sha256(f"{label}:{key}".encode()).digest()

  return tuple(sorted(sorted(keys, key=rank)[:_SIZE])), label


def _read_keys(path: str, known: Mapping[str, object]) -> Iterable[str]:
  lines: dict[str, int] = {}
  unknown = []
  with Input(path) as source:
    for number, key in source.lines():
      if key in lines:
        raise UsageError(f"{path}, line {number}: '{shown(key)}' is on line {lines[key]} already; keep one")
      lines[key] = number
      if key not in known:
        unknown.append(f"'{shown(key)}' on line {number}")
  if unknown:
    raise UsageError(
      f"{path}: {files.count(len(unknown), 'key')} not among the images of the references "
      f"({files.first_few(unknown)}); remove them"
    )
  if not lines:
    raise UsageError(f"{path}: no key in it; name an image a line, or draw with {_DRAW}SEED")
  return lines
