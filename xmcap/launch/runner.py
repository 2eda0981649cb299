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


class Output(NamedTuple):
  """What a command answered: its exit code, what it wrote, and what it complained of."""

  code: int
  out: bytes
  error: str

  def complaint(self) -> str:
    """Returns the first line of the complaint, which is where gcloud says what is wrong."""
    lines = [line for line in self.error.splitlines() if line.startswith("ERROR")] or self.error.splitlines()
    return terminal.shown(lines[0]) if lines else f"exit code {self.code}"


def say(text: str) -> None:
  """Tells the user what is being done, beside the output of the run."""
  print(f"xmcap launch: {terminal.shown(text, limit=None)}", file=sys.stderr, flush=True)


def run(argv: Sequence[str], given: str | None = None) -> None:
  """Runs a command with this terminal; `given` is its standard input.

  Raises:
    XmcapError: it failed.
    UsageError: there is no such program.
  """
  try:
    encoded = None if given is None else given.encode("utf-8", "surrogateescape")
    # Without an input of its own a command that asks something would wait for ever.
    source = {"stdin": subprocess.DEVNULL} if encoded is None else {"input": encoded}
    code = subprocess.run(argv, check=False, **source).returncode
  except OSError as error:
    raise missing(argv[0], error) from None
  if code:
    raise XmcapError(f"{_title(argv)} ended with exit code {code}: see its message above")


def capture(argv: Sequence[str]) -> Output:
  """Runs a command and returns what it wrote; a failure is for the caller to judge."""
  try:
    done = subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, capture_output=True)
  except OSError as error:
    raise missing(argv[0], error) from None
  return Output(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))


def listing(parts: Sequence[tuple[str, Sequence[str]]]) -> str:
  """Returns commands as text that bash could run: (comment, argument list) each."""
  return "\n".join(f"# {comment}\n{quoting.shown(argv)}" for comment, argv in parts)


def function(name: str, comment: str, argv: Sequence[str]) -> str:
  """Returns a command that is run only on occasion: bash defines it as a function and does not call it."""
  return f"# {comment}\n{name}() {{\n{quoting.shown(argv)}\n}}"


def _title(argv: Sequence[str]) -> str:
  """Returns what a command is called in a message: program and subcommands, no values."""
  plain = [text for text in argv if not text.startswith("-")]
  return quoting.words(plain[:6])[:100]


def missing(program: str, error: OSError) -> UsageError:
  where = _HOW_TO_INSTALL.get(program)
  hint = f": install it ({where}) or look at --dry_run" if where else ""
  return UsageError(f"{program}: {error.strerror}{hint}")
