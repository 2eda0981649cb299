"""Prompts of zero-shot classification: by language, texts with a place for the name of a class."""

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
"""The name alone, where a language has no prompts."""


def read_prompts(path: str | os.PathLike) -> dict[str, tuple[str, ...]]:
  """Reads {"DE": ["ein Bild von {}", ...], ...}; spaces around a prompt are left out.

  Raises:
    UsageError: another layout, a language that is unknown or there twice, or a prompt without one `{}`.
  """
  with Input(path) as source:
    content = source.document()
  try:
    lists = msgspec.convert(content, dict[str, list[str]])
  except msgspec.ValidationError as error:
    raise UsageError(
      f'{path}: no prompts ({shown(error)}); write {{"DE": ["ein Bild von {{}}", ...]}}'
    ) from None
  found: dict[str, tuple[str, ...]] = {}
  for name, prompts in lists.items():
    code = embedding_files.language(name, str(path))
    if code in found:
      raise UsageError(f"{path}: the language '{code}' is there twice; keep one")
    if not prompts:
      raise UsageError(f"{path}, '{name}': no prompt; leave the language out")
    for number, prompt in enumerate(prompts):
      if prompt.count(PLACE) != 1:
        raise UsageError(
          f"{path}, '{name}', prompt {number} ('{shown(prompt)}'): has {PLACE} {prompt.count(PLACE)} times; "
          "the name of a class goes into one place"
        )
    found[code] = tuple(prompt.strip() for prompt in prompts)
  return found


def distinct(prompts: Sequence[str]) -> dict[str, int]:
  """Returns prompt -> how often it is there, so that each is embedded once: translations often coincide."""
  return dict(Counter(prompts))


def fill(prompt: str, name: str) -> str:
  """Returns the prompt with the name of a class in its place; other braces in it mean nothing."""
  before, _, after = prompt.partition(PLACE)
  return f"{before}{name}{after}"
