"""Whether a picture is like those that a model was evaluated on, by how sure it is of its captions.

`xmcap eval` writes `familiar.json` into the model folder: the mean probability of a caption's tokens, for pictures of
the evaluation and all its languages. `xmcap caption` warns of a picture whose mean over the languages asked for is
below that of all but 2% of them. One language says little, as a model may be sure and wrong; many say more.
"""

import json
import math
import os
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from etils import epath

from xmcap.errors import UsageError
from xmcap.storage import files
from xmcap.training.checkpoints import small_json

NAME = "familiar.json"
FEWEST = 100
"""Pictures of an evaluation below which nothing is written: 2% of fewer is none."""
_MOST = 500  # pictures that are kept, evenly from the evaluation
_SHARE = 0.02  # of familiar pictures that are warned of
_FORMAT = "xmcap.familiar"

Probabilities = Mapping[tuple[str, str], float]
"""(picture, language) -> mean probability of the tokens of its caption."""
Known = Mapping[str, Sequence[float]]
"""Language -> those of the pictures of an evaluation, in the same order for each."""


def write(model_dir: str | os.PathLike, probabilities: Probabilities) -> str:
  """Writes the file if there are enough pictures; returns a line that says why not, or ""."""
  codes = sorted({code for _, code in probabilities})
  # Each picture has all languages, or what is compared would not be the same pictures.
  keys = [
    key
    for key in dict.fromkeys(key for key, _ in probabilities)
    if all((key, code) in probabilities for code in codes)
  ]
  if len(keys) < FEWEST:
    return ""
  kept = [keys[place] for place in np.linspace(0, len(keys) - 1, min(len(keys), _MOST)).astype(int)]
  known = {code: [round(probabilities[key, code], 3) for key in kept] for code in codes}
  try:
    text = json.dumps({"format": _FORMAT, "version": 2, "probabilities": known}) + "\n"
    files.write_anywhere(epath.Path(model_dir) / NAME, text.encode())
  except OSError as error:
    return f"{model_dir}: {NAME} cannot be written ({error.strerror}): xmcap caption will not warn"
  return ""


def read(model_dir: str | os.PathLike) -> Known:
  """What `write` wrote; {} for a folder without the file. UsageError if it is not what `write` wrote."""
  file = epath.Path(model_dir) / NAME
  if not file.exists():
    return {}
  try:
    values = small_json.read(file)
  except (ValueError, OSError) as error:
    raise UsageError(f"{file}: cannot be read ({error}): remove it, or run xmcap eval again") from None
  known = values.get("probabilities")
  if values.get("format") != _FORMAT or not isinstance(known, dict) or not _is_table(known.values()):
    raise UsageError(f"{file}: no {NAME} of this xmcap: remove it, or run xmcap eval again")
  return known


def unlike(known: Known, probabilities: Probabilities, key: str, codes: Sequence[str]) -> str:
  """A warning for a picture whose captions in these languages are less sure than 98% of those known; or ""."""
  codes = [code for code in codes if code in known and (key, code) in probabilities]
  if not codes:
    return ""
  found = math.fsum(probabilities[key, code] for code in codes) / len(codes)
  limit = float(np.quantile(np.mean([known[code] for code in codes], axis=0), _SHARE))
  if found >= limit:
    return ""
  return (
    f"{key}: may be unlike what the model knows: mean token probability {found:.2f}, and 98% of the pictures of its"
    f" evaluation have {limit:.2f} or more"
  )


def _is_table(columns: Collection[object]) -> bool:
  """Whether these are lists of shares, all as long as the first, which is not empty."""
  lists = [column for column in columns if isinstance(column, list)]
  lengths = {len(column) for column in lists}
  return (
    len(lists) == len(columns)
    and len(lengths) == 1
    and 0 not in lengths
    and all(_is_share(value) for column in lists for value in column)
  )


def _is_share(value: object) -> bool:
  return isinstance(value, float | int) and not isinstance(value, bool) and 0 <= value <= 1
