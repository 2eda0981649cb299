"""The command `xmcap`, and other programs, as tests call them: `xmcap("score", "--out=x").refused("--references")`."""

import contextlib
import dataclasses
import functools
import io
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence

from xmcap import cli
from xmcap.launch import local

_PRELOADED = ("jax", "flax", "optax", "orbax.checkpoint", "xmcap.cli", "xmcap.serving.app")
_TIMEOUT = 600  # seconds, on a busy machine
_ROOT = pathlib.Path(__file__).parents[2]
_CALLS = """
import json, sys
from tests import absent
asked = json.load(sys.stdin)
absent.hide(asked["hidden"])
from tests.make.command import xmcap
exec(asked["prelude"])
json.dump([vars(xmcap(*words)) for words in asked["calls"]], sys.stdout)
"""


@dataclasses.dataclass(frozen=True)
class Result:
  """What a command left: its exit code, and what it printed."""

  code: int
  out: str
  err: str

  def succeeded(self, *texts: str) -> "Result":
    """Asserts exit code 0 and that all texts were printed."""
    assert self.code == 0, self.err
    for text in texts:
      assert text in self.out + self.err, (text, self.out, self.err)
    return self

  def refused(self, *texts: str, code: int = 2) -> "Result":
    """Asserts the exit code, and that the last line of errors is xmcap's, its only one, and has all texts."""
    assert self.code == code, self
    errors = [line for line in self.err.splitlines() if line.startswith("xmcap: ")]
    assert len(errors) == 1 and self.err.endswith(f"{errors[0]}\n"), self.err
    assert "Traceback" not in self.err, self.err
    for text in texts:
      assert text in errors[0], (text, errors[0])
    return self


def xmcap(*argv: object) -> Result:
  """Runs the command in this process, and forgets what it bound by gin, as the end of a process does."""
  out, err = io.StringIO(), io.StringIO()
  with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
    try:
      code = cli.main([*map(str, argv)])
    except SystemExit as ended:  # of --help and --version
      code = ended.code or 0
  if gin := sys.modules.get("gin"):
    gin.clear_config()
  return Result(code, out.getvalue(), err.getvalue())


def xmcap_without(
  modules: Sequence[str],
  *calls: Sequence[object],
  folder: str | os.PathLike = _ROOT,
  environment: Mapping[str, str] | None = None,
  prelude: str = "",
) -> list[Result]:
  """Runs commands one after the other in a new process that cannot import some modules, nor find them installed.

  Args:
    modules: top-level modules.
    calls: the words of each command.
    folder: the working folder; an `xmcap` in it is the one that runs.
    environment: is added to that of this process.
    prelude: Python that the process runs first.
  """
  asked = {"hidden": [*modules], "calls": [[*map(str, words)] for words in calls], "prelude": prelude}
  done = subprocess.run(
    [sys.executable, "-c", _CALLS], input=json.dumps(asked), capture_output=True, text=True, cwd=folder,
    env={**os.environ, "PYTHONPATH": str(_ROOT), **(environment or {})}, timeout=_TIMEOUT,
  )  # fmt: skip
  assert done.returncode == 0, done.stderr[-4000:]
  return [Result(**result) for result in json.loads(done.stdout)]


def forked(
  program: Callable[..., int | None],
  *arguments: object,
  environment: Mapping[str, str] | None = None,
  folder: str | os.PathLike | None = None,
  devices: int = 0,
) -> Result:
  """Runs a function of a module in a process of its own, in which the large libraries are imported already.

  For what needs a process: devices, signals, the environment. Where starting is what is tested, start Python.

  Args:
    program: returns the exit code, or None for 0.
    arguments: its arguments; they are pickled.
    environment: is added to that of this process; JAX_* have no effect, because JAX has read them.
    folder: the working folder; None: this process's.
    devices: the number of simulated CPU devices; 0: one.
  """
  assert not any(name.startswith("JAX_") for name in environment or {}), environment
  if devices:
    simulated = local.environment(devices, {"XLA_FLAGS": os.environ["XLA_FLAGS"]})
    environment = {**(environment or {}), **{name: simulated[name] for name in ("XLA_FLAGS", "NPROC")}}
  with tempfile.TemporaryDirectory() as outputs:
    paths = [pathlib.Path(outputs, name) for name in ("out", "err")]
    child = forkserver().Process(
      target=_child,
      args=(program, arguments, {**os.environ, **(environment or {})}, folder or os.getcwd(), paths),
    )
    child.start()  # The first one starts the server, which imports.
    child.join(_TIMEOUT)
    if child.is_alive():
      child.kill()
      raise TimeoutError(f"{program} had not ended after {_TIMEOUT} s")
    out, err = (path.read_text(encoding="utf-8", errors="replace") for path in paths)
    assert child.exitcode is not None
    return Result(child.exitcode, out, err)


def xmcap_forked(*argv: object, **options) -> Result:
  """Runs the command in a process of its own; options as for `forked`."""
  return forked(cli.main, [*map(str, argv)], **options)


@functools.cache
def forkserver():
  """Returns the `multiprocessing` context whose processes have the large libraries."""
  context = multiprocessing.get_context("forkserver")
  context.set_forkserver_preload([*_PRELOADED, __name__])
  return context


def _child(program, arguments, environment, folder, paths) -> None:
  for number, path in enumerate(paths, 1):
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(file, number)
    os.close(file)
  os.environ.clear()
  os.environ.update(environment)
  os.chdir(folder)
  code = program(*arguments)
  sys.stdout.flush()
  sys.exit(code or 0)
