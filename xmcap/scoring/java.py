"""Runs the Java programs of pycocoevalcap (an extra), each once for all captions."""

import importlib.metadata
import importlib.util
import pathlib
import subprocess
from collections.abc import Sequence

from xmcap.errors import XmcapError


def pycocoevalcap(name: str) -> pathlib.Path:
  """Returns the folder of pycocoevalcap; if it is not installed, raises XmcapError beginning with `name`."""
  found = importlib.util.find_spec("pycocoevalcap")
  if found is None or not found.submodule_search_locations:
    raise XmcapError(f"{name} needs pycocoevalcap; pip install 'xmcap[ptb]'")
  return pathlib.Path(found.submodule_search_locations[0])


def version() -> str:
  """Returns `pycocoevalcap-VERSION`, for signatures."""
  try:
    return f"pycocoevalcap-{importlib.metadata.version('pycocoevalcap')}"
  except importlib.metadata.PackageNotFoundError:
    return "pycocoevalcap-absent"


def run(name: str, jar: pathlib.Path, command: Sequence[str], text: str) -> str:
  """Runs a program on a text and returns its output.

  Raises:
    XmcapError: Java is not installed, or fails; the message begins with `name`.
  """
  try:
    done = subprocess.run(
      # The programs read and write UTF-8 in any locale.
      ["java", *command],
      input=text.encode("utf-8", "replace"),
      capture_output=True,
      check=True,
    )
  except OSError as error:
    raise XmcapError(
      f"{name} needs Java, which does not start ({error.strerror or error}); install a Java runtime "
      "such as the Debian package default-jre-headless"
    ) from error
  except subprocess.CalledProcessError as error:
    said = " ".join(error.stderr.decode("utf-8", "replace").split())
    raise XmcapError(
      f"{name}: Java failed with status {error.returncode} ({said[:200]}); check that "
      f"{jar.name} of pycocoevalcap is there and that 'java -version' works"
    ) from error
  return done.stdout.decode("utf-8")
