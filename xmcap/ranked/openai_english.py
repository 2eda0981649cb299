"""OpenAI's 1,000 English names and 80 templates for ImageNet, with which the Babel-ImageNet paper scores English.

They are OpenAI's texts and are not part of xmcap: they are read from the user's copy of the paper's repository, where
they are two lists in `benchmark/data/babel_imagenet.py`. That file is parsed, never run.
"""

import ast
import os
from typing import NamedTuple

from xmcap import digests
from xmcap.errors import UsageError
from xmcap.ranked import prompts
from xmcap.reading import label_words, literals
from xmcap.reading.inputs import Input

NAMES = 1_000
DIGEST = "1000#571ae1c583b4be7d"
"""Number and hash of the names in the paper's repository (317c498)."""


class English(NamedTuple):
  """The names in the order of the classes, and the templates."""

  names: tuple[str, ...]
  templates: tuple[str, ...]


def read(path: str | os.PathLike) -> English:
  """Reads the two lists, whatever they are called; UsageError if there is not exactly one of each."""
  with Input(path) as source:
    text = source.text()
  if len(text) > literals.MOST_PYTHON:
    raise UsageError(
      f"{path}: {len(text):,} characters of Python; give benchmark/data/babel_imagenet.py of Babel-ImageNet"
    )
  try:
    body = ast.parse(text).body
  except (SyntaxError, ValueError, RecursionError, MemoryError):
    raise UsageError(f"{path}: not Python; give benchmark/data/babel_imagenet.py of Babel-ImageNet") from None
  lists = [
    texts for statement in body if isinstance(statement, ast.Assign) and (texts := _texts(statement.value))
  ]
  templates = [texts for texts in lists if all(text.count(prompts.PLACE) == 1 for text in texts)]
  names = [texts for texts in lists if len(texts) == NAMES and texts not in templates]
  if len(names) != 1 or len(templates) != 1:
    raise UsageError(
      f"{path}: has {len(names)} lists of 1,000 names and {len(templates)} of templates with {{}}, not one of each; "
      "give benchmark/data/babel_imagenet.py of Babel-ImageNet"
    )
  return English(names[0], templates[0])


def note(names: tuple[str, ...]) -> list[str]:
  """Returns the note of a table whose English names of all classes are not those of the paper."""
  if len(names) != NAMES or DIGEST in (
    digests.of_texts(names),
    digests.of_texts(map(label_words.word, names)),
  ):
    return []
  return [
    "en: these 1,000 names are not OpenAI's, with which the paper scores English; `xmcap data labels --english` puts "
    "them into the labels"
  ]


def _texts(value: ast.expr) -> tuple[str, ...]:
  """Returns the texts of a literal list or tuple of texts; () for anything else."""
  if not isinstance(value, ast.List | ast.Tuple):
    return ()
  constants = [element.value for element in value.elts if isinstance(element, ast.Constant)]
  texts = tuple(text for text in constants if isinstance(text, str))
  return texts if len(texts) == len(value.elts) else ()
