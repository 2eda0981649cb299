"""Running a provider's command, without a shell, or printing it."""

import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from xmcap import terminal
from xmcap.errors import UsageError, XmcapError
from xmcap.launch import quoting

_HOW_TO_INSTALL = {
  "gcloud": "https://cloud.google.com/sdk/docs/install",
  "xpk": "https://github.com/AI-Hypercomputer/xpk",
  "sbatch": "a login node of a SLURM cluster",
}


class Answer(NamedTuple):
  """What a command wrote, and its exit code."""

  code: int
  out: bytes
  error: str

  def text(self) -> str:
    """Returns the standard output as text."""
    return self.out.decode("utf-8", "replace")

  def complaint(self) -> str:
    """Returns the first line of the error, which is where gcloud says what is wrong."""
    lines = [line for line in self.error.splitlines() if line.startswith("ERROR")] or self.error.splitlines()
    return terminal.shown(lines[0]) if lines else f"exit code {self.code}"


def say(text: str) -> None:
  """Tells the user what is being done, beside the output of the run."""
  print(f"xmcap launch: {terminal.shown(text, limit=None)}", file=sys.stderr, flush=True)


def run(argv: Sequence[str], given: str = "", dry_run: bool = False) -> None:
  """Runs a command with this terminal, or prints it; `given` is its standard input.

  Raises:
    XmcapError: it failed.
    UsageError: there is no such program.
  """
  if dry_run:
    print(quoting.shown(argv))
    return
  # Without an input of its own a command that asks something would wait for ever.
  encoded = given.encode("utf-8", "surrogateescape")
  try:
    code = subprocess.run(argv, check=False, input=encoded).returncode
  except OSError as error:
    raise no_program(argv[0], error) from None
  if code:
    # Program and subcommands, but no values.
    name = quoting.words([text for text in argv if not text.startswith("-")][:6])[:100]
    raise XmcapError(f"{name} ended with exit code {code}: see its message above")


def capture(argv: Sequence[str]) -> Answer:
  """Runs a command and returns its answer, also where it failed."""
  try:
    done = subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, capture_output=True)
  except OSError as error:
    raise no_program(argv[0], error) from None
  return Answer(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))


def listing(parts: Sequence[tuple[str, Sequence[str]]]) -> str:
  """Returns commands as text that bash could run: (comment, argument list) each."""
  return "\n".join(f"# {comment}\n{quoting.shown(argv)}" for comment, argv in parts)


def function(name: str, comment: str, argv: Sequence[str]) -> str:
  """Returns a function of bash that holds a command for later."""
  return f"# {comment}\n{name}() {{\n{quoting.shown(argv)}\n}}"


def no_program(program: str, error: OSError) -> UsageError:
  """Returns the error of a program that cannot be started."""
  where = _HOW_TO_INSTALL.get(program)
  hint = f": install it ({where}) or look at --dry_run" if where else ""
  return UsageError(f"{program}: {error.strerror}{hint}")
