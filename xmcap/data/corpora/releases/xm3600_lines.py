"""Lines of the XM3600 release -> images with their captions in all languages, checked.

A line is a JSON object: `image/key`, `image/locale` (may be missing) and for each language code an object with the
lists `caption` and `caption/tokenized` (may be missing); `caption/tokenized/lowercase` is passed over, for it can be
made again. The file may lie in a zip archive, as it is published.
"""

import bz2
import contextlib
import gzip
import pathlib
import re
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from xmcap import languages
from xmcap.data.corpora.lines import MAX_LINE_BYTES
from xmcap.data.corpora.problems import Problems
from xmcap.data.corpora.releases.translations import mended
from xmcap.errors import UsageError, XmcapError

MAX_BYTES = 1 << 30
"""Of text in the file; the release has 60 million."""

MAX_BLANK = 1_000_000
"""Lines without anything in the file; the release has none."""

_BOM = b"\xef\xbb\xbf"
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_SHORT = 2_500  # so many characters are never too many bytes
_DAMAGE = (OSError, EOFError, zlib.error, zipfile.BadZipFile)


class Image(msgspec.Struct):
  """What a line holds: the key, the locale ("" if it is missing), and (language, text, its tokens or "")."""

  key: str
  locale: str
  captions: list[tuple[str, str, str]]


class _Texts(msgspec.Struct):
  caption: list[str]
  tokenized: list[str] | None = msgspec.field(name="caption/tokenized", default=None)


_LINE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXTS = msgspec.json.Decoder(_Texts)
_TEXT = msgspec.json.Decoder(str)


@contextlib.contextmanager
def open_captions(path: pathlib.Path) -> Iterator[BinaryIO]:
  """Opens `captions.jsonl`, the one in `captions.zip`, or one that is compressed by itself; to read from the front.

  Raises:
    UsageError: it is not there, or the archive holds no file of lines, or several.
    XmcapError: it is damaged; also while it is read in the `with`.
  """
  try:
    with contextlib.ExitStack() as opened:
      file = opened.enter_context(open(path, "rb"))
      head = file.peek(4)[:4]
      if head == b"PK\x03\x04":
        archive = opened.enter_context(zipfile.ZipFile(file))
        yield opened.enter_context(archive.open(_lines_in(archive, path)))
      elif head.startswith((b"\x1f\x8b", b"BZh")):
        yield opened.enter_context((bz2 if head.startswith(b"BZh") else gzip).open(file))
      else:
        yield file
  except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
    raise UsageError(f"{path}: {error.strerror}: give captions.zip or captions.jsonl as published") from None
  except (*_DAMAGE, NotImplementedError, RuntimeError) as error:
    reason = " ".join(str(error).split()) or type(error).__name__
    raise XmcapError(f"{path}: damaged, or cannot be read ({reason}): download it again") from None


def _lines_in(archive: zipfile.ZipFile, path: pathlib.Path) -> zipfile.ZipInfo:
  found = [
    info
    for info in archive.infolist()
    if info.filename.endswith(".jsonl") and not info.filename.startswith("__MACOSX/")
  ]
  if len(found) != 1:
    held = f"{len(found)} .jsonl files" if found else "no .jsonl file"
    raise UsageError(f"{path} holds {held}: give captions.zip as published, or the .jsonl file itself")
  return found[0]


def read_images(file: BinaryIO, name: str, problems: Problems) -> Iterator[Image]:
  """Yields the images of the lines of a file; of two lines with one key, the first.

  Args:
    file: open at its start.
    name: for the places of problems.
    problems: takes what is wrong.

  Raises:
    XmcapError: a line is longer than 16 MB, or the text than `MAX_BYTES`, or more than `MAX_BLANK` lines are empty.
  """
  lines: dict[str, int] = {}
  number = size = blank = 0
  while line := file.readline(MAX_LINE_BYTES + 1):
    number += 1
    size += len(line)
    blank += len(line) <= 2
    if size > MAX_BYTES or blank > MAX_BLANK:
      raise XmcapError(
        f"{name}: over {MAX_BYTES >> 20} MB of text, or {MAX_BLANK:,} empty lines: give the captions as they were "
        "published"
      )
    where = f"{name}, line {number:,}"
    if len(line) > MAX_LINE_BYTES:
      raise XmcapError(f"{where}: over {MAX_LINE_BYTES >> 20} MB: give the captions as they were published")
    if number == 1 and line.startswith(_BOM):
      problems.add("bom", where)
      line = line[len(_BOM) :]
    if line.endswith(b"\r\n"):
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
  """Parses a line; None if it is empty or cannot be used, which is counted.

  What is wrong with one language costs that language, or one of its captions, alone.
  """
  line = line.strip(b" \t\r\n")
  if not line:
    return None
  try:
    line.decode()
    row = _LINE.decode(line)
    key = _TEXT.decode(row.pop("image/key"))
    locale = _TEXT.decode(row.pop("image/locale", b'""'))
  except UnicodeDecodeError as error:
    problems.add("bad_utf8", where, str(error))
  except KeyError:
    problems.add("missing_field", where, "no image/key")
  except msgspec.ValidationError as error:
    kind = "missing_field" if line.startswith(b"{") else "not_json"
    problems.add(
      kind, where, f"image/key or image/locale: {error}" if kind == "missing_field" else str(error)
    )
  except (msgspec.DecodeError, RecursionError) as error:
    cut = line.startswith(b"{") and "truncated" in str(error)
    problems.add("cut_line" if cut else "not_json", where, str(error))
  else:
    if _KEY.fullmatch(key):
      return Image(key, locale, list(_captions(row, where, problems)))
    problems.add("unknown_id", where, f"image/key {key[:40]!a} is no name of a picture")
  return None


def _captions(row: dict[str, msgspec.Raw], where: str, problems: Problems) -> Iterator[tuple[str, str, str]]:
  for name, value in row.items():
    if name.startswith("image/"):
      continue
    if name not in languages.LANGUAGES:
      problems.add("unknown_language", where, f"{name[:40]!a}")
      continue
    try:
      texts = _TEXTS.decode(value)
    except (msgspec.DecodeError, RecursionError) as error:
      problems.add("missing_field", where, f"'{name}': {error}")
      continue
    tokenized = texts.tokenized
    if tokenized is not None and len(tokenized) != len(texts.caption):
      what = f"'{name}': {len(tokenized)} texts in caption/tokenized, {len(texts.caption)} captions; not used"
      problems.add("missing_field", where, what)
      tokenized = None
    for text, tokens in zip(texts.caption, tokenized or [""] * len(texts.caption), strict=True):
      if not (text.isprintable() and len(text) <= _SHORT and text.strip()):
        text = mended(text, f"{where}, '{name}'", problems)
      if text:
        usable = not tokens or (tokens.isprintable() and len(tokens) <= _SHORT)
        yield name, text, tokens if usable else mended(tokens, where, Problems())
