"""MSCOCO image ids in the forms that different corpora use."""

import os
import re
from collections.abc import Iterable

from xmcap.errors import UsageError
from xmcap.reading.inputs import Input
from xmcap.terminal import shown

_ID = re.compile(r"(?:COCO_(?:train|val|test)201[0-9]_)?([0-9]{1,12})(?:\.jpg)?")


def number(name: str) -> int | None:
  """Parses `COCO_train2014_000000296735`, `000000296735` or `296735`, with or without `.jpg`; None for other names."""
  match = _ID.fullmatch(name)
  return int(match[1]) if match else None


def read(paths: Iterable[str | os.PathLike]) -> dict[int, str]:
  """Reads files with one id per line: id -> its file and line. UsageError names a line that is not an id."""
  place_of: dict[int, str] = {}
  for path in paths:
    with Input(path) as source:
      for line, text in source.lines():
        image = number(text)
        if image is None:
          hint = "give one a line, and each list by itself, as joined lists may merge two ids"
          raise UsageError(f"{path}, line {line}: {shown(text, 80)} is no id such as 296735: {hint}")
        place_of.setdefault(image, f"{os.path.basename(path)}, line {line}")
  return place_of
