"""Checks the options of scoring before any file is read; strings are parsed like command-line options."""

import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xmcap import languages as languages_lib
from xmcap.arguments import checked
from xmcap.errors import UsageError
from xmcap.reading import predictions, subsets
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring import protocols, residue, tokenizers
from xmcap.scoring import vectors as vectors_lib
from xmcap.terminal import shown

MAX_RESAMPLES = 100_000
"""Largest number of resamples of the images; on all of XM3600 they take minutes."""

WRONG_LANGUAGE = ("keep", "zero")
"""What can be done with captions in another language: score them as they are, or as empty captions."""

MAX_SEED = 2**63 - 1


@checked
def check(
  languages: str | Sequence[str] | None = None,
  metrics: str | Sequence[str] | None = None,
  tokenizer: str | None = None,
  normalize: str = "",
  subset: str | os.PathLike = "",
  missing: str = "refuse",
  bootstrap: int = 0,
  seed: int = 0,
  protocol: str | None = None,
  scale: int | None = None,
  document_frequencies: object = None,
  wrong_language: str = "keep",
  clean: str | Sequence[str] = "",
  vectors: "str | os.PathLike | vectors_lib.Vectors" = "",
  health: bool = False,
  **others: Any,
) -> protocols.Settled:
  """Checks those options of `score` that can be checked without the captions; `others` need no check.

  Returns:
    The options that the protocol determines.

  Raises:
    UsageError: an option has an invalid value, the file of a subset does not exist, or as `vectors.check`.
  """
  settled = protocols.settle(
    protocol,
    tokenizer=tokenizer,
    chosen=None if metrics is None else metric_names(metrics),
    subset=bool(subset),
    document_frequencies=bool(document_frequencies),
    scale=scale,
    changes={
      "normalize": normalize,
      "clean": ",".join(residue.parse(clean)),
      "wrong_language": wrong_language.replace("keep", ""),
    },
  )
  settled.check_languages(language_codes(languages) or ())
  for code in language_codes(languages) or ("en",):
    tokenizers.get(settled.tokenizer, code, normalize)
  if subset:
    subsets.check(subset)
  predictions.check_missing(missing)
  if wrong_language not in WRONG_LANGUAGE:
    raise UsageError(f"--wrong_language={shown(str(wrong_language))}: must be {' or '.join(WRONG_LANGUAGE)}")
  vectors_lib.check(settled.metrics, vectors, health, wrong_language == "zero")
  check_count("bootstrap", bootstrap, MAX_RESAMPLES)
  check_count("seed", seed, MAX_SEED)
  return settled


def metric_names(
  names: str | Sequence[str], known: Mapping[str, metrics_lib.Metric] = metrics_lib.CAPTION_METRICS
) -> tuple[str, ...]:
  """Returns the named metrics in the order of the columns of a table; UsageError as `metrics.parse`."""
  return metrics_lib.parse(",".join(_names("metrics", names, known)), known)


def language_codes(codes: str | Sequence[str] | None) -> tuple[str, ...] | None:
  """Returns the named codes, or None for all; UsageError if a code is unknown, or if there are no codes."""
  if codes is None:
    return None
  if isinstance(codes, str):
    return languages_lib.parse(codes)
  return tuple(languages_lib.get(code).code for code in _names("languages", codes, languages_lib.LANGUAGES))


def check_count(name: str, value: Any, highest: int) -> None:
  """Raises UsageError if the option is not an integer from 0 to the highest."""
  if not isinstance(value, numbers.Integral) or not 0 <= int(value) <= highest:
    raise UsageError(f"--{name}: must be a whole number from 0 to {highest:,}")


def _names(option: str, names: str | Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
  names = tuple(part.strip() for part in names.split(",")) if isinstance(names, str) else tuple(names)
  if not names or not all(isinstance(name, str) for name in names):
    raise UsageError(f"{option}: {shown(repr(names))} is not a list of names; there are {', '.join(known)}")
  return names
