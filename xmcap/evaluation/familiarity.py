"""Tells whether an image is like those that a model was evaluated on, by the probabilities of its captions.

`xmcap eval` writes `familiar.json` into the model folder: the mean token probability of each caption, for images of
the evaluation and all languages. `xmcap caption` and `xmcap serve` warn about an image whose mean over the requested
languages is below that of 98% of them. A single language says little, because a model can be confident and wrong; many
say more.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np

from xmcap.errors import UsageError, one_line
from xmcap.files import files, refusals
from xmcap.files.bucket_paths import epath
from xmcap.training.checkpoints import small_json

NAME = "familiar.json"
FEWEST = 50
"""Smallest number of images in an evaluation for which the file is written: the lowest is then 2% of them."""
_MOST = 500  # images in the file, spread evenly over the evaluation
_SHARE = 0.02  # share of familiar images that would get a warning

_Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]

Probabilities = Mapping[tuple[str, str], float]
"""(image, language) -> mean token probability of its caption."""
Known = Mapping[str, Sequence[float]]
"""Language -> mean token probabilities of the images of an evaluation, in the same order for each."""


class _File(msgspec.Struct):
  format: Literal["xmcap.familiar"]
  probabilities: dict[str, Annotated[list[_Probability], msgspec.Meta(min_length=1)]]


def write(model_dir: str | os.PathLike, probabilities: Probabilities) -> str:
  """Writes the file if there are enough images; returns a line that says why there is none, else ""."""
  languages = sorted({language for _, language in probabilities})
  # Only images with all languages, so that all languages have the same images.
  keys = [
    key
    for key in dict.fromkeys(key for key, _ in probabilities)
    if all((key, language) in probabilities for language in languages)
  ]
  path = epath.Path(model_dir) / NAME
  lacks = "xmcap caption and xmcap serve will not warn of unlike pictures"
  if len(keys) < FEWEST:
    if not keys or path.exists():
      return ""
    return f"{NAME} is not written for {len(keys)} pictures, it takes {FEWEST}: {lacks}"
  kept = [keys[place] for place in np.linspace(0, len(keys) - 1, min(len(keys), _MOST)).astype(int)]
  rounded = {language: [round(probabilities[key, language], 3) for key in kept] for language in languages}
  try:
    text = json.dumps({"format": "xmcap.familiar", "version": 2, "probabilities": rounded}) + "\n"
    files.write_anywhere(path, text.encode())
  except Exception as error:  # Google's, for a bucket that may only be read
    reason = error.strerror if isinstance(error, OSError) else refusals.explained(error, os.fspath(model_dir))
    if reason is None:
      raise
    return f"{model_dir}: {NAME} cannot be written ({reason}): {lacks}"
  return ""


def read(model_dir: str | os.PathLike) -> Known:
  """Reads the file; {} if there is none. UsageError if it is malformed."""
  file = epath.Path(model_dir) / NAME
  if not file.exists():
    return {}
  try:
    familiar = msgspec.convert(small_json.read(file), _File).probabilities
  except (ValueError, OSError) as error:
    raise UsageError(
      f"{file}: cannot be read ({one_line(error)}): remove it, or run xmcap eval again"
    ) from None
  if len({len(column) for column in familiar.values()}) != 1:
    raise UsageError(f"{file}: the languages have different pictures: remove it, or run xmcap eval again")
  return familiar


def unlike(familiar: Known, probabilities: Mapping[str, float | None]) -> str:
  """A warning if an image's captions are less probable than those of 98% of the known images; else "".

  `probabilities` has the mean token probability of the caption in each language; None with another search than greedy.
  """
  means = {
    language: mean for language, mean in probabilities.items() if mean is not None and language in familiar
  }
  if not means:
    return ""
  mean = math.fsum(means.values()) / len(means)
  limit = float(np.quantile(np.mean([familiar[language] for language in means], axis=0), _SHARE))
  if mean >= limit:
    return ""
  return (
    f"may be unlike the pictures that the model knows: mean token probability {mean:.2f}, while 98% of the"
    f" pictures of its evaluation have {limit:.2f} or more"
  )
