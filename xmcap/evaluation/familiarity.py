"""Whether a picture is like those that a model was evaluated on, by how sure it is of its captions.

`xmcap eval` writes `familiar.json` into the model folder: for each language, the mean probability of a caption's tokens
that all but 1% of its pictures reach. `xmcap caption` warns of a picture that stays below. The test is weak, since a
model may be sure and wrong: it misses most of the pictures that are unlike anything seen.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence

import numpy as np
from etils import epath

from xmcap.errors import UsageError
from xmcap.storage import files
from xmcap.training.checkpoints import small_json

NAME = "familiar.json"
FEWEST = 100
"""Pictures of an evaluation below which nothing is written: 1% of fewer is none."""
_QUANTILE = 0.01
_FORMAT = "xmcap.familiar"

Probabilities = Mapping[tuple[str, str], float]
"""(picture, language) -> mean probability of the tokens of its caption."""


def write(model_dir: str | os.PathLike, probabilities: Probabilities) -> str:
  """Writes the file if there are enough pictures; returns a line that says why not, or ""."""
  by_language: dict[str, list[float]] = {}
  for (_, code), probability in probabilities.items():
    by_language.setdefault(code, []).append(probability)
  least = {
    code: float(np.quantile(found, _QUANTILE))
    for code, found in sorted(by_language.items())
    if len(found) >= FEWEST
  }
  if not least:
    return ""
  try:
    text = json.dumps({"format": _FORMAT, "version": 1, "least": least}, indent=2) + "\n"
    files.write_anywhere(epath.Path(model_dir) / NAME, text.encode())
  except OSError as error:
    return f"{model_dir}: {NAME} cannot be written ({error.strerror}): xmcap caption will not warn"
  return ""


def read(model_dir: str | os.PathLike) -> dict[str, float]:
  """Language -> the probability; {} for a folder without the file. UsageError if it is not what `write` wrote."""
  file = epath.Path(model_dir) / NAME
  if not file.exists():
    return {}
  try:
    values = small_json.read(file)
  except (ValueError, OSError) as error:
    raise UsageError(f"{file}: cannot be read ({error}): remove it, or run xmcap eval again") from None
  least = values.get("least")
  if (
    values.get("format") != _FORMAT or not isinstance(least, dict) or not all(map(_is_share, least.values()))
  ):
    raise UsageError(f"{file}: no {NAME} of xmcap: remove it, or run xmcap eval again")
  return least


def unlike(least: Mapping[str, float], probabilities: Probabilities, key: str, codes: Sequence[str]) -> str:
  """A warning for a picture whose captions in these languages are less sure than 99% of those known; or ""."""
  known = [code for code in codes if code in least and (key, code) in probabilities]
  if not known:
    return ""
  found = math.fsum(probabilities[key, code] for code in known) / len(known)
  limit = math.fsum(least[code] for code in known) / len(known)
  if found >= limit:
    return ""
  return (
    f"{key}: may be unlike what the model knows: mean token probability {found:.2f}, and 99% of the pictures of its"
    f" evaluation have {limit:.2f} or more"
  )


def _is_share(value: object) -> bool:
  return isinstance(value, float | int) and not isinstance(value, bool) and 0 <= value <= 1
