"""Runs the Java programs of pycocoevalcap (an extra), each once for all captions."""

import contextlib
import importlib.metadata
import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence

from xmcap import extras
from xmcap.errors import UsageError, XmcapError

_RUNTIME = "a Java runtime such as the Debian package default-jre-headless"


def pycocoevalcap(name: str) -> pathlib.Path:
  """Returns the folder of pycocoevalcap; if it is not installed, raises UsageError beginning with `name`."""
  spec = importlib.util.find_spec("pycocoevalcap")
  if spec is None or not spec.submodule_search_locations:
    also = "" if shutil.which("java") else f"; it also needs {_RUNTIME}"
    raise UsageError(f"{name} needs pycocoevalcap: {extras.install('ptb')}{also}")
  return pathlib.Path(spec.submodule_search_locations[0]).absolute()


def version() -> str:
  """Returns `pycocoevalcap-VERSION`, for signatures."""
  try:
    return f"pycocoevalcap-{importlib.metadata.version('pycocoevalcap')}"
  except importlib.metadata.PackageNotFoundError:
    return "pycocoevalcap-absent"


@contextlib.contextmanager
def scratch(name: str) -> Iterator[pathlib.Path]:
  """Gives a temporary folder; XmcapError beginning with `name` if no files can be written there."""
  try:
    with tempfile.TemporaryDirectory(prefix="xmcap-") as folder:
      yield pathlib.Path(folder)
  except OSError as error:
    raise XmcapError(
      f"{name}: no temporary file can be written ({error}); free some space, or set TMPDIR to another folder"
    ) from error


def run(
  name: str,
  jar: pathlib.Path,
  command: Sequence[str],
  text: str | Callable[[], str] = "",
  folder: pathlib.Path | None = None,
) -> str:
  """Runs a program on a text, or on what a function returns while the program starts, and returns its output.

  It runs in `folder`, so that it gets names of files alone: a path may have a space, which `-ioFileList` splits at.

  Raises:
    UsageError: Java is not installed; the message begins with `name`.
    XmcapError: it fails; likewise.
  """
  try:
    # The programs read and write UTF-8 in any locale, but the jar's path is read, and letters are lowered, by it.
    program = subprocess.Popen(
      ["java", "-Duser.language=en", *command],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      cwd=folder,
      env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
  except OSError as error:
    raise UsageError(
      f"{name} needs Java, which does not start ({error.strerror or error}); install {_RUNTIME}"
    ) from error
  with program:
    try:
      sent = text if isinstance(text, str) else text()
      output, told = program.communicate(sent.encode("utf-8", "replace"))
    except BaseException:
      program.kill()
      raise
  if program.returncode:
    said = " ".join(told.decode("utf-8", "replace").split())
    raise XmcapError(
      f"{name}: Java failed with status {program.returncode} ({said[:200]}); check that "
      f"{jar.name} of pycocoevalcap is there and that 'java -version' works"
    )
  return output.decode("utf-8")
