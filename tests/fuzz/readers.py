"""Damaged files and the functions that read them: each file is read, or refused in one line."""

import collections
import pathlib
import random
import resource
from collections.abc import Callable

from tests.fuzz import mutations
from xmcap.errors import XmcapError

_MEMORY = 500 << 20  # bytes that a small file, however damaged, must not take
_LONGEST = 4000  # characters of an error


def read_or_refused(path: pathlib.Path, read: Callable[[pathlib.Path], object], count: int) -> None:
  """Damages a file `count` times, each time anew, and has it read.

  Args:
    path: a file, or a folder with one file; left as it is.
    read: takes the path; it may raise XmcapError of one line.
    count: cases; some must be read and some refused, or the damage tells nothing.
  """
  (file,) = path.iterdir() if path.is_dir() else [path]
  whole, outcomes, before = file.read_bytes(), collections.Counter(), _peak()
  for case in range(count):
    done = mutations.change(file, random.Random(f"{file.name} {case}"))
    try:
      read(path)
      outcomes["read"] += 1
    except XmcapError as error:
      line = str(error)
      assert line.strip() and len(line.splitlines()) == 1 and len(line) < _LONGEST, (
        case,
        done,
        line[:_LONGEST],
      )
      outcomes["refused"] += 1
    except Exception as error:
      raise AssertionError(f"case {case}, {done}: not an error of one line") from error
    file.write_bytes(whole)
  assert min(outcomes["read"], outcomes["refused"]) > count // 50, outcomes
  assert _peak() - before < _MEMORY


def _peak() -> int:
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
