"""Reads the small files of one image: `.txt` and `.caption` with its caption, `.json` with further fields."""

from collections.abc import Mapping
from typing import Any

from xmcap.corpora.building.problems import Problems
from xmcap.errors import UsageError
from xmcap.files import strict_json

PLAIN = ("txt", "caption")
"""Suffixes of a file with a caption."""

SUFFIXES = (*PLAIN, "json")
IMAGE = "image"
"""Name of the field with the path of the image."""

_RESERVED = (IMAGE, "key")  # a .json may have them too, but the files themselves say it
_BOM = b"\xef\xbb\xbf"


def add(
  fields: dict[str, Any], middle: str, suffix: str, data: bytes, where: str, problems: Problems
) -> None:
  """Adds a file's contents to the fields of its image; what cannot be read is a problem.

  A file is the caption, or `caption_MIDDLE` if it is named KEY.MIDDLE.txt. Fields of a .json do not replace others, so
  files of captions come before the caption that img2dataset repeats there. NaN and Infinity, which it writes for
  unknown similarities, do no harm in a field that is not used.
  """
  if data.startswith(_BOM):
    problems.add("bom", where)
    data = data[len(_BOM) :]
  try:
    if suffix in PLAIN:
      fields[f"caption_{middle}" if middle else "caption"] = strict_json.decode(data, where).strip()
    else:
      about: Mapping[str, Any] = strict_json.parse_object(data, where, constants=True)
      for name, value in about.items():
        if name not in _RESERVED:
          fields.setdefault(name, value)
  except UsageError as error:
    kind = "bad_utf8" if suffix in PLAIN else "not_json"
    problems.add(kind, where, str(error).removeprefix(f"{where}: "))
