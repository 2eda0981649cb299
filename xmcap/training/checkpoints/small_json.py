"""The small JSON files of a run's folder: whatever is wrong with one is a ValueError."""

from typing import Any

from etils import epath

from xmcap.errors import UsageError
from xmcap.storage import strict_json

MOST_BYTES = 64 << 20
"""A file that is larger is none of ours: the sums of a million files take as much."""


def read(file: epath.Path) -> dict[str, Any]:
  """The object in a file.

  Raises:
    ValueError: it holds none: broken, nested too deeply, too large, NaN, a name twice.
    OSError: it cannot be read.
  """
  if file.stat().length > MOST_BYTES:
    raise ValueError(f"{file}: more than {MOST_BYTES:,} bytes")
  try:
    return strict_json.parse_object(file.read_bytes(), str(file))
  except UsageError as error:
    raise ValueError(str(error)) from None
