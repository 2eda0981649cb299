"""What xmcap and its tests use of `gin.config_parser`: the parser, and the statements that it gives."""

import io
from collections.abc import Iterator
from typing import Any, NamedTuple

class Location(NamedTuple):
  filename: str | None
  line_num: int
  char_num: int | None
  line_content: str

class BindingStatement(NamedTuple):
  scope: str
  selector: str
  arg_name: str
  value: Any
  location: Location

class BlockDeclaration(NamedTuple):
  scope: str
  selector: str
  location: Location

class ImportStatement(NamedTuple):
  module: str
  is_from: bool
  alias: str | None
  location: Location

class IncludeStatement(NamedTuple):
  filename: str
  location: Location

Statement = BindingStatement | BlockDeclaration | ImportStatement | IncludeStatement

class ParserDelegate:
  def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> Any: ...
  def macro(self, macro_name: str) -> Any: ...

class ConfigParser(Iterator[Statement]):
  def __init__(self, string_or_filelike: str | io.TextIOBase, parser_delegate: ParserDelegate) -> None: ...
  def __next__(self) -> Statement: ...
  def parse_value(self) -> Any: ...
