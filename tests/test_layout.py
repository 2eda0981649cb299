"""The layering that docs/architecture.md draws: imports go down and never in circles, and files stay short."""

import ast
import collections
import functools
import graphlib
import pathlib
import re

import xmcap
from xmcap.models import model_json

ROOT = pathlib.Path(xmcap.__file__).parent

FLOORS = (
  (
    "arguments",
    "configuration",
    "digests",
    "errors",
    "extras",
    "gin_files",
    "gin_names",
    "gin_types",
    "grid",
    "languages",
    "latex",
    "markdown",
    "platforms",
    "processes",
    "progress",
    "quiet",
    "spreadsheet",
    "terminal",
    "wording",
    "xla_flags",
  ),
  ("files", "papers"),
  ("reading",),
  ("scoring", "models"),
  ("data", "pages"),
  ("human", "ranked", "training"),
  ("evaluation", "published"),
  ("corpora", "families"),
  ("convert", "dry_run", "endpoint", "planning", "serving"),
  ("export", "t5x"),
  ("commands",),
  ("cli",),
  ("__main__",),
)
"""From the ground up. The rooms of a floor know nothing of each other, but for the first floor's."""

STANDS_ALONE = ("launch",)
"""Uses the ground floor alone, and only `commands` uses it."""

TRAINING = ("models", "data", "training")
"""They train without `scoring`, and without what stands on it."""

DOORS = ("xmcap", "xmcap.scoring")
"""Packages that name, for users, what lies above or within them; no module of a lower floor imports a door."""

MOST_LINES = 400

BUDGETS = {
  "ground": 2_820,
  "files": 2_970,
  "papers": 180,
  "reading": 5_550,
  "scoring": 10_210,
  "models": 3_250,
  "data": 6_430,
  "pages": 2_090,
  "human": 4_900,
  "ranked": 2_310,
  "training": 6_720,
  "evaluation": 3_470,
  "published": 910,
  "corpora": 10_210,
  "families": 4_580,
  "convert": 3_330,
  "dry_run": 620,
  "planning": 2_190,
  "endpoint": 2_530,
  "serving": 2_000,
  "export": 480,
  "launch": 1_800,
  "t5x": 430,
  "commands": 5_920,
  "cli": 210,
  "__main__": 10,
}
"""Most lines of Python of each room; of the ground, together. What a feature adds, something else in the room pays for,
or the commit that raises the number says why."""

FILES = sorted(path for path in ROOT.rglob("*.py"))


def _name(path: pathlib.Path) -> str:
  parts = path.relative_to(ROOT.parent).with_suffix("").parts
  return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TEXTS = {_name(path): path.read_text(encoding="utf-8") for path in FILES}
PACKAGES = {_name(path) for path in FILES if path.stem == "__init__"}


@functools.cache
def _tree(module: str) -> ast.Module:
  """The syntax tree of a module; all take seconds, so that the first test makes them."""
  return ast.parse(TEXTS[module])


def _room(module: str) -> str:
  """`models` of `xmcap.models.t5`; `` of `xmcap` itself."""
  return module.split(".")[1] if "." in module else ""


def _package(module: str) -> str:
  return module if module in PACKAGES else module.rpartition(".")[0]


def _modules_of(node: ast.AST) -> set[str]:
  """The modules of xmcap that an import statement names."""
  if isinstance(node, ast.Import):
    return {alias.name for alias in node.names} & set(TEXTS)
  if isinstance(node, ast.ImportFrom) and node.module:
    named = {f"{node.module}.{alias.name}" for alias in node.names}
    return {name if name in TEXTS else node.module for name in named} & set(TEXTS)
  return set()


@functools.cache
def _imported(module: str) -> dict[int, set[str]]:
  """Line -> modules, of the import statements of a module, also those in functions; not those for type hints alone."""
  for_hints = {
    id(inner)
    for node in ast.walk(_tree(module))
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    for inner in ast.walk(node)
  }
  nodes = [node for node in ast.walk(_tree(module)) if id(node) not in for_hints]
  return {node.lineno: found for node in nodes if (found := _modules_of(node))}


def _floor(room: str) -> int:
  return next(number for number, rooms in enumerate(FLOORS) if room in rooms)


def _goes_down(room: str, other: str) -> bool:
  if room == other or other in ("", "tasks", "gin"):
    return True
  if room in STANDS_ALONE:
    return other in FLOORS[0]
  if other in STANDS_ALONE:
    return room == "commands"
  return _floor(other) < _floor(room) or _floor(other) == _floor(room) == 0


def test_imports_go_down_the_floors():
  wrong = {
    (module.removeprefix("xmcap."), other.removeprefix("xmcap."))
    for module in TEXTS.keys() - set(DOORS)
    for others in _imported(module).values()
    for other in others
    if not _goes_down(_room(module), _room(other))
  }
  assert not wrong


def test_training_loads_nothing_of_scoring():
  wrong = {
    (module, other)
    for module in TEXTS
    for others in _imported(module).values()
    for other in others
    if _room(module) in TRAINING and _room(other) in ("scoring", "pages", "ranked", "human")
  }
  assert not wrong


def test_no_two_packages_import_each_other():
  pairs = {
    (_package(module), _package(other))
    for module in TEXTS.keys() - set(DOORS)
    for others in _imported(module).values()
    for other in others
    if _package(module) != _package(other) and "xmcap" not in (_package(module), _package(other))
  }
  both = {
    (one.removeprefix("xmcap."), two.removeprefix("xmcap.")) for one, two in pairs if (two, one) in pairs
  }
  assert not both


def test_every_room_has_a_floor():
  rooms = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in FILES} - {"__init__"}
  assert rooms == {room for floor in FLOORS for room in floor} | set(STANDS_ALONE)


def test_files_stay_short():
  lines = {module: len(text.splitlines()) for module, text in TEXTS.items()}
  assert not {module: count for module, count in lines.items() if count > MOST_LINES}


def test_rooms_keep_their_budgets():
  lines = collections.Counter()
  for module, text in TEXTS.items():
    room = _room(module)
    lines["ground" if room in ("", *FLOORS[0]) else room] += len(text.splitlines())
  assert lines.keys() == BUDGETS.keys()
  assert not {room: count for room, count in lines.items() if count > BUDGETS[room]}


def test_no_module_imports_itself_through_others():
  graph = {}
  for module in TEXTS.keys() - set(DOORS):
    packages = {module.rsplit(".", depth)[0] for depth in range(1, module.count(".") + 1)}
    # A package is loaded before its modules, which may use what it holds; a door leads to all rooms.
    graph[module] = set().union(*_imported(module).values()) - packages - {module, *DOORS}
  graphlib.TopologicalSorter(graph).prepare()  # CycleError names the circle


@functools.cache
def _imported_at_once(module: str) -> set[str]:
  """The modules that a module imports outside functions."""
  top = [node for node in _tree(module).body if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.If)]
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


FRONT = (*DOORS, "xmcap.cli", "xmcap.commands", "xmcap.endpoint.inputs")
"""They import when a user asks for something, before gin is read."""


def test_all_searches_are_loaded_with_whatever_decodes():
  """They are named in strings, by gin and by `model.json`."""
  modules = {place.partition(":")[0] for place in model_json._SEARCHES.values()}
  assert modules <= _loaded_with("xmcap.models.decoding.generator")


CALLED_BY = {
  "xmcap.families.plugs.stabilizer": "xmcap.models.decoding.generator",
  "xmcap.evaluation.baselines": "xmcap.evaluation.evaluators",
  "xmcap.evaluation.caption_evaluator": "xmcap.evaluation.evaluators",
}
"""Module with an import in a function -> the module that calls it, and has loaded what it needs by then."""


def test_no_configurable_is_registered_late():
  """Whoever locks gin before he uses xmcap, as t5x does, can load no module that registers a configurable."""
  late = []
  for module in TEXTS:
    if module in FRONT or module.startswith("xmcap.commands."):
      continue
    for line, modules in _imported(module).items():
      before = _loaded_with(module) | _loaded_with(CALLED_BY.get(module, module))
      loaded = frozenset().union(*map(_loaded_with, modules)) - before
      late += [f"{module}:{line} loads {other}" for other in loaded if _registers_configurables(other)]
  assert not late, "\n".join(late)
