"""Ids of MSCOCO's pictures, as different corpora write them."""

import os
import re
from collections.abc import Iterable

from xmcap.errors import UsageError
from xmcap.scoring.inputs import Input
from xmcap.terminal import shown

_ID = re.compile(r"(?:COCO_(?:train|val|test)201[0-9]_)?([0-9]{1,12})(?:\.jpg)?")


def number(name: str) -> int | None:
  """The number of `COCO_train2014_000000296735`, `000000296735` or `296735`, with `.jpg` or without; None of others."""
  match = _ID.fullmatch(name)
  return int(match[1]) if match else None


def read(paths: Iterable[str | os.PathLike]) -> dict[int, str]:
  """Number -> file and line that name it, of files with an id a line; UsageError names a line that has none."""
  found: dict[int, str] = {}
  for path in paths:
    with Input(path) as source:
      for line, text in source.lines():
        image = number(text)
        if image is None:
          raise UsageError(
            f"{path}, line {line}: {shown(text, 80)} is no id such as COCO_train2014_000000296735 or 296735: give one "
            "a line, and each list by itself (joined, a list without a final line end merges two ids)"
          )
        found.setdefault(image, f"{os.path.basename(path)}, line {line}")
  return found
