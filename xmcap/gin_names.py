"""Reads the names and parameters of xmcap's configurables from its source, because importing them takes seconds.

Parameters are unknown for a class with a base outside xmcap, and for a function that takes any keyword.
"""

import ast
import functools
import importlib.util
import pathlib
import re
from collections.abc import Mapping

_MARK = "gin.configurable"
_PLAIN = {"Protocol", "ABC", "Generic", "object"}  # bases without parameters of their own

Parameters = Mapping[str, frozenset[str] | None]
"""Configurable -> the parameters that gin may set, or None if unknown."""


@functools.cache
def read() -> Parameters:
  """All configurables of xmcap except those for t5x; for the corpora in `tasks`, only the names."""
  texts = [
    file.read_text(encoding="utf-8")
    for file in pathlib.Path(__file__).parent.rglob("*.py")
    if "t5x" not in file.parts
  ]
  nodes = [node for text in texts if _MARK in text for node in ast.parse(text).body]
  classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
  # Their base classes may be in other files.
  for name in {_name(base) for node in classes.values() for base in node.bases} - {*classes, *_PLAIN}:
    for text in texts:
      if re.search(rf"^class {name}\b", text, re.MULTILINE):
        classes |= {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}
  parameters = dict.fromkeys(_corpora())
  for node in nodes:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
      marks = [mark for mark in node.decorator_list if ast.unparse(mark).startswith(_MARK)]
      if marks:
        arguments = _of_class(node, classes) if isinstance(node, ast.ClassDef) else _of_function(node)
        # Names in the decorator's arguments are in its denylist.
        denied = set(re.findall(r"'(\w+)'", ast.unparse(marks[0])))
        parameters[node.name] = None if arguments is None else frozenset(arguments - denied)
  return parameters


def _corpora() -> list[str]:
  tasks = importlib.util.find_spec("xmcap.tasks")
  folders = tasks.submodule_search_locations if tasks else []
  texts = [
    file.read_text(encoding="utf-8") for folder in folders or () for file in pathlib.Path(folder).glob("*.py")
  ]
  return [name for text in texts for name in re.findall(r"""register_\w+\(\s*["'](\w+)["']""", text)]


def _of_function(node: ast.FunctionDef) -> set[str] | None:
  arguments = node.args
  if arguments.kwarg:
    return None
  return {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _of_class(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> set[str] | None:
  """The arguments of `__init__`, or the fields of a dataclass and its bases."""
  for part in node.body:
    if isinstance(part, ast.FunctionDef) and part.name == "__init__":
      arguments = _of_function(part)
      return None if arguments is None else arguments - {"self"}
  own = set()
  if any("dataclass" in ast.unparse(mark) for mark in node.decorator_list):
    for part in node.body:
      if isinstance(part, ast.AnnAssign) and "ClassVar" not in ast.unparse(part.annotation):
        own.add(ast.unparse(part.target))
  for base in node.bases:
    if _name(base) in _PLAIN:
      continue
    inherited = _of_class(classes[_name(base)], classes) if _name(base) in classes else None
    if inherited is None:
      return None
    own |= inherited
  return own


def _name(base: ast.expr) -> str:
  """`Stream` of `stream.Stream[int]`."""
  return ast.unparse(base).split("[")[0].rsplit(".", 1)[-1]
