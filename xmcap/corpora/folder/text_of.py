"""Reads the small files of one image: `.txt` and the like with its captions, `.json` with further fields."""

from typing import Any

from xmcap.corpora.building.problems import Problems
from xmcap.errors import UsageError
from xmcap.files import strict_json

PLAIN = ("txt", "caption", "captions", "cap", "text")
"""Suffixes of a file with a caption, or one a line."""

SUFFIXES = (*PLAIN, "json")
IMAGE = "image"
"""Name of the field with the path of the image."""

_RESERVED = (IMAGE, "key")  # a .json may have them too, but the files themselves say it
_BOM = b"\xef\xbb\xbf"


def add(
  fields: dict[str, Any], middle: str, suffix: str, data: bytes, where: str, problems: Problems
) -> None:
  """Adds a file's contents to the fields of its image; what cannot be read is a problem.

  A file is the caption, or `caption_MIDDLE` if it is named KEY.MIDDLE.txt; each of several lines is a caption. Fields
  of a .json do not replace others, so files of captions come before the caption that img2dataset repeats there; a list
  is of captions. NaN and Infinity, which it writes for unknown similarities, do no harm in a field that is not used.
  """
  if data.startswith(_BOM):
    problems.add("bom", where)
    data = data[len(_BOM) :]
  try:
    if suffix in PLAIN:
      lines = list(filter(None, map(str.strip, strict_json.decode(data, where).splitlines())))
      if len(lines) > 1 and suffix != "captions":
        problems.add("several_lines", where, f"{len(lines)} captions; join the lines if they are one")
      fields[f"caption_{middle}" if middle else "caption"] = lines if len(lines) > 1 else "".join(lines)
    else:
      about = strict_json.parse(data, where, constants=True)
      if isinstance(about, list):
        about = {"captions": about}
      elif not isinstance(about, dict):
        raise UsageError(f"{where}: neither an object nor a list of captions")
      for name, value in about.items():
        if name not in _RESERVED:
          fields.setdefault(name, value)
  except UsageError as error:
    kind = "bad_utf8" if suffix in PLAIN else "not_json"
    problems.add(kind, where, str(error).removeprefix(f"{where}: "))
