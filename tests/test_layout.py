"""The house as docs/architecture.md draws it: imports go down its floors, files stay short."""

import ast
import pathlib

import xmcap

ROOT = pathlib.Path(xmcap.__file__).parent

FLOORS = (
  (
    "errors",
    "languages",
    "configuration",
    "gin_names",
    "gin_types",
    "platforms",
    "processes",
    "progress",
    "quiet",
    "terminal",
  ),
  ("storage",),
  ("tensors",),
  ("scoring", "models"),
  ("data",),
  ("training",),
  ("evaluation",),
  ("convert", "dry_run", "planning", "runs", "serving"),
  ("export", "t5x"),
  ("commands",),
  ("cli",),
)
"""From the ground up. The rooms of a floor know nothing of each other, but for the first floor's."""

STANDS_ALONE = ("launch",)
"""Uses the ground floor alone, and only `commands` uses it."""

MOST_LINES = 400

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
