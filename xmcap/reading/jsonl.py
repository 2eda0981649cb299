"""Reads JSONL, and JSON of a known structure."""

import os
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from xmcap.errors import UsageError
from xmcap.reading.inputs import MAX_LINE, Input
from xmcap.terminal import shown

T = TypeVar("T")


def read(path: str | os.PathLike, max_line: int = MAX_LINE) -> Iterator[tuple[int, dict[str, Any]]]:
  """Yields (line number from 1, object) of a JSONL file; UsageError as `Input` and `Input.rows`."""
  with Input(path, max_line) as source:
    yield from source.rows()


def read_document(path: str | os.PathLike, kind: type[T], problem: str, hint: str) -> T:
  """Returns the JSON value of a file as `kind`; UsageError with problem and hint if it has another structure."""
  with Input(path) as source:
    return convert(source.document(), kind, path, problem, hint)


def convert(content: Any, kind: type[T], path: str | os.PathLike, problem: str, hint: str) -> T:
  """Does the same as `read_document` for a value that was read from a file."""
  try:
    return msgspec.convert(content, kind)
  except msgspec.ValidationError as error:
    raise UsageError(f"{path}: {problem} ({shown(error)}); {hint}") from None
