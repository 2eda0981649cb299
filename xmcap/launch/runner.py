"""Runs a provider's command without a shell, or prints it."""

import subprocess
import sys
from collections.abc import Sequence

from xmcap import terminal
from xmcap.errors import UsageError, XmcapError
from xmcap.launch import quoting

_HOW_TO_INSTALL = {
  "gcloud": "https://cloud.google.com/sdk/docs/install",
  "xpk": "https://github.com/AI-Hypercomputer/xpk",
  "sbatch": "a login node of a SLURM cluster",
}


def say(text: str) -> None:
  """Prints a message to standard error, apart from the output of the run."""
  print(f"xmcap launch: {terminal.shown(text, limit=None)}", file=sys.stderr, flush=True)


def run(argv: Sequence[str], stdin: str = "", dry_run: bool = False) -> None:
  """Runs a command with this terminal, or prints it; `stdin` is its standard input.

  Raises:
    XmcapError: it failed.
    UsageError: there is no such program.
  """
  if dry_run:
    print(quoting.shown(argv))
    return
  # With an empty input, a command that prompts does not wait forever.
  encoded = stdin.encode("utf-8", "surrogateescape")
  try:
    code = subprocess.run(argv, check=False, input=encoded).returncode
  except OSError as error:
    raise no_program(argv[0], error) from None
  if code:
    # Program and subcommands, without options.
    name = quoting.words([text for text in argv if not text.startswith("-")][:6])[:100]
    raise XmcapError(f"{name} ended with exit code {code}: see its message above")


def capture(argv: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
  """Runs a command and returns its output and exit code, even if it failed."""
  try:
    return subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, capture_output=True)
  except OSError as error:
    raise no_program(argv[0], error) from None


def listing(parts: Sequence[tuple[str, Sequence[str]]]) -> str:
  """Returns commands, (comment, argument list) each, as text for bash."""
  return "\n".join(f"# {comment}\n{quoting.shown(argv)}" for comment, argv in parts)


def function(name: str, comment: str, argv: Sequence[str]) -> str:
  """Returns a bash function that runs a command."""
  return f"# {comment}\n{name}() {{\n{quoting.shown(argv)}\n}}"


def no_program(program: str, error: OSError) -> UsageError:
  """Returns the error for a program that cannot be started."""
  where = _HOW_TO_INSTALL.get(program)
  hint = f": install it ({where}) or look at --dry_run" if where else ""
  return UsageError(f"{program}: {error.strerror}{hint}")
