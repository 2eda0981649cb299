"""Reference captions in the layout of the XM3600 release.

JSONL, one image a line: `image/key`, `image/locale` (may be missing) and, for each language code, an object
whose list `caption` holds the references; the release's tokenised lists beside it are not needed here.
"""

import os
from collections.abc import Sequence

from xmcap import languages as languages_lib
from xmcap.errors import UsageError
from xmcap.scoring import files

References = dict[str, dict[str, list[str]]]
"""Image key -> language code -> reference captions (one or more)."""


def read_references(path: str | os.PathLike, languages: Sequence[str] | None = None) -> References:
  """Reads reference captions.

  Args:
    path: a JSONL file in the XM3600 layout.
    languages: the codes to keep; None keeps all. The whole file is checked either way.

  Returns:
    Image key -> language code -> captions as released, in the order of the file. A language without a
    caption for an image has no entry there.

  Raises:
    UsageError: the file cannot be read; a line is no JSON object, repeats a key, names an unknown language
      or has a member of the wrong type (file and line are named); or no image is in it.
  """
  wanted = None if languages is None else {languages_lib.get(code).code for code in languages}
  references: References = {}
  lines: dict[str, int] = {}
  for number, row in files.read_jsonl(path):
    where = f"{path}, line {number}"
    key = row.get("image/key")
    if not isinstance(key, str) or not key:
      raise UsageError(f"{where}: no image/key; each line needs one, a text that is not empty")
    if key in lines:
      raise UsageError(f"{where}: image/key '{files.shown(key)}' is on line {lines[key]} already; keep one")
    lines[key] = number
    references[key] = _captions(row, where, wanted)
  if not references:
    raise UsageError(f"{path}: no image in it; references are JSONL, one image a line")
  return references


def _captions(row: dict, where: str, wanted: set[str] | None) -> dict[str, list[str]]:
  captions = {}
  for name, value in row.items():
    if name.startswith("image/"):
      if name in ("image/key", "image/locale") and not isinstance(value, str):
        raise UsageError(f"{where}: {name} must be a text")
      continue
    files.check_language(name, where)
    texts = value.get("caption") if isinstance(value, dict) else None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
      raise UsageError(f"{where}: '{name}' must be an object whose 'caption' is a list of texts")
    if texts and (wanted is None or name in wanted):
      captions[name] = texts
  return captions
