"""Errors for users: one line that says what is wrong, where, and what to do."""

from xmcap.terminal import shown


class XmcapError(Exception):
  """A run cannot go on for a reason outside the code; the command exits 1."""

  exit_code = 1


class UsageError(XmcapError):
  """A command, option or configuration cannot be carried out; the command exits 2."""

  exit_code = 2


class DamagedError(UsageError):
  """A file is truncated or damaged, so that the rest of it cannot be read."""


class RestartError(XmcapError):
  """A run ended early and continues when it is started again; the command exits 75 (EX_TEMPFAIL in sysexits.h)."""

  exit_code = 75


def one_line(error: BaseException) -> str:
  """Returns the message of an error as one line of at most 200 plain characters."""
  return shown(" ".join(str(error).split()) or type(error).__name__)
