"""The command `xmcap`: parses arguments, calls the function of the subcommand, and prints errors in one line.

Nothing heavy is imported here: each subcommand imports its dependencies when it is called, so that `xmcap --help` is
fast and `xmcap score` needs neither jax nor tensorflow. Exit codes: 0 success, 1 failure, 2 wrong usage, 75 a run that
ended early and resumes when it is started again.
"""

import contextvars
import errno
import gc
import importlib
import os
import re
import sys

from xmcap import __version__, extras, quiet, spreadsheet, terminal
from xmcap.commands import base
from xmcap.errors import RestartError, UsageError, XmcapError
from xmcap.files import paths, refusals

# Command -> its module in `commands`, in the order of --help.
_COMMANDS = {
  **dict.fromkeys(("train", "eval"), "model"),
  **{
    name: name
    for name in (
      "caption",
      "translate",
      "tag",
      "embed",
      "features",
      "serve",
      "convert",
      "export",
      "plan",
      "launch",
      "runs",
    )
  },
  **dict.fromkeys(("score", "compare"), "score"),
  **{name: name for name in ("check", "retrieval", "human", "results", "published", "data", "doctor")},
}
# Gin's message for a configurable that is called with missing arguments.
_UNBOUND = re.compile(
  r"No values supplied by Gin or caller for arguments: \[(.*?)\].*?In call to configurable '(\w+)'", re.DOTALL
)
# Errors that are caused by a file or disk, not by the command.
_OF_THE_DISK = {
  *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.ESTALE),
  *(errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EMFILE, errno.ENFILE),
}
# What `pathlib` and `pwd` raise for a user without an entry in /etc/passwd, as in many containers.
_NO_HOME = re.compile(r"Could not determine home directory|getpw\w+\(\): \w+ not found")
# Options whose readers take any line of text, so that files that belong elsewhere are refused before they are read.
_ANY_TEXT = ("classes", "guidelines", "keys")
_STOPPED = 130  # a shell's exit code for a keyboard interrupt
_LONGEST_LINE = 4_000  # characters of an error message, which may hold long paths


def main(argv: list[str] | None = None) -> int:
  """Runs the command with the given arguments (default: those of the process); returns its exit code."""
  argv = sys.argv[1:] if argv is None else argv
  try:
    arguments, rest = _parser(argv[0] if argv else "").parse_known_args(argv)
    if not getattr(arguments, "hands_words_on", False):
      _check_utf8(argv)
    arguments.overrides = base.overrides(arguments, rest)
    if "run" not in arguments:
      arguments.list_commands()
      return 0
    if arguments.extra:
      extras.check(arguments.prog, arguments.extra)
    context = contextvars.copy_context()
    context.run(spreadsheet.raw.set, getattr(arguments, "raw", False))
    context.run(_run, arguments)
    sys.stdout.flush()
  except XmcapError as error:
    # Gin appends the chain of callers to a message.
    text = str(error).split("\n  In call to configurable")[0]
    _report(text, "restart needed" if isinstance(error, RestartError) else "error")
    return error.exit_code
  except TypeError as error:
    unbound = _UNBOUND.search(str(error))
    if unbound is None:
      raise
    _report(f"{unbound[2]} has unset parameters: {unbound[1]}: add the gin file that sets them")
    return UsageError.exit_code
  except BrokenPipeError:
    return 1  # the reader of the output (head, less) is gone
  except Exception as error:
    if isinstance(error, OSError) and error.errno in _OF_THE_DISK:
      file = error.filename or "the output, or the folder of temporary files"
      _report(f"{file}: {error.strerror}: fix or change the location and start again")
      return 1
    if isinstance(error, FileNotFoundError) and _is_folder_gone():
      _report("the working folder was removed: change to another one (cd), and start again")
      return UsageError.exit_code
    if isinstance(error, RecursionError):
      _report("an input is nested too deeply: mend or remove it")
      return UsageError.exit_code
    if _NO_HOME.search(str(error)):
      _report("this user has no home folder: set HOME to a folder that you may write, and start again")
      return UsageError.exit_code
    failure = extras.explained(error) or refusals.explained(error) or paths.explained(error)
    if failure is None:
      raise
    _report(str(failure), "restart needed" if isinstance(failure, RestartError) else "error")
    return failure.exit_code
  except KeyboardInterrupt:
    print("xmcap: stopped by the keyboard", file=sys.stderr)
    return _STOPPED
  return 0


def console() -> None:
  """The entry point of the installed command."""
  quiet.guard()
  terminal.guard()
  quiet.guard_logs()  # to the guarded stderr
  try:
    code = main()
  except SystemExit as left:  # of --help and --version
    code = int(left.code or 0)
  sys.stdout.flush()
  lost = terminal.lost_output()
  if lost is not None and not code:
    code = 1
    if not isinstance(lost, BrokenPipeError):
      _report(f"the standard output: {lost.strerror}: what was printed is lost, files were written")
  if code in (RestartError.exit_code, _STOPPED) or (code and _has_other_hosts()):
    # Python would wait for threads that may be waiting for a lost host or disk; and after a keyboard interrupt in
    # generated code it would die of the signal.
    sys.stderr.flush()
    os._exit(code)
  gc.freeze()  # or the exit looks for cycles among millions of objects, all of which go with it
  sys.exit(code)


def _run(arguments) -> None:
  """Runs a command; if one of its inputs belongs elsewhere, an error says so first."""
  if any(map(vars(arguments).get, _ANY_TEXT)):
    from xmcap.commands import misplaced

    if other := misplaced.explained(arguments, _ANY_TEXT):
      raise UsageError(other)
  try:
    arguments.run(arguments)
  except (RestartError, OSError, MemoryError):
    raise
  except Exception as error:
    from xmcap.commands import misplaced

    about_output = str(error).startswith("--out")
    if about_output or (first := misplaced.explained(arguments)) is None:
      raise
    # What failed may have another cause, so it is not lost.
    raise UsageError(f"{first} ({error})" if isinstance(error, XmcapError) else first) from error


def _report(text: str, kind: str = "error") -> None:
  """Prints an error as one escaped line, which is shortened in the middle if it is very long."""
  line = terminal.shown(text, limit=None)
  if len(line) > _LONGEST_LINE:
    line = f"{line[: _LONGEST_LINE // 2]} ... {line[-_LONGEST_LINE // 2 :]}"
  print(f"xmcap: {kind}: {line}", file=sys.stderr)


def _is_folder_gone() -> bool:
  try:
    os.getcwd()
  except FileNotFoundError:
    return True
  return False


def _has_other_hosts() -> bool:
  hosts = sys.modules.get("xmcap.training.hosts.join")
  return hosts is not None and hosts.current() is not None


def _check_utf8(argv: list[str]) -> None:
  """UsageError for arguments that are not UTF-8, which Python turns into lone surrogates that cannot be printed."""
  for word in argv:
    if word.encode("utf-8", "replace").decode() != word:
      raise UsageError(f"argument {ascii(word[:60])} is not UTF-8: write it, or rename the file, in UTF-8")


def _parser(command: str = "") -> base.CommandParser:
  """Returns the parser of one command, which starts faster, or of all: for `launch`, which parses other commands."""
  parser = base.CommandParser(
    prog="xmcap",
    description="Image captioning in 36 languages: trains and evaluates captioners.",
    epilog="Each command has its own --help. Documentation: README.md and docs/.",
    allow_abbrev=False,
  )
  parser.add_argument("--version", action="version", version=f"xmcap {__version__}")
  commands = base.add_subcommands(parser, "COMMAND")
  is_alone = command in _COMMANDS and command != "launch"
  modules = [_COMMANDS[command]] if is_alone else dict.fromkeys(_COMMANDS.values())
  for name in modules:
    importlib.import_module(f"xmcap.commands.{name}").add(commands)
  return parser


if __name__ == "__main__":
  console()
