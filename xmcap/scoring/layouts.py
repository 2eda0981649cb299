"""Lines of the two layouts that large files have, decoded and checked in one go by msgspec.

A short cut, several times as fast as reading JSON with care: what is not exactly as the layout says gives None,
and is left to `strict_json`, which finds the words for what is wrong.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from xmcap import languages


class Captions(msgspec.Struct):
  """The captions of one language on a line of the XM3600 release.

  What else there may be is not decoded: of it only the JSON is checked, and not that its texts are UTF-8.
  """

  caption: list[str]
  tokenized: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="caption/tokenized", default=msgspec.UNSET)
  lowercase: msgspec.Raw | msgspec.UnsetType = msgspec.field(
    name="caption/tokenized/lowercase", default=msgspec.UNSET
  )


class Prediction(msgspec.Struct):
  """A line of predictions."""

  key: str = msgspec.field(name="image/key")
  language: str
  caption: str


class Released(NamedTuple):
  """A line of the XM3600 release: image key, locale, and language -> captions, none of them empty."""

  key: str
  locale: str
  captions: dict[str, list[str]]


Decode = Callable[[bytes], Sequence[Any] | None]
"""Returns a row a line of a block of whole lines; None if one of them is not as the layout says."""

_RELEASED = msgspec.json.Decoder(dict[str, str | Captions])
_PREDICTION = msgspec.json.Decoder(Prediction)


def released(block: bytes) -> list[Released] | None:
  """Decodes lines of the XM3600 release."""
  # Line by line, as a line fits into the processor's cache.
  rows = []
  for raw in block.removesuffix(b"\n").split(b"\n"):
    row = _released(raw)
    if row is None:
      return None
    rows.append(row)
  return rows


def predictions(block: bytes) -> list[Prediction] | None:
  """Decodes lines of predictions."""
  rows = _decoded(_PREDICTION.decode_lines, block)
  if rows is None or len(rows) != block.removesuffix(b"\n").count(b"\n") + 1:
    return None  # an empty line would change the numbers of those that follow
  return rows if _has_members(block, 3 * len(rows)) else None


def _released(raw: bytes) -> Released | None:
  row = _decoded(_RELEASED.decode, raw)
  if row is None:
    return None
  members, texts, captions = len(row), 0, {}
  for name, value in row.items():
    if type(value) is not Captions:
      texts += 1
      continue
    if name not in languages.LANGUAGES:
      return None
    members += 1 + (value.tokenized is not msgspec.UNSET) + (value.lowercase is not msgspec.UNSET)
    if value.caption:
      captions[name] = value.caption
  key, locale = row.get("image/key"), row.get("image/locale")
  of_image = 1 + (locale is not None)
  known = type(key) is str and key and type(locale) is not Captions and texts == of_image
  if not (known and len(row) > texts and _has_members(raw, members)):
    return None
  return Released(key, locale or "", captions)


def _decoded(decode: Callable[[bytes], Any], raw: bytes) -> Any:
  # It may be half a surrogate pair. One character is found much faster than two.
  if b"\\" in raw and b"\\u" in raw:
    return None
  try:
    return decode(raw)
  except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
    return None


def _has_members(raw: bytes, count: int) -> bool:
  """Whether lines have as many members as were decoded: else one stands twice, or is of another layout.

  A quote and a colon end the name of a member, and in a text only follow a backslash: then there seem to be more.
  """
  return raw.count(b":") == count or raw.count(b'":') == count
