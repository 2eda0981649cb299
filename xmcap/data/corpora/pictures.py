"""The pictures of a release: found wherever they lie, read in place, and looked at before they are stored.

`open_pictures` takes folders and archives as people have them after a download; `examine` says what is wrong with
the bytes of one picture and makes of them what a record may hold.

A place is one of

  a folder of pictures, at any depth (`train2014/`, img2dataset's files with a .json beside each)
  a .zip, read in place; a .tar, read in place; a .tgz or .tar.bz2, unpacked once into the working folder
  a folder of .tar files, as img2dataset leaves them (WebDataset: KEY.jpg, KEY.json with its URL)

Nothing is ever written under a name that an archive gives, and no key becomes a path: names are looked up among
those that were found. The table of names lies on disk (picture_index.py), so that millions of them take no memory.
"""

import dataclasses
import io
import math
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

from PIL import Image

from xmcap.data import images
from xmcap.data.corpora import archives, picture_index
from xmcap.data.corpora.problems import Problems
from xmcap.errors import XmcapError

MIN_SIDE = 8
"""Pictures with a shorter side, in pixels, are left out: dead links often answer with a single pixel."""

MAX_BYTES = archives.MAX_BYTES
"""Files of more bytes are no pictures of a corpus; they are not read."""

_JPEG_SIDE = 65_500  # pixels that a JPEG may have

DEFAULT_QUALITY = 90
"""Of the JPEG that a scaled picture is stored as."""

Place = str | os.PathLike

_AS_PUBLISHED = (
  "JPEG",
  "MPO",
  "PNG",
)  # MPO: a JPEG with further pictures behind it, as telephones write them
_CONVERTED = ("GIF", "WEBP", "BMP")
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")  # those of images.decode
_STARTS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"RIFF", b"BM")

# Pillow warns of odd metadata, once a picture; it is the pixels that count here.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")


@dataclasses.dataclass(frozen=True)
class Picture:
  """What `examine` found.

  Attributes:
    data: the bytes to store, JPEG or PNG; b"" if the picture cannot be used.
    kinds: kind (of `problems.KINDS`) -> what is wrong, in words. A kind with the rule `use` may stand here beside
      data; one with the rule `skip` never does.
  """

  data: bytes
  kinds: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Pictures:
  """The pictures of one or more places, by name or address; made by `open_pictures`.

  Pickles as the place of its table, and opens files when they are first read: give it to worker processes.

  Attributes:
    problems: what was found while the places were searched: `unsafe_path`, `duplicate_picture`, `truncated` (a tar
      that breaks off), with their list.
    has_urls: whether pictures have addresses (img2dataset's .json, or a key map of addresses).
  """

  def __init__(self, index: picture_index.Index, problems: Problems):
    self._index = index
    self._files = archives.OpenFiles(index.files)
    self.problems = problems
    self.has_urls = index.has_urls

  def __len__(self) -> int:
    """Pictures found."""
    return len(self._index)

  def names(self) -> Iterator[str]:
    """The names of all pictures, without folder and suffix, in the order they were found; a name may come again."""
    return self._index.names()

  def read(self, key: str) -> bytes:
    """The bytes of a picture.

    Args:
      key: the file's name without its suffix (`06c5f87181c30e00`), a path as a release gives it
        (`val2014/COCO_val2014_000000000042.jpg`; folders above the last are not looked at), or a key of the key map.

    Raises:
      KeyError: there is no such picture.
      XmcapError: it was there, and cannot be read.
    """
    return self._files.read(*self._index.find(key))

  def by_url(self, url: str) -> bytes:
    """The bytes of the picture that was fetched from an address; errors as in `read`."""
    return self._files.read(*self._index.find_url(url))


def open_pictures(
  places: Place | Sequence[Place],
  work_dir: str | os.PathLike,
  *,
  key_map: str | os.PathLike | None = None,
  on_bad: str = "skip",
  processes: int | None = None,
  progress: Callable[[str], None] | None = None,
) -> Pictures:
  """Finds the pictures of one or more places.

  The table that this makes in `work_dir` is used again where it is whole and the archives have not changed, so that
  a build goes on at once after a kill. Of two pictures with one name the first counts: by the order of the places,
  then by name of the file, then by the order in the archive.

  Args:
    places: folders and archives; see the top of this file.
    work_dir: folder for the table and for what is unpacked; made if absent.
    key_map: lines `key<TAB>file`, for folders whose names say nothing; the key may be an address. Keys that are
      numbers may have zeros before them or not.
    on_bad: as in `Problems`.
    processes: that search archives; None: one a core.
    progress: called with a line of text now and then.

  Raises:
    UsageError: a place or the key map is not there, or is no folder or archive of pictures.
    XmcapError: an archive is damaged, or the disk is full.
  """
  places = [places] if isinstance(places, str | os.PathLike) else list(places)
  index, problems = picture_index.make(
    places,
    work_dir,
    key_map=key_map,
    on_bad=on_bad,
    processes=processes,
    progress=progress or (lambda line: None),
  )
  return Pictures(index, problems)


def examine(data: bytes, key: str, image_size: int | None = None, quality: int = DEFAULT_QUALITY) -> Picture:
  """Says what is wrong with a picture, and gives the bytes to store.

  JPEG and PNG stay as published, whatever their colours (images.decode reads them all). Of GIF, WebP and BMP the
  first frame becomes a PNG. The picture is decoded, if only at an eighth of its size, so that one that breaks off is
  found; one with too many pixels is refused by its header.

  Args:
    data: of the file.
    key: of the picture, for messages.
    image_size: if given, a picture whose shorter side is longer becomes a JPEG with a shorter side of this many
      pixels, upright and in RGB; others stay as they are.
    quality: of that JPEG, 1 to 95.
  """
  if not data:
    return Picture(b"", {"empty_file": "no bytes at all"})
  try:
    with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
      width, height = image.size
      kind = image.format
      if width * height > images.MAX_PIXELS:
        return Picture(b"", {"too_many_pixels": f"{width} x {height} pixels"})
      if min(width, height) < MIN_SIDE:
        return Picture(b"", {"too_small": f"{width} x {height} pixels"})
      scaled = image_size is not None and min(width, height) > image_size
      if scaled and max(width, height) * image_size > _JPEG_SIDE * min(width, height):
        return Picture(b"", {"too_many_pixels": f"{width} x {height} pixels: too long for a JPEG"})
      if images.has_too_many_scans(data):
        return Picture(
          b"", {"too_many_pixels": f"{width} x {height} pixels in over {images.MAX_SCANS} scans"}
        )
      if not scaled and kind in _AS_PUBLISHED:
        image.draft(None, (1, 1))  # a JPEG at an eighth: the whole file is read, at a third of the time
        image.load()
        return Picture(data)
    pixels = images.decode(data, key, at_least=image_size if scaled else None)
  except Image.DecompressionBombError as error:  # what Pillow refuses before we can
    return Picture(b"", {"too_many_pixels": re.sub(r".*\((\d+) pixels\).*", r"\1 pixels", str(error))})
  except Image.UnidentifiedImageError:
    return Picture(b"", _unidentified(data))
  except Exception as error:  # on damaged bytes Pillow's decoders raise errors of many types
    return Picture(b"", {"truncated": _reason(error)})
  kinds = {"converted": f"{kind} stored as {'JPEG' if scaled else 'PNG'}"} if kind in _CONVERTED else {}
  stored = Image.fromarray(pixels)
  buffer = io.BytesIO()
  if scaled:
    scale = image_size / min(stored.size)
    size = tuple(max(image_size, math.floor(side * scale + 0.5)) for side in stored.size)
    stored = stored.resize(size, Image.Resampling.BICUBIC)
    stored.save(buffer, "JPEG", quality=quality, optimize=True)
  else:
    stored.save(buffer, "PNG")
  return Picture(buffer.getvalue(), kinds)


def _unidentified(data: bytes) -> dict[str, str]:
  """The kind of bytes that no decoder takes: the first bytes of a picture, or of something else."""
  if any(data.startswith(start) for start in _STARTS):
    return {"truncated": f"the header is cut off or damaged ({len(data):,} bytes)"}
  head = data[:256].lstrip().lower()
  if head.startswith((b"<!doctype html", b"<html", b"<head", b"<?xml", b"<svg")):
    return {"not_a_picture": "a page, not a picture"}
  return {"not_a_picture": f"in no known format (begins with {data[:8]!r})"}


def _reason(error: Exception) -> str:
  if isinstance(error, XmcapError):  # images.decode says which picture, too
    return str(error).split("(")[-1].split(")")[0]
  return " ".join(str(error).split()) or type(error).__name__
