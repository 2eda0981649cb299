"""The pictures of a page: small embedded copies, or links to files."""

import base64
import concurrent.futures
import dataclasses
import functools
import io
import itertools
import os
import pathlib
import re
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from PIL import ImageOps

from xmcap.errors import UsageError
from xmcap.files import keys as keys_lib
from xmcap.pages.report import elements
from xmcap.reading import archives, image_formats, matching

BUDGET = 24 * 2**20
"""Largest total of base64 characters of the embedded pictures of a report."""

_MODES = ("embed", "link", "none")
Read = Callable[[str], bytes]
"""Returns the bytes of a picture's file, given its key."""

_SAFE_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_NOT_SHOWN = (".heic", ".heif", ".tif", ".tiff")  # of `archives.PICTURES`: by most browsers
_MAX_PIXELS = 50_000_000
_MAX_SIDE = 400
_FEW, _SIDE_OF_FEW, _SIDE_OF_MANY = 800, 320, 176  # a few pictures can be larger within the budget
_PER_BLOCK = 100
_BATCH = 64  # pictures decoded at a time; small, so that few are decoded in vain
_SCALED_MODES = ("L", "RGB", "CMYK")  # the modes of JPEG; Pillow cannot scale all other modes
_NOT_EMBEDDED, _NONE = -1, -2


@dataclasses.dataclass(frozen=True)
class ReportPictures:
  """The pictures of a report.

  Attributes:
    data: data for the script: `kind`, and `of`, which has for each image the index of its embedded picture (-1: not
      embedded) or the link to its file relative to `folder`; -2: there is no picture.
    sources: the value of the page's Content-Security-Policy for images.
    blocks: embedded pictures, `perBlock` lines of base64 each.
    note: a note for readers on what is missing.
  """

  data: dict[str, Any]
  sources: str
  blocks: tuple[str, ...] = ()
  note: str = ""


def missing(images_dir: str | os.PathLike | None, statistics: Mapping[str, Any]) -> str:
  """Returns the line on how many scored images have a picture in a folder; "" if all have, or there is no folder."""
  keys = {key for of_language in statistics.values() for key in of_language.keys}
  count = len(keys) if images_dir is None else len(find_all(images_dir, keys))
  line = f"xmcap: {count:,} of {len(keys):,} pictures found in {images_dir}: give the folder with KEY.jpg or KEY.png"
  return line if count < len(keys) else ""


def check(mode: str, images_dir: str | os.PathLike | None) -> None:
  """Checks the options for pictures before anything else is done; UsageError if they are invalid."""
  if mode not in _MODES:
    raise UsageError(f"pictures '{mode}': there are {', '.join(_MODES)}")
  if mode == "link" and images_dir is None:
    raise UsageError("pictures 'link': also give the folder of the pictures, or choose 'none'")
  if images_dir is not None and not os.path.isdir(images_dir):
    raise UsageError(
      f"{images_dir}: no such folder of images; give the folder that contains KEY.jpg or KEY.png"
    )


def choose(
  mode: str,
  keys: Sequence[str],
  images_dir: str | os.PathLike | None,
  report: str | os.PathLike,
  read: Read | None = None,
) -> ReportPictures:
  """Finds the pictures of images; UsageError as `check`.

  Args:
    mode: `embed`: small copies of up to `BUDGET` characters, evenly spaced over the images; `link`: relative paths;
      `none`.
    images_dir: folder with `KEY.jpg` or `KEY.png`; None: no pictures, unless there is `read`.
    report: the file of the report, which links are relative to.
    read: returns the bytes of a picture, if there is no folder; called from many threads.
  """
  check(mode, images_dir)
  if mode == "embed" and images_dir is None and read is not None:
    return _embedded(keys, [functools.partial(read, key) for key in keys])
  if mode == "none" or images_dir is None:
    return ReportPictures({"kind": "none"}, "'none'")
  folder = pathlib.Path(images_dir)
  paths = find_all(folder, keys)
  if mode == "embed":
    return _embedded(keys, [paths[key].read_bytes if key in paths else None for key in keys])
  address = urllib.parse.quote(os.path.relpath(folder, pathlib.Path(report).parent))
  links = {key: paths[key].relative_to(folder).as_posix() for key in paths if is_linkable(paths[key])}
  of = [urllib.parse.quote(links[key]) if key in links else _NONE for key in keys]
  data = {"kind": "link", "folder": f"{address}/", "of": of}
  # 'self' is for a report that is viewed through a server; it does not cover local files.
  return ReportPictures(data, "'self' file:", note=_missing_note(keys, of))


def find(images_dir: pathlib.Path, key: str) -> pathlib.Path | None:
  """Returns the file of an image key in a folder; None if there is none, or if the key is not a plain name."""
  if _is_name(key):
    for suffix in archives.PICTURES:
      path = images_dir / f"{key}{suffix}"
      if path.is_file():
        return path
  return None


def _is_name(key: str) -> bool:
  return _SAFE_KEY.fullmatch(key) is not None or keys_lib.is_key(key)


def find_all(images_dir: str | os.PathLike, keys: Iterable[str]) -> dict[str, pathlib.Path]:
  """Returns the files of image keys in a folder: as `find`, or else at any depth and in upper case (`.JPG`).

  A file matches the key that a corpus of own pictures gives it (`keys.hashed`), or its name if that is unique; a key of
  no such name matches the one file of another spelling, as `matching.bare` compares them.
  """
  folder, keys = pathlib.Path(images_dir), list(keys)
  by_key = {key: path for key in keys if (path := find(folder, key))}
  missing = [key for key in keys if key not in by_key and ".." not in key]
  stems = set(filter(_is_name, missing))
  spelled: dict[str, list[str]] = {}
  for key in missing:
    spelled.setdefault(matching.bare(key), []).append(key)
  deeper: dict[str, list[pathlib.Path]] = {}
  others: dict[str, list[pathlib.Path]] = {}
  for parent, _, names in os.walk(folder) if missing else ():
    for stem, suffix in map(os.path.splitext, names):
      if suffix.lower() in archives.PICTURES:
        path = pathlib.Path(parent, f"{stem}{suffix}")
        inside = path.relative_to(folder).as_posix()
        for key in {stem, keys_lib.normal(stem), keys_lib.hashed(stem, inside)} & stems:
          deeper.setdefault(key, []).append(path)
        if len(alike := spelled.get(matching.bare(path.name), ())) == 1:
          others.setdefault(alike[0], []).append(path)
  return by_key | {key: paths[0] for key, paths in (others | deeper).items() if len(paths) == 1}


def is_linkable(path: pathlib.Path) -> bool:
  """Whether browsers show such a picture file, to which a page may then link."""
  return path.suffix.lower() not in _NOT_SHOWN


def data_uri(path: pathlib.Path) -> str | None:
  """Returns a picture as a data URI, scaled down if large; None if it cannot be decoded."""
  jpeg = thumbnail(path.read_bytes, _MAX_SIDE, quality=82)
  return None if jpeg is None else elements.picture_uri(jpeg)


def thumbnail(read: Callable[[], bytes], side: int, quality: int = 74) -> bytes | None:
  """Returns a picture as a JPEG of at most `side` pixels per side; None if it cannot be decoded.

  The size in the header is checked before any pixel is decoded.
  """
  try:
    with image_formats.opened(read()) as image:
      if image.width * image.height > _MAX_PIXELS:
        return None
      if image.mode not in _SCALED_MODES:
        image = image.convert("RGB")
      # Scaled before it is rotated by its EXIF orientation, which saves decoding most of a JPEG.
      image.thumbnail((side, side), reducing_gap=1.0)
      buffer = io.BytesIO()
      ImageOps.exif_transpose(image).convert("RGB").save(buffer, "JPEG", quality=quality, optimize=True)
      return buffer.getvalue()
  except Exception:  # Pillow's decoders raise many types of errors on damaged bytes
    return None


def problem(data: bytes) -> str:
  """Returns why `thumbnail` returns None for a file, and what to do about it."""
  if image_formats.other_format(data):
    return image_formats.reason(data)
  return f"damaged, no picture, or of more than {_MAX_PIXELS:,} pixels: replace it"


def _embedded(keys: Sequence[str], readers: Sequence[Callable[[], bytes] | None]) -> ReportPictures:
  side = _SIDE_OF_FEW if len(keys) <= _FEW else _SIDE_OF_MANY
  of = [_NONE if read is None else _NOT_EMBEDDED for read in readers]
  texts: dict[int, str] = {}
  size, order = 0, iter([place for place in _spread(len(keys)) if readers[place] is not None])
  with concurrent.futures.ThreadPoolExecutor() as pool:
    while size < BUDGET and (batch := list(itertools.islice(order, _BATCH))):
      contents = pool.map(lambda place: thumbnail(readers[place], side), batch)
      for place, content in zip(batch, contents, strict=True):
        if content is None:
          of[place] = _NONE
        elif size < BUDGET:
          text = base64.b64encode(content).decode("ascii")
          size += len(text)
          if size <= BUDGET:
            texts[place] = text
  embedded = sorted(texts)
  for number, place in enumerate(embedded):
    of[place] = number
  lines = [texts[place] for place in embedded]
  blocks = tuple("\n".join(lines[i : i + _PER_BLOCK]) for i in range(0, len(lines), _PER_BLOCK))
  note = _missing_note(keys, of)
  if left_out := of.count(_NOT_EMBEDDED):
    sentence = f"{len(embedded):,} pictures are in this file, evenly spaced; {left_out:,} are left out"
    note = f"{sentence}, as all of them would take more than {BUDGET // 2**20} MB. {note}".strip()
  return ReportPictures({"kind": "embed", "perBlock": _PER_BLOCK, "of": of}, "data:", blocks, note)


def _missing_note(keys: Sequence[str], of: Sequence[int | str]) -> str:
  missing = [key for key, number in zip(keys, of, strict=True) if number == _NONE]
  if not missing:
    return ""
  few = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
  return f"No readable picture in the folder for {len(missing):,} of {len(keys):,} images: {few}."


def _spread(count: int) -> list[int]:
  """Returns 0 to count - 1 in an order whose prefixes are all evenly spaced, by multiples of the golden ratio."""
  return sorted(range(count), key=lambda place: place * 0.6180339887498949 % 1)
