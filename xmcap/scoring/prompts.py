"""Prompts for zero-shot classification: templates with a placeholder for the class name, by language."""

import os
from collections import Counter
from collections.abc import Sequence

import msgspec

from xmcap.errors import UsageError
from xmcap.scoring import embedding_files
from xmcap.scoring.inputs import Input
from xmcap.terminal import shown

PLACE = "{}"
ALONE = (PLACE,)
"""The bare class name, for languages without prompts."""


def read_prompts(path: str | os.PathLike) -> dict[str, tuple[str, ...]]:
  """Reads {"DE": ["ein Bild von {}", ...], ...}; strips the prompts.

  Raises:
    UsageError: the layout is wrong, a language is unknown or repeated, or a prompt does not have exactly one `{}`.
  """
  with Input(path) as source:
    content = source.document()
  try:
    lists = msgspec.convert(content, dict[str, list[str]])
  except msgspec.ValidationError as error:
    raise UsageError(
      f'{path}: not a file of prompts ({shown(error)}); write {{"DE": ["ein Bild von {{}}", ...]}}'
    ) from None
  found: dict[str, tuple[str, ...]] = {}
  for name, prompts in lists.items():
    code = embedding_files.language(name, str(path))
    if code in found:
      raise UsageError(f"{path}: the language '{code}' occurs twice; keep one")
    if not prompts:
      raise UsageError(f"{path}, '{name}': has no prompts; leave out the language")
    for number, prompt in enumerate(prompts):
      if prompt.count(PLACE) != 1:
        raise UsageError(
          f"{path}, '{name}', prompt {number} ('{shown(prompt)}'): has {PLACE} {prompt.count(PLACE)} times; "
          "it must have it exactly once, for the class name"
        )
    found[code] = tuple(prompt.strip() for prompt in prompts)
  return found


def distinct(prompts: Sequence[str]) -> dict[str, int]:
  """Returns prompt -> count, so that each distinct prompt is embedded once: translations often coincide."""
  return dict(Counter(prompts))


def fill(prompt: str, name: str) -> str:
  """Returns the prompt with the class name inserted; other braces are ordinary characters."""
  before, _, after = prompt.partition(PLACE)
  return f"{before}{name}{after}"
