"""Existing translations of ImageNet's 1,000 classes, with prompts by people, as LAION-AI/CLIP_benchmark keeps them.

Its folder `clip_benchmark/datasets` has `LANGUAGE_classnames.json`, {"imagenet1k": [name, ...]} in the order of the
sorted wnids, and `LANGUAGE_zeroshot_classification_templates.json`, whose templates have {c} for the name; cn is zh, jp
is ja. Geigle et al., "Babel-ImageNet" (ACL 2024), C.2 and Figure 6, compare labels and prompts with those of Arabic,
Chinese, Japanese and Italian, on the classes that Babel-ImageNet has a label for.
"""

import os
import pathlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.ranked import prompts
from xmcap.ranked.zero_shot import Labels
from xmcap.reading import jsonl

_NAMES, _TEMPLATES = "_classnames.json", "_zeroshot_classification_templates.json"
_PLACE = "{c}"
_CODES = {"cn": "zh", "jp": "ja"}
_HINT = "give clip_benchmark/datasets of LAION-AI/CLIP_benchmark"


class _File(msgspec.Struct):
  imagenet1k: list[str]


class Translation(NamedTuple):
  """The names of all classes in a language, and its templates with `prompts.PLACE`."""

  names: tuple[str, ...]
  templates: tuple[str, ...]


def read(folder: str | os.PathLike) -> dict[str, Translation]:
  """Returns language code -> its translation; UsageError if there is none, or a file is malformed."""
  made = {}
  for path in sorted(pathlib.Path(folder).glob(f"*{_NAMES}")):
    name = path.name.removesuffix(_NAMES)
    language = languages.canonical(_CODES.get(name, name))
    if language is None:
      raise UsageError(f"{path}: '{name}' is no language; {_HINT}")
    beside = path.with_name(f"{name}{_TEMPLATES}")
    names, templates = (
      jsonl.read_document(file, _File, "not a file of CLIP_benchmark", _HINT).imagenet1k
      for file in (path, beside)
    )
    if not templates or any(len(template.split(_PLACE)) != 2 for template in templates):
      raise UsageError(f"{beside}: each template must have {_PLACE} exactly once; {_HINT}")
    templates = (template.replace(_PLACE, prompts.PLACE) for template in templates)
    made[language] = Translation(tuple(names), tuple(templates))
  if not made:
    raise UsageError(f"{folder}: has no file such as ar{_NAMES}; {_HINT}")
  return made


def of_classes(
  translations: Mapping[str, Translation], labels: Mapping[str, Labels]
) -> dict[str, list[list]]:
  """Returns code -> [indices, names], the translations of the classes that have a label in the language.

  UsageError if no language has both, or a class has no name.
  """
  made: dict[str, list[list]] = {}
  for language in (language for language in translations if language in labels):
    names, indices = translations[language].names, labels[language].indices.tolist()
    if missing := [index for index in indices if index >= len(names) or not names[index].strip()]:
      raise UsageError(f"'{language}': class {missing[0]} has no name in CLIP_benchmark's file; {_HINT}")
    made[language] = [indices, [names[index] for index in indices]]
  if not made:
    raise UsageError(f"no language has labels and one of the translations ({', '.join(translations)})")
  return made
