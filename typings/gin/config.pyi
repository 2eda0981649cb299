"""What xmcap uses of `gin.config`: references, and the tables of bindings and of configurables."""

from collections.abc import Callable, Iterator
from typing import Any

class ConfigurableReference:
  selector: str
  scoped_selector: str

class _Configurable:
  wrapped: Callable[..., Any]
  selector: str

class _Registry:
  def get_match(self, partial_selector: str) -> _Configurable: ...
  def items(self) -> Iterator[tuple[str, _Configurable]]: ...
  def matching_selectors(self, partial_selector: str) -> list[str]: ...
  def minimal_selector(self, complete_selector: str) -> str: ...

_CONFIG: dict[tuple[str, str], dict[str, Any]]
_FILE_READERS: list[tuple[Callable[[str], Any], Callable[[str], bool]]]
_LOCATION_PREFIXES: list[str]
_REGISTRY: _Registry

def _format_value(value: Any) -> str | None: ...
def _iterate_flattened_values(value: Any) -> Iterator[Any]: ...
def _set_config_is_locked(is_locked: bool) -> None: ...
def parse_value(value: str) -> Any: ...
