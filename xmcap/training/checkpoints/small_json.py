"""Reads the small JSON files of a run's folder; any malformed content is a ValueError."""

from typing import Any

from xmcap.errors import UsageError
from xmcap.files import strict_json
from xmcap.files.bucket_paths import epath

MOST_BYTES = 64 << 20
"""As much as the checksums of a million files take; xmcap writes no larger file."""


def read(file: epath.Path) -> dict[str, Any]:
  """Returns the JSON object in a file.

  Raises:
    ValueError: the file is too large or is not a strict JSON object.
    OSError: the file cannot be read.
  """
  if file.stat().length > MOST_BYTES:
    raise ValueError(f"{file}: more than {MOST_BYTES:,} bytes")
  try:
    return strict_json.parse_object(file.read_bytes(), str(file))
  except UsageError as error:
    raise ValueError(str(error)) from None
