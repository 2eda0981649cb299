"""Puts faults into xmcap, one at a time, and counts those that the daily tests catch: `.ci/mutants.py --out=FILE`.

A fault is a small change of one expression or statement, drawn by a seed from all of xmcap. Tried against it are the
tests of its module (tests/ mirrors xmcap/), then those that import the module, then the rest of its room, until one
fails or the CPU time is spent; without a fault they must pass. The same faults are tried on another revision with
`--faults=FILE` of the first.
"""

import argparse
import ast
import dataclasses
import io
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]
_PRELOADED = ("pytest", "jax", "flax", "optax", "orbax.checkpoint", "tensorflow", "seqio")
_COMPARISONS = {
  ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
  ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
_ARITHMETIC = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "+"}
_CPU_SECONDS = 60
"""Of a process of tests: as many as the slowest room but one takes."""
_PATIENCE_SECONDS = 240
"""Of a test: a fault that makes it wait for ever is caught."""


@dataclasses.dataclass(frozen=True)
class Fault:
  """`before`, which begins in `line` (from 1) of `file`, is `after`."""

  file: str
  line: int
  before: str
  after: str
  context: str
  """The line without its indent: it finds the place again when lines have moved."""


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--revision", default="HEAD")
  parser.add_argument("--count", type=int, default=150)
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--faults", help="a file of an earlier call, whose faults are tried again")
  parser.add_argument("--out", required=True, help="JSON lines: a fault and the test that caught it")
  arguments = parser.parse_args()
  with tempfile.TemporaryDirectory() as folder:
    copy = pathlib.Path(folder, "copy")
    subprocess.run(
      ["git", "worktree", "add", "-q", "--detach", copy, arguments.revision], cwd=ROOT, check=True
    )
    try:
      if arguments.faults:
        lines = pathlib.Path(arguments.faults).read_text(encoding="utf-8").splitlines()
        faults = [Fault(**json.loads(line)["fault"]) for line in lines]
      else:
        faults = random.Random(arguments.seed).sample(list(all_faults(copy)), arguments.count)
      _try_all(copy, faults, pathlib.Path(arguments.out))
    finally:
      subprocess.run(["git", "worktree", "remove", "--force", copy], cwd=ROOT, check=True)


def all_faults(root: pathlib.Path) -> Iterator[Fault]:
  """Every fault that can be put into the modules of xmcap."""
  for path in sorted((root / "xmcap").rglob("*.py")):
    lines = path.read_bytes().splitlines(keepends=True)
    for node in _code(ast.parse(path.read_bytes())):
      for after in _changes(node, lines):
        context = lines[node.lineno - 1].decode().strip()
        yield Fault(str(path.relative_to(root)), node.lineno, _source(node, lines), after, context)


def _code(tree: ast.AST) -> Iterator[ast.AST]:
  """All nodes but those of annotations and texts."""
  for name, value in ast.iter_fields(tree):
    if name in ("annotation", "returns", "decorator_list"):
      continue
    for node in value if isinstance(value, list) else [value]:
      if isinstance(node, ast.AST) and not isinstance(node, ast.JoinedStr):
        yield node
        yield from _code(node)


def _source(node: ast.AST, lines: list[bytes]) -> str:
  """As `ast.get_source_segment`, which splits the text into lines each time."""
  first, last = node.lineno - 1, node.end_lineno
  text = b"".join(lines[first:last])
  return text[node.col_offset : len(text) - len(lines[last - 1]) + node.end_col_offset].decode()


def _changes(node: ast.AST, lines: list[bytes]) -> Iterator[str]:
  """The texts that take the place of a node, each a fault."""

  def source(part: ast.AST) -> str:
    return _source(part, lines)

  match node:
    case ast.Compare(left=left, ops=[operator], comparators=[right]):
      yield f"{source(left)} {_COMPARISONS[type(operator)]} {source(right)}"
    case ast.BoolOp(op=operator, values=[first, *rest]):
      word = " or " if isinstance(operator, ast.And) else " and "
      yield f"({word.join(f'({source(value)})' for value in (first, *rest))})"
    case ast.UnaryOp(op=ast.Not(), operand=operand):
      yield f"bool({source(operand)})"
    case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _ARITHMETIC:
      if not any(
        isinstance(part, ast.JoinedStr) or isinstance(getattr(part, "value", 0), str)
        for part in (left, right)
      ):
        yield f"({source(left)} {_ARITHMETIC[type(operator)]} {source(right)})"
    case ast.Constant(value=bool() as value):
      yield str(not value)
    case ast.Constant(value=int() as value):
      yield str(value + 1)
    case ast.If(test=test, body=[ast.Raise()]):
      yield source(node).replace(source(test), "False", 1)
    case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
      yield "return None"
    case ast.Continue() | ast.Break():
      yield "pass"


def _try_all(copy: pathlib.Path, faults: list[Fault], out: pathlib.Path) -> None:
  os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
  os.chdir(copy)
  sys.path.insert(0, str(copy))
  __import__("tests.environment")
  for name in _PRELOADED:
    __import__(name)
  for name in [name for name in sys.modules if name.split(".")[0] in ("xmcap", "tests")]:
    del sys.modules[name]
  caught = 0
  with open(out, "w", encoding="utf-8") as results:
    for number, fault in enumerate(faults, 1):
      begin = time.monotonic()
      outcome = _tried(copy, fault)
      caught += outcome["caught"] is True
      results.write(json.dumps({"fault": dataclasses.asdict(fault), **outcome}, ensure_ascii=False) + "\n")
      results.flush()
      print(
        f"{number}: {caught} caught; {time.monotonic() - begin:.0f} s, {fault.file}:{fault.line}: {outcome}",
        flush=True,
      )


def _tried(copy: pathlib.Path, fault: Fault) -> dict:
  path = copy / fault.file
  whole = path.read_text(encoding="utf-8")
  changed = _changed(whole, fault)
  if changed is None:
    return {"caught": None, "by": "this code is gone"}
  path.write_text(changed, encoding="utf-8")
  try:
    return _tested(copy, tests_of(copy, fault.file))
  finally:
    path.write_text(whole, encoding="utf-8")


def _changed(text: str, fault: Fault) -> str | None:
  """The module with the fault in it, in the nearest line that reads as the fault's; None if there is none."""
  lines = text.splitlines(keepends=True)
  places = [place for place, line in enumerate(lines, 1) if line.strip() == fault.context]
  for place in sorted(places, key=lambda place: abs(place - fault.line)):
    start = sum(map(len, lines[: place - 1]))
    at = text.find(fault.before, start)
    if start <= at < start + len(lines[place - 1]):
      return text[:at] + fault.after + text[at + len(fault.before) :]
  return None


def tests_of(root: pathlib.Path, file: str) -> list[str]:
  """The files of tests of a module: its own, those that import it, the others of its room."""
  module = pathlib.Path(file).with_suffix("")
  room = root / "tests" / module.parent.relative_to("xmcap")
  while not room.is_dir():
    room = room.parent
  mirrored = sorted(room.glob(f"test_{module.name}*.py"))
  package, name = ".".join(module.parent.parts), module.name
  imports = re.compile(
    rf"from {re.escape(package)} import [^#\n]*\b{name}\b|\b{re.escape(package)}\.{name}\b"
  )
  every = sorted((root / "tests").rglob("test_*.py"))
  importers = [path for path in every if imports.search(path.read_text(encoding="utf-8"))]
  rest = sorted(room.rglob("test_*.py")) if room != root / "tests" else []
  return [str(path.relative_to(root)) for path in dict.fromkeys([*mirrored, *importers, *rest])]


def _tested(copy: pathlib.Path, files: list[str]) -> dict:
  """Runs tests in a fork of this process, which has the large libraries, until one fails."""
  with tempfile.TemporaryFile() as output:
    child = os.fork()
    if not child:
      _run_tests(files, output)
    _, status, usage = os.wait4(child, 0)
    output.seek(0)
    said = output.read().decode("utf-8", "replace")
  code = os.waitstatus_to_exitcode(status)
  failed = re.search(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
  by = failed[1] if failed else {0: "", 5: ""}.get(code, f"exit code {code}")
  return {"caught": code in (1, 2), "by": by, "cpu_s": round(usage.ru_utime + usage.ru_stime)}


def _run_tests(files: list[str], output: io.IOBase) -> None:
  import pytest

  os.setsid()
  null = os.open(os.devnull, os.O_RDONLY)
  os.dup2(null, 0)
  for number in (1, 2):
    os.dup2(output.fileno(), number)
  resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
  code = (
    pytest.main(
      ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:warnings", f"--timeout={_PATIENCE_SECONDS}", *files]
    )
    if files
    else 5
  )
  sys.stdout.flush()
  os._exit(int(code))


if __name__ == "__main__":
  main()
