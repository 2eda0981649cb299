"""Prompts for zero-shot classification: templates with a placeholder for the class name, by language."""

import os
from collections.abc import Collection

from xmcap import languages, wording
from xmcap.errors import UsageError
from xmcap.reading import jsonl
from xmcap.terminal import shown

PLACE = "{}"
ALONE = (PLACE,)
"""The bare class name, for languages without prompts."""


def read_prompts(path: str | os.PathLike) -> dict[str, tuple[str, ...]]:
  """Reads {"DE": ["ein Bild von {}", ...], ...}; strips the prompts.

  Raises:
    UsageError: the layout is wrong, a language is unknown or repeated, or a prompt does not have exactly one `{}`.
  """
  hint = 'write {"DE": ["ein Bild von {}", ...]}'
  lists = jsonl.read_document(path, dict[str, list[str]], "not a file of prompts", hint)
  for name, prompts in lists.items():
    if not prompts:
      raise UsageError(f"{path}, '{name}': has no prompts; leave out the language")
    for number, prompt in enumerate(prompts):
      if prompt.count(PLACE) != 1:
        raise UsageError(
          f"{path}, '{name}', prompt {number} ('{shown(prompt)}'): has {PLACE} {prompt.count(PLACE)} times; "
          "it must have it exactly once, for the class name"
        )
  return languages.by_language(
    ((name, tuple(prompt.strip() for prompt in prompts)) for name, prompts in lists.items()),
    path,
    languages.of_wikipedia,
  )


def unmatched(prompts: Collection[str], labels: Collection[str]) -> list[str]:
  """Returns the lines about language codes with labels and no prompts, and with prompts and no labels."""
  sides = {
    "no prompts in {}, whose names are embedded alone": [code for code in labels if code not in prompts],
    "no labels in {}, whose prompts are not used": [code for code in prompts if code not in labels],
  }
  return [line.format(wording.first_few(codes)) for line, codes in sides.items() if codes]


def fill(prompt: str, name: str) -> str:
  """Returns the prompt with the class name inserted; other braces are ordinary characters."""
  return prompt.replace(PLACE, name)
