"""Prints a drawing of the packages of xmcap/, in Mermaid, from their imports; docs/architecture.md shows it.

usage: python .ci/architecture.py

An arrow leads from a package to one that it imports, unless others on the way down lead there, too. What a package is
for is the first clause of its docstring.
"""

import ast
import graphlib
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]
_GROUND = "ground"


def packages() -> dict[str, str]:
  """Returns package -> what it is for, of all packages of `xmcap` and its module `cli`."""
  files = {path.parent.name: path for path in (ROOT / "xmcap").glob("*/__init__.py")}
  files["cli"] = ROOT / "xmcap" / "cli.py"
  return {name: _purpose(files[name]) for name in sorted(files)}


def imports(rooms: dict[str, str]) -> dict[str, set[str]]:
  """Returns package -> the packages that its modules import; the modules beside the packages are the ground."""
  below: dict[str, set[str]] = {name: set() for name in rooms}
  for name in rooms:
    folder = ROOT / "xmcap" / name
    for path in folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]:
      is_door = name == "scoring" and path.parent == folder and path.stem == "__init__"
      below[name] |= set() if is_door else {_room(module, rooms) for module in _modules(path)} - {name, ""}
  return below


def drawing() -> str:
  """Returns the block of Mermaid."""
  rooms = packages()
  below = imports(rooms)
  below[_GROUND] = set()
  order = [*graphlib.TopologicalSorter(below).static_order()]
  under: dict[str, set[str]] = {}
  for name in order:
    under[name] = set().union(below[name], *(under[other] for other in below[name]))
  lines = []
  for name in reversed(order):
    purpose = rooms.get(name, "errors, languages, configuration, terminal, ...")
    lines.append(f'  {name}["{name}<br/><small>{purpose}</small>"]')
  for name in reversed(order):
    direct = [o for o in below[name] if not any(o in under[other] for other in below[name] - {o})]
    if direct:
      lines.append(f"  {name} --> {' & '.join(sorted(direct))}")
  names = ", ".join(reversed(order))
  text = f"The packages of xmcap, each above those that it imports: {names}."
  return "\n".join(["```mermaid", "flowchart TB", f"  accDescr: {text}", *lines, "```", ""])


def _purpose(path: pathlib.Path) -> str:
  docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
  return re.split(r"[:.;,]\s|[.:;]$", docstring.splitlines()[0].replace("`", ""))[0]


def _room(module: str, rooms: dict[str, str]) -> str:
  parts = module.split(".")
  if len(parts) < 2 or parts[1] in ("tasks", "__version__"):
    return ""
  return parts[1] if parts[1] in rooms else _GROUND


def _modules(path: pathlib.Path) -> set[str]:
  modules = set()
  for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
    if isinstance(node, ast.Import):
      modules |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom) and node.module:
      modules |= {
        f"{node.module}.{alias.name}" if node.module == "xmcap" else node.module for alias in node.names
      }
  return {name for name in modules if name.split(".")[0] == "xmcap"}


if __name__ == "__main__":
  print(drawing())
