"""The house as docs/architecture.md draws it: imports go down its floors and never in circles, files stay short."""

import ast
import collections
import functools
import graphlib
import pathlib
import re

import xmcap

ROOT = pathlib.Path(xmcap.__file__).parent

FLOORS = (
  (
    "arguments",
    "errors",
    "languages",
    "configuration",
    "digests",
    "extras",
    "gin_names",
    "gin_types",
    "platforms",
    "processes",
    "progress",
    "quiet",
    "terminal",
    "wording",
  ),
  ("files",),
  ("reading",),
  ("scoring", "models"),
  ("data",),
  ("training",),
  ("evaluation",),
  ("corpora", "families"),
  ("convert", "dry_run", "planning", "runs", "serving"),
  ("export", "t5x"),
  ("commands",),
  ("cli",),
)
"""From the ground up. The rooms of a floor know nothing of each other, but for the first floor's."""

STANDS_ALONE = ("launch",)
"""Uses the ground floor alone, and only `commands` uses it."""

MOST_LINES = 400

BUDGETS = {
  "ground": 1_770,
  "files": 2_590,
  "reading": 4_710,
  "scoring": 18_490,
  "models": 3_330,
  "data": 6_870,
  "training": 5_610,
  "evaluation": 4_190,
  "corpora": 8_810,
  "families": 180,
  "convert": 3_150,
  "dry_run": 640,
  "planning": 1_930,
  "runs": 270,
  "serving": 1_440,
  "export": 460,
  "t5x": 430,
  "commands": 4_310,
  "cli": 160,
  "launch": 1_360,
}
"""Most lines of Python of each room; of the ground, together. What a feature adds, something else in the room pays for,
or the commit that raises the number says why."""

FILES = sorted(path for path in ROOT.rglob("*.py"))


def _room(module: str) -> str:
  """`models` of `xmcap.models.t5`; `` of `xmcap` itself."""
  return module.split(".")[1] if "." in module else ""


def _imports(path: pathlib.Path) -> set[tuple[int, str]]:
  """The modules of xmcap that a file imports, anywhere in it, and the lines."""
  found = set()
  for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
    if isinstance(node, ast.Import):
      found |= {(node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0] == "xmcap"}
    elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "xmcap":
      whole = node.module == "xmcap"
      found |= {(node.lineno, f"xmcap.{alias.name}" if whole else node.module) for alias in node.names}
  return found


def _floor(room: str) -> int:
  return next(number for number, rooms in enumerate(FLOORS) if room in rooms)


def _goes_down(room: str, other: str) -> bool:
  if room == other or other in ("", "__version__", "tasks", "gin"):
    return True
  if room in STANDS_ALONE:
    return other in FLOORS[0]
  if other in STANDS_ALONE:
    return room == "commands"
  return _floor(other) < _floor(room) or _floor(other) == _floor(room) == 0


def test_imports_go_down_the_floors():
  wrong = []
  for path in FILES:
    relative = path.relative_to(ROOT)
    room = relative.parts[0].removesuffix(".py")
    if room == "__init__":
      continue
    wrong += [
      f"{relative}:{line} imports {module}"
      for line, module in sorted(_imports(path))
      if not _goes_down(room, _room(module))
    ]
  assert not wrong, "\n".join(wrong)


def test_every_room_has_a_floor():
  rooms = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in FILES} - {"__init__"}
  assert rooms == {room for floor in FLOORS for room in floor} | set(STANDS_ALONE)


def test_files_stay_short():
  lines = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
  assert not {path: count for path, count in lines.items() if count > MOST_LINES}


def test_rooms_keep_their_budgets():
  lines = collections.Counter()
  for path in FILES:
    room = path.relative_to(ROOT).parts[0].removesuffix(".py")
    name = "ground" if room in FLOORS[0] or room == "__init__" else room
    lines[name] += len(path.read_text(encoding="utf-8").splitlines())
  assert lines.keys() == BUDGETS.keys()
  assert not {room: count for room, count in lines.items() if count > BUDGETS[room]}


# ---- modules -------------------------------------------------------------------------------------


def _name(path: pathlib.Path) -> str:
  parts = path.relative_to(ROOT.parent).with_suffix("").parts
  return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TEXTS = {_name(path): path.read_text(encoding="utf-8") for path in FILES}
MODULES = {name: ast.parse(text) for name, text in TEXTS.items()}


def _modules_of(node: ast.AST) -> set[str]:
  """The modules of xmcap that an import statement loads: those it names, and the packages that they are in."""
  named: set[str] = set()
  if isinstance(node, ast.Import):
    named = {alias.name for alias in node.names}
  elif isinstance(node, ast.ImportFrom) and node.module:
    named = {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
  whole = {
    ".".join(parts[:end]) for name in named if (parts := name.split(".")) for end in range(1, len(parts) + 1)
  }
  return whole & set(MODULES)


@functools.cache
def _imported(module: str) -> dict[int, set[str]]:
  """Line -> modules, of the import statements of a module, also those in functions."""
  return {node.lineno: found for node in ast.walk(MODULES[module]) if (found := _modules_of(node))}


def test_no_module_imports_itself_through_others():
  graph = {}
  for module in MODULES:
    packages = {module.rsplit(".", depth)[0] for depth in range(1, module.count(".") + 1)}
    # A package is loaded before its modules, which may use what it holds; xmcap itself is a door to all rooms.
    graph[module] = set().union(*_imported(module).values()) - packages - {module, "xmcap"}
  del graph["xmcap"]
  graphlib.TopologicalSorter(graph).prepare()  # CycleError names the circle


@functools.cache
def _imported_at_once(module: str) -> set[str]:
  """The modules that a module imports outside functions."""
  top = [node for node in MODULES[module].body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
  return set().union(*(_modules_of(node) for outer in top for node in ast.walk(outer)))


@functools.cache
def _loaded_with(module: str) -> frozenset[str]:
  """All modules of xmcap that are loaded by the time a module is."""
  found, waiting = set(), {module}
  while waiting:
    one = waiting.pop()
    found.add(one)
    waiting |= _imported_at_once(one) - found
    if "." in one:
      waiting |= {one.rsplit(".", 1)[0]} - found
  return frozenset(found)


@functools.cache
def _registers_configurables(module: str) -> bool:
  return bool(re.search(r"\bgin\.(external_)?configurable\b", TEXTS[module]))


DOORS = ("xmcap", "xmcap.cli", "xmcap.commands")
"""They import when a user asks for something, before gin is read."""


def test_no_configurable_is_registered_late():
  """Whoever locks gin before he uses xmcap, as t5x does, can load no module that registers a configurable."""
  late = []
  for module in MODULES:
    if module in DOORS or module.startswith("xmcap.commands."):
      continue
    for line, modules in _imported(module).items():
      loaded = frozenset().union(*map(_loaded_with, modules)) - _loaded_with(module)
      late += [f"{module}:{line} loads {other}" for other in loaded if _registers_configurables(other)]
  assert not late, "\n".join(late)
