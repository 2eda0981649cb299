"""What a dry run goes by: the arguments of the run, each resolved by itself, and a line said for each check."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import gin
from absl import logging
from gin import config as gin_config

from xmcap import configuration
from xmcap.errors import UsageError, XmcapError
from xmcap.training import checkpoints as checkpoints_lib
from xmcap.training import loop, sharding
from xmcap.training.optimizer import Optimizer


class Once:
  """A value made when it is first asked for; an error in the making is raised each time."""

  def __init__(self, make: Callable[[], Any]):
    self._make = make
    self._error: Exception | None = None

  def __call__(self) -> Any:
    if self._make is not None:
      make, self._make = self._make, None
      try:
        self._value = make()
      except Exception as error:
        self._error = error
    if self._error is not None:
      raise self._error
    return self._value

  def peek(self) -> Any:
    """The value, or None if it cannot be made."""
    try:
      return self()
    except Exception:
      return None


class Arguments:
  """The arguments of `loop.train`, each resolved by itself, so that one that cannot be made hides no other."""

  _MADE = {
    "optimizer": Optimizer,
    "checkpoint": checkpoints_lib.CheckpointPolicy,
    "partitioning": sharding.Partitioning,
  }

  def __init__(self):
    self._bound = gin.get_bindings("train", resolve_references=False)
    self._defaults = {name: field.default for name, field in inspect.signature(loop.train).parameters.items()}
    self._once: dict[str, Once] = {}

  def __getitem__(self, name: str) -> Once:
    return self._once.setdefault(name, Once(lambda: self._resolve(name)))

  def unresolved(self, name: str) -> Sequence[Any]:
    """The items of a list, as they are bound."""
    value = self._bound.get(name, ())
    while isinstance(value, gin_config.ConfigurableReference) and value.selector == "gin.macro":
      value = gin.query_parameter(f"{value.scoped_selector}.value")
    return value if isinstance(value, list | tuple) else configuration.resolve(value)

  def _resolve(self, name: str) -> Any:
    value = configuration.resolve(self._bound.get(name, self._defaults[name]))
    if value is gin.REQUIRED or value is inspect.Parameter.empty:
      raise UsageError(f"train.{name} is not set: add a run's gin file, such as --gin_file=runs/train.gin")
    return self._MADE[name]() if value is None and name in self._MADE else value


class Report:
  """Says a line a check, and keeps what failed."""

  def __init__(self, say: Callable[[str], None]):
    self._say = say
    self._reasons: dict[str, str] = {}
    self._count = 0
    self._failed: list[str] = []
    self._usage = False
    self.said: dict[str, str] = {}

  def check(self, name: str, function: Callable[[], tuple[str, Any]], **needs: Any) -> Any:
    """Runs a check, which returns what to say and a value.

    Args:
      name: of the check.
      function: the check.
      needs: what it cannot do without, by name; where one is None the check is skipped.

    Returns:
      The value; None if it failed or was skipped.
    """
    absent = [need for need, value in needs.items() if value is None]
    if absent:
      self._line("skipped", name, f"needs the {' and the '.join(absent)}")
      return None
    self._count += 1
    try:
      self.said[name], value = function()
    # jax, orbax and whatever a plug-in uses have errors of their own, and no check may stop the others.
    except Exception as error:
      logging.debug("%s", name, exc_info=True)
      reason = _reason(error)
      if reason in self._reasons:
        self._line("skipped", name, f"as {self._reasons[reason]}")
        return None
      self._reasons[reason] = name
      self._failed.append(name)
      self._usage = self._usage or isinstance(error, UsageError)
      self._line("FAILED", name, reason)
      return None
    self._line("ok", name, self.said[name])
    return value

  def end(self) -> None:
    """Raises if anything failed."""
    if self._failed:
      kind = UsageError if self._usage else XmcapError
      raise kind(f"dry run: {len(self._failed)} of {self._count} checks failed: {', '.join(self._failed)}")
    self._say(f"dry run: all {self._count} checks are ok; without --dry_run the run begins")

  def _line(self, status: str, name: str, text: str) -> None:
    self._say(f"{status:<8}{name}: {text}")


def _reason(error: Exception) -> str:
  # Gin adds the chain of configurables that called; what is wrong stands before it.
  text = " ".join(str(error).split("\n  In call to configurable")[0].split())
  if not isinstance(error, XmcapError):
    text = f"{type(error).__name__}: {text}"
  return text if len(text) <= 400 else text[:397] + "..."
