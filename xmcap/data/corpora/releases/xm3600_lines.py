"""Lines of the XM3600 release -> images with their captions in all languages, checked.

The layout is that of `xmcap.scoring.layouts`; but a line, language or caption that cannot be used is a problem that is
counted, and costs no more than itself. `caption/tokenized/lowercase` is passed over, for it can be made again.
"""

import json
import re
from collections.abc import Iterator

import msgspec

from xmcap.data.corpora.problems import Problems
from xmcap.data.corpora.releases.translations import mended
from xmcap.errors import UsageError
from xmcap.scoring import layouts
from xmcap.scoring.inputs import Input
from xmcap.storage import strict_json

_BOM = b"\xef\xbb\xbf"
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_SHORT = 2_500  # so many characters are never too many bytes


class Image(msgspec.Struct):
  """A line: the key, the locale ("" if it is missing), and (language, text, its tokens or "")."""

  key: str
  locale: str
  captions: list[tuple[str, str, str]]


def read_images(source: Input, name: str, problems: Problems) -> Iterator[Image]:
  """Yields the images of the lines of a file; of two lines with one key, the first.

  Args:
    source: the file.
    name: of the file, for the places of problems.
    problems: takes what is wrong.

  Raises:
    UsageError: the file cannot be read to its end, or a line is too long.
  """
  lines: dict[str, int] = {}
  for number, line in source.raw_lines():
    where = f"{name}, line {number:,}"
    if number == 1 and line.startswith(_BOM):
      problems.add("bom", where)
      line = line[len(_BOM) :]
    if line.endswith(b"\r"):
      problems.add("crlf", where)
    image = parse_line(line, where, problems)
    if image is None:
      continue
    if image.key in lines:
      problems.add("duplicate_line", where, f"{image.key} is on line {lines[image.key]:,} already")
      continue
    lines[image.key] = number
    yield image


def parse_line(line: bytes, where: str, problems: Problems) -> Image | None:
  """Parses a line; None if it is empty or cannot be used, which is counted."""
  line = line.strip(b" \t\r\n")
  if not line:
    return None
  try:
    row = strict_json.parse_object(line, where)
  except UsageError as error:
    problems.add(_kind(line, error), where, str(error).removeprefix(f"{where}: "))
    return None
  key, locale = row.get("image/key"), row.get("image/locale", "")
  if not isinstance(key, str) or not isinstance(locale, str):
    problems.add("missing_field", where, "image/key or image/locale is missing or no text")
    return None
  if not _KEY.fullmatch(key):
    problems.add("unknown_id", where, f"image/key {key[:40]!a} is no name of a picture")
    return None
  return Image(key, locale, list(_captions(row, where, problems)))


def _kind(line: bytes, error: UsageError) -> str:
  cause = error.__cause__
  if isinstance(cause, UnicodeDecodeError):
    return "bad_utf8"
  is_cut = isinstance(cause, json.JSONDecodeError) and (
    cause.pos >= len(cause.doc) or cause.msg.startswith("Unterminated string")
  )
  return "cut_line" if is_cut and line.startswith(b"{") else "not_json"


def _captions(row: dict, where: str, problems: Problems) -> Iterator[tuple[str, str, str]]:
  for language, texts, given in layouts.released(row, where, problems.add):
    tokenized = layouts.texts(given)
    if given is not None and (tokenized is None or len(tokenized) != len(texts)):
      problems.add(
        "missing_field", where, f"'{language}': caption/tokenized has no text for each caption; not used"
      )
      tokenized = None
    for text, tokens in zip(texts, tokenized or [""] * len(texts), strict=True):
      if not (text.isprintable() and len(text) <= _SHORT and text.strip()):
        text = mended(text, f"{where}, '{language}'", problems)
      if text:
        usable = not tokens or (tokens.isprintable() and len(tokens) <= _SHORT)
        yield language, text, tokens if usable else mended(tokens, where, Problems())
