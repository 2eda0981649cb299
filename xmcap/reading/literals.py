"""Values that a text holds as JSON or Python writes them, such as a list of captions in a cell. They run no code.

What nests deeper than `strict_json.MOST_NESTED` is no value, whatever this version of Python could read.
"""

import ast
import json
import warnings
from typing import Any

from xmcap.files import strict_json

MOST_PYTHON = 1 << 20
"""Most characters of Python that are parsed, which takes up to 500 bytes for each."""


def parse(text: str) -> Any:
  """Returns the value of JSON, or else of Python; ValueError if the text is neither."""
  try:
    return of_json(text)
  except ValueError:
    return of_python(text)


def of_json(text: str) -> Any:
  """Returns the value of JSON, in which NaN and repeated names are allowed; ValueError for anything else."""
  if strict_json.is_deep(text.encode("utf-8", "replace")):
    raise ValueError("nested too deeply")
  try:
    return json.loads(text)
  except RecursionError as error:  # of a text that is not JSON
    raise ValueError("nested too deeply") from error


def of_python(text: str) -> Any:
  """Returns the value of a literal of Python of at most MOST_PYTHON characters; ValueError for anything else."""
  if len(text) > MOST_PYTHON or strict_json.is_deep(text.encode("utf-8", "replace")):
    raise ValueError("too long, or nested too deeply")
  try:
    with warnings.catch_warnings():
      warnings.simplefilter("ignore")  # of escapes that Python does not know
      return ast.literal_eval(text)
  except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
    raise ValueError("not a literal of Python") from error
