"""The arguments of `train` and `hooks` as configured in gin, each resolved separately, for plans and dry runs."""

import inspect
import math
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any

import gin
from gin import config as gin_config

from xmcap import configuration
from xmcap.errors import UsageError
from xmcap.training import hooks, loop, sharding
from xmcap.training.checkpoints.write import CheckpointPolicy
from xmcap.training.optimizer import Optimizer


def check_batch(images: int, groups: int, microbatches: int) -> None:
  """Raises UsageError if a batch cannot be split evenly over data x fsdp devices and into microbatches."""
  if microbatches < 1 or images % groups or images % microbatches:
    unit = math.lcm(groups, max(microbatches, 1))
    raise UsageError(
      f"a batch of {images:,} pictures cannot be split evenly over data x fsdp = {groups} devices and {microbatches} "
      f"microbatches: change one of them (nearest batch: {unit * max(1, round(images / unit)):,} pictures)"
    )


class Once:
  """A value that is made on first use; if making it fails, every call raises the error."""

  def __init__(self, make: Callable[[], Any]):
    self._make = make
    self._made: futures.Future | None = None

  def __call__(self) -> Any:
    if self._made is None:
      self._made = futures.Future()
      try:
        self._made.set_result(self._make())
      except Exception as error:
        self._made.set_exception(error)
    return self._made.result()

  def peek(self) -> Any:
    """The value, or None if it cannot be made."""
    try:
      return self()
    except Exception:
      return None


class Arguments:
  """The arguments of a run by name, each resolved separately, so that one failure does not hide another."""

  _MADE = {"optimizer": Optimizer, "checkpoint": CheckpointPolicy, "partitioning": sharding.Partitioning}

  def __init__(self):
    self._bound, self._defaults = {}, {}
    for function in (hooks.hooks, loop.train):
      parameters = inspect.signature(function).parameters
      self._bound |= gin.get_bindings(function.__name__, resolve_references=False)
      self._defaults |= {name: parameter.default for name, parameter in parameters.items()}
    self._once: dict[str, Once] = {}

  def __getitem__(self, name: str) -> Once:
    return self._once.setdefault(name, Once(lambda: self._resolve(name)))

  def unresolved(self, name: str) -> Sequence[Any]:
    """The items of a list argument, with references not yet resolved."""
    value = self._bound.get(name, ())
    while isinstance(value, gin_config.ConfigurableReference) and value.selector == "gin.macro":
      value = gin.query_parameter(f"{value.scoped_selector}.value")
    return value if isinstance(value, list | tuple) else configuration.resolve(value)

  def _resolve(self, name: str) -> Any:
    value = configuration.resolve(self._bound.get(name, self._defaults[name]))
    if value is gin.REQUIRED or value is inspect.Parameter.empty:
      raise UsageError(f"train.{name} is not set: add a run's gin file, such as --gin_file=runs/train.gin")
    return self._MADE[name]() if value is None and name in self._MADE else value
