"""The Java programs of pycocoevalcap, an extra: each is run once for all captions, and writes nothing to disk."""

import pathlib
import subprocess
from collections.abc import Sequence

from xmcap.errors import XmcapError


def run(name: str, jar: pathlib.Path, command: Sequence[str], text: str) -> str:
  """Returns what a program makes of a text.

  Raises:
    XmcapError: Java is not installed, or fails; the message begins with `name`.
  """
  try:
    done = subprocess.run(
      # They read and write UTF-8 whatever the locale.
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
