"""Subsets of the images: those listed in a file, or 600 drawn with a seed.

The human evaluation in XM3600's paper uses 600 of the images (XM600), which were never published. The next best thing
is a random draw whose seed is in the signature.
"""

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from xmcap import wording
from xmcap.digests import digest
from xmcap.errors import UsageError
from xmcap.reading.inputs import Input
from xmcap.reading.predictions import Predictions
from xmcap.reading.references import References
from xmcap.terminal import shown

_DRAW = "xm600:"
_SIZE = 600


def check(spec: str | os.PathLike) -> None:
  """Raises UsageError if SEED is not an integer, or if the file does not exist."""
  spec = os.fspath(spec)
  if spec.startswith(_DRAW) and not re.fullmatch("[0-9]{1,18}", spec.removeprefix(_DRAW)):
    raise UsageError(f"--subset={shown(spec)}: SEED must be a whole number, as in {_DRAW}7")
  if not spec.startswith(_DRAW) and not os.path.exists(spec):
    raise UsageError(
      f"--subset={shown(spec, limit=500)}: no such file of image keys; to draw {_SIZE} images give "
      f"{_DRAW}SEED, such as {_DRAW}7"
    )


def choose(spec: str | os.PathLike, references: Mapping[str, object]) -> tuple[tuple[str, ...], str]:
  """Chooses images; returns their keys in alphabetical order, and the name of the subset in the signature.

  The name is `xm600:7`, or `file#` and 16 hex digits of the SHA-256 of the keys, one per line.

  Args:
    spec: `xm600:SEED`, which draws 600 of the keys independently of their order; or a file with one key per line.
    references: the images to choose from, by key.

  Raises:
    UsageError: as `check`, or there are fewer than 600 images, or the file names images without references.
  """
  spec = os.fspath(spec)
  check(spec)
  if spec.startswith(_DRAW):
    return _drawn(spec, references)
  keys = tuple(sorted(_read_keys(spec, references)))
  hashed = digest("\n".join(keys))
  return keys, f"file#{hashed}"


def take(references: References, keys: Collection[str]) -> References:
  """Returns the references of the chosen images, in their old order."""
  chosen = set(keys)

  def of_chosen(by_key: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in by_key.items() if key in chosen}

  return References(of_chosen(references), of_chosen(references.locales), of_chosen(references.tokenized))


def take_predictions(
  predictions: Predictions, references: Mapping[str, object], keys: Collection[str]
) -> Predictions:
  """Drops predictions of images that have references but are not among the chosen keys.

  Predictions of unknown images stay, so that `match_references` reports them.
  """
  left_out = references.keys() - set(keys)
  return {key: captions for key, captions in predictions.items() if key not in left_out}


def _drawn(spec: str, keys: Collection[str]) -> tuple[tuple[str, ...], str]:
  label = f"{_DRAW}{int(spec.removeprefix(_DRAW))}"
  if len(keys) < _SIZE:
    raise UsageError(f"--subset={spec}: draws {_SIZE} images, but the references have only {len(keys):,}")

  def rank(key: str) -> bytes:
    # A hash instead of a random generator: the draw depends only on seed and key, on every platform.
    return hashlib.sha256(f"{label}:{key}".encode()).digest()

  return tuple(sorted(sorted(keys, key=rank)[:_SIZE])), label


def _read_keys(path: str, references: Mapping[str, object]) -> Iterable[str]:
  with Input(path) as source:
    lines = source.distinct_lines()
  unknown = [f"'{shown(key)}' on line {number}" for key, number in lines.items() if key not in references]
  if unknown:
    raise UsageError(
      f"{path}: {wording.count(len(unknown), 'key')} not among the images of the references "
      f"({wording.first_few(unknown)}); remove them"
    )
  if not lines:
    raise UsageError(f"{path}: contains no keys; give one image key per line, or draw with {_DRAW}SEED")
  return lines
