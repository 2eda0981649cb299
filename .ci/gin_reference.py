"""Prints every parameter that gin can set, out of signatures, docstrings and gin files: a page of the site.

usage: python .ci/gin_reference.py     (fails if a parameter has no docstring)
"""

import importlib
import inspect
import os
import pathlib
import pkgutil
import re
import sys
import typing
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]

_HEAD = """# Gin parameters

`--gin.NAME=VALUE` sets one, and so does a line `NAME = VALUE` of a gin file. This page has them all: first those of
functions and classes, by package, then the macros of the gin files, which set several parameters at once. `--explain`
prints what a run's files come to. *Required*: there is no default. How files go together: [training.md](training.md).
"""
_PACKAGES = {
  "xmcap.models": "Models and decoding",
  "xmcap.training": "Training",
  "xmcap.evaluation": "Evaluation",
  "xmcap.data": "Data",
  "xmcap.families.dual": "Dual towers",
  "xmcap.families.tagging": "Taggers",
  "xmcap.families.word2visualvec": "Word2VisualVec",
  "xmcap.families.plugs": "PLuGS",
  "xmcap.families.show_and_tell": "Show and Tell",
  "xmcap.tasks": "Corpora",
  "xmcap.files": "Buckets",
}
_LONGEST = 60  # characters of a default
_ITEM = re.compile(r"^ {4}(\w+(?:, \w+)*): (.*)$")


class UndocumentedError(Exception):
  """A parameter or macro that no docstring or comment explains."""


def page() -> str:
  """The text of the page."""
  found = configurables()
  _check_names(found)
  parts, undocumented = [_HEAD], []
  for package, title in _PACKAGES.items():
    parts.append(f"## {title}\n")
    for selector, function in found.items():
      if selector.startswith(f"{package}."):
        parts.append(_section(selector, function, undocumented))
  left_out = [name for name in found if not name.startswith(tuple(f"{package}." for package in _PACKAGES))]
  parts.append("## Macros of the gin files\n")
  for file in sorted((ROOT / "gin").rglob("*.gin")):
    macros = list(_macros(file))
    undocumented += [f"{name} of {file.name}" for name, _, text in macros if not text]
    rows = [f"| `{name}` | `{_cell(value)}` | {_cell(text)} |" for name, value, text in macros]
    if rows:
      parts.append(f"### {file.relative_to(ROOT / 'gin')}\n")
      parts.append("\n".join(["| macro | value | meaning |", "| --- | --- | --- |", *rows]) + "\n")
  if undocumented or left_out:
    raise UndocumentedError(f"no docstring or comment explains {undocumented}; no heading holds {left_out}")
  return "\n".join(parts)


def configurables() -> dict[str, typing.Any]:
  """Selector -> function or class of all that xmcap registers with gin (but under t5x), by selector."""
  import seqio  # noqa: F401  # adds the corpora to itself: before the module that does so is imported by its name

  import xmcap
  import xmcap.tasks

  for module in pkgutil.walk_packages(xmcap.__path__, "xmcap."):
    if not module.name.startswith(("xmcap.t5x", "xmcap.gin", "xmcap.launch")):
      importlib.import_module(module.name)
  from gin import config

  items = sorted((name, found) for name, found in config._REGISTRY.items() if name.startswith("xmcap."))
  return {name: found.wrapped for name, found in items}


def _check_names(found: dict[str, typing.Any]) -> None:
  """Holds what xmcap reads from its own source, before anything is imported, against what gin knows."""
  from gin import config

  from xmcap import gin_names

  read = gin_names.read()
  for selector, function in found.items():
    name = selector.rsplit(".", 1)[-1]
    known = {*inspect.signature(function).parameters} - {*(config._REGISTRY[selector].denylist or ())}
    if any(one.kind is one.VAR_KEYWORD for one in inspect.signature(function).parameters.values()):
      known = None  # any name
    if name not in read or not (selector.startswith("xmcap.tasks.") or read[name] == known):
      raise UndocumentedError(
        f"xmcap/gin_names.py reads {read.get(name)} as the parameters of {name}: {known}"
      )


def _section(selector: str, function: typing.Any, undocumented: list[str]) -> str:
  from gin import config

  from xmcap import gin_types

  name = selector.rsplit(".", 1)[-1]
  source = pathlib.Path(inspect.getsourcefile(function) or "").relative_to(ROOT)
  denied = config._REGISTRY[selector].denylist or ()
  meanings, annotations = _meanings(function), gin_types.annotations(function)
  rows = []
  for parameter in inspect.signature(function).parameters.values():
    if parameter.name in denied:
      continue
    meaning = meanings.get(parameter.name)
    if meaning is None:
      undocumented.append(f"{name}.{parameter.name}")
    kind = _cell(_type(annotations.get(parameter.name, parameter.annotation)))
    rows.append(
      f"| `{name}.{parameter.name}` | `{kind}` | {_default(parameter.default)} | {_cell(meaning or '')} |"
    )
  summary = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
  table = ["| parameter | type | default | meaning |", "| --- | --- | --- | --- |", *rows] if rows else []
  return "\n".join([f"### {name}\n", f"{summary} (`{source}`)\n", *table]) + "\n"


def _meanings(function: typing.Any) -> dict[str, str]:
  """Parameter -> what the sections Args and Attributes of a docstring, or of a base class's, say of it."""
  found: dict[str, str] = {}
  for owner in function.__mro__ if inspect.isclass(function) else (function,):
    names: list[str] = []
    inside = False
    for line in (inspect.cleandoc(owner.__doc__ or "")).replace("\n  ", "\n    ").split("\n"):
      if re.fullmatch(r"\w[^.]*:", line):
        inside, names = line.startswith(("Args:", "Attributes")), []
      elif inside and (item := _ITEM.match(line)):
        names = [name for name in item[1].split(", ") if name not in found]
        found |= dict.fromkeys(names, item[2].strip())
      elif inside and line.startswith(" " * 6):
        found |= {name: f"{found[name]} {line.strip()}" for name in names}
  return found


def _type(annotation: typing.Any) -> str:
  if annotation is inspect.Parameter.empty:
    return ""
  text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
  return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])", "", text)


def _default(default: typing.Any) -> str:
  import gin

  if default is inspect.Parameter.empty or default is gin.REQUIRED:
    return "*required*"
  text = default.__name__ if callable(default) and hasattr(default, "__name__") else repr(default)
  return f"`{_cell(text)}`" if len(text) <= _LONGEST else "see the file"


def _macros(file: pathlib.Path) -> Iterator[tuple[str, str, str]]:
  """(name, value, meaning) of each macro that a file sets.

  The meaning is the comment behind the value and that above, or else what a file that is included says.
  """
  text = file.read_text(encoding="utf-8")
  known: dict[str, str] = {}
  for other in re.findall(r"^include '(.*)'", text, re.MULTILINE):
    known |= {name: meaning for name, _, meaning in _macros(ROOT / "gin" / other)}
  above: list[str] = []
  for line in text.split("\n"):
    macro = re.match(r"([A-Z][A-Z0-9_]*) = (.*?)(?:  # (.*))?$", line)
    if line.startswith("#"):
      above.append(line.lstrip("# "))
      continue
    if macro:
      behind = [f"{macro[3][0].upper()}{macro[3][1:]}."] if macro[3] else []
      yield macro[1], macro[2], " ".join([*behind, *above]) or known.get(macro[1], "")
    above = []


def _cell(text: str) -> str:
  return text.replace("|", "\\|")


if __name__ == "__main__":
  os.environ.setdefault("JAX_PLATFORMS", "cpu")
  sys.path.insert(0, str(ROOT))
  print(page())
