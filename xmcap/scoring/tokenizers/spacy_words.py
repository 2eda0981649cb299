"""The words of spaCy 3's default tokenisers in Chinese, Japanese and Thai, without spaCy.

spaCy splits Chinese into characters, Japanese with Sudachi in mode A, and Thai with pythainlp's `word_tokenize`. Spaces
are left as words of their own, which no score sees, because the words are joined by spaces and split again.
"""

import importlib.metadata
import os
from collections.abc import Callable, Iterable

from xmcap import extras
from xmcap.errors import UsageError

Segment = Callable[[str], Iterable[str]]
"""Splits a text into words."""

LANGUAGES = ("ja", "th", "zh")

_PACKAGES = {"ja": ("sudachipy", "sudachidict_core"), "th": ("pythainlp",), "zh": ()}


def load(language: str) -> Segment:
  """Returns the function that splits a text of one of `LANGUAGES`; UsageError if a package is not installed."""
  try:
    return {"ja": _japanese, "th": _thai, "zh": lambda: list}[language]()
  except (ImportError, OSError, RuntimeError) as error:
    raise _missing(language, str(error)) from error


def version(language: str) -> str:
  """Returns what determines the words, such as `spacy-th.pythainlp-5.4.0`; "" for other languages.

  Raises:
    UsageError: a package is not installed.
  """
  if language not in LANGUAGES:
    return ""
  try:
    packages = [f"{name}-{importlib.metadata.version(name)}" for name in _PACKAGES[language]]
  except importlib.metadata.PackageNotFoundError as error:
    raise _missing(language, f"no {error.name}") from error
  return ".".join([f"spacy-{language}", *(["+".join(packages)] if packages else ["characters"])])


def _missing(language: str, problem: str) -> UsageError:
  way = extras.install("protocols") if language == "ja" else f"pip install {' '.join(_PACKAGES[language])}"
  return UsageError(
    f"spaCy's words for '{language}' need {' and '.join(_PACKAGES[language])} ({' '.join(problem.split())}): {way}"
  )


def _japanese() -> Segment:
  from sudachipy import Dictionary, SplitMode

  tokenizer = Dictionary(dict="core").tokenizer(mode=SplitMode.A)
  return lambda text: [word.surface() for word in tokenizer.tokenize(text)]


def _thai() -> Segment:
  # Otherwise pythainlp makes a folder in the user's home.
  if "PYTHAINLP_READ_MODE" not in os.environ:
    os.environ.setdefault("PYTHAINLP_READ_ONLY", "1")
  from pythainlp.tokenize import word_tokenize

  return word_tokenize
