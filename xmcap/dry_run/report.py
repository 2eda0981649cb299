"""The report of a dry run: a line for each check, and whether any failed."""

from collections.abc import Callable
from typing import Any

from absl import logging

from xmcap.errors import UsageError, XmcapError


class DryRunReport:
  """Prints a line for each check."""

  def __init__(self, say: Callable[[str], None]):
    self._say = say
    self._count = 0
    self._failed: dict[str, str] = {}  # reason -> check
    self._error: type[XmcapError] = XmcapError

  def ask(self, name: str, answer: Callable[[], tuple[str, Any]], **needs: Any) -> Any:
    """Runs a check: `answer` returns a text and a value, or raises. Returns the value, or None if the check failed.

    The check is skipped if one of `needs` is None, and counts as skipped if it fails for the same reason as an earlier
    one.
    """
    absent = [need for need, value in needs.items() if value is None]
    if absent:
      self._line("skipped", name, f"needs the {' and the '.join(absent)}")
      return None
    self._count += 1
    try:
      text, value = answer()
    # jax, Orbax and plug-ins raise errors of their own, and no failure may stop the other checks.
    except Exception as error:
      logging.debug("%s", name, exc_info=True)
      reason = _reason(error)
      if reason in self._failed:
        self._line("skipped", name, f"same error as {self._failed[reason]}")
        return None
      self._failed[reason] = name
      if isinstance(error, UsageError):
        self._error = UsageError
      self._line("FAILED", name, reason)
      return None
    self._line("ok", name, text)
    return value

  def end(self) -> None:
    """Raises if anything failed."""
    if self._failed:
      names = ", ".join(self._failed.values())
      raise self._error(f"dry run: {len(self._failed)} of {self._count} checks failed: {names}")
    self._say(f"dry run: all {self._count} checks are ok; start the run without --dry_run")

  def _line(self, status: str, name: str, text: str) -> None:
    self._say(f"{status:<8}{name}: {text}")


def _reason(error: Exception) -> str:
  # Gin appends the chain of configurables that it was calling.
  text = " ".join(str(error).split("\n  In call to configurable")[0].split())
  if not isinstance(error, XmcapError):
    text = f"{type(error).__name__}: {text}"
  return text if len(text) <= 400 else text[:397] + "..."
