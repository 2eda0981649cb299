"""Finds identical pictures by a hash of their pixels, whatever their keys and files, and much alike ones by another.

A picture of `test` that is also in `train` makes scores too good. The hash is of the decoded pixels, so other metadata,
or a PNG made of a JPEG, do not hide a copy. One that was resized or compressed anew has other pixels; most of those
have nearly the same difference hash (Krawetz, "Kind of like that", 2013), but so have a few pictures that differ.
"""

import hashlib
import itertools
import pathlib
import sqlite3
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np
from PIL import Image

from xmcap import processes as processes_lib
from xmcap.corpora.building.image_search import ImageSearch, Wanted
from xmcap.corpora.building.options import BuildInProgress
from xmcap.corpora.building.problems import Problems
from xmcap.data import images
from xmcap.errors import XmcapError
from xmcap.files import databases, files
from xmcap.progress import Progress, Say

SCHEMA = "CREATE TABLE pictures (pixels, split, key, PRIMARY KEY (pixels, split)) WITHOUT ROWID;"
"""Of a database for `ImageIndex`."""
MOST_COMPARED = 10**11
"""Pairs of images that are compared for their looks, some 20 minutes of a core; of larger splits none are."""

_CHUNK = 256  # pictures that a process hashes at a time
_LOOK_SIZE = 9, 8
_LEAST_BITS = 8  # of each value; a hash with less is of a plain picture, as many are
_MOST_OTHER = 3  # bits of two looks that are alike


class ImageHash(NamedTuple):
  """The number of an image in the search, and the hashes of its file and of its pixels (`image_hash`)."""

  number: int
  file: str
  pixels: str


class Earlier(NamedTuple):
  """An earlier image with the same pixels."""

  split: str
  key: str


class ImageIndex:
  """The images met so far, in a database with `SCHEMA`: of each split the first with its pixels."""

  def __init__(self, database: sqlite3.Connection):
    self._database = database

  def add(self, split: str, key: str, pixels: str) -> Earlier | None:
    """Adds an image; returns an earlier one with its pixels, of another split if there is one; None if it is new."""
    row = self._database.execute(
      "SELECT split, key FROM pictures WHERE pixels = ? ORDER BY split = ?, split LIMIT 1", (pixels, split)
    ).fetchone()
    self._database.execute("INSERT OR IGNORE INTO pictures VALUES (?, ?, ?)", (pixels, split, key))
    return row and Earlier(*row)


def count(path: pathlib.Path, pictures: Iterable[tuple[str, str, str]], problems: Problems) -> str:
  """Counts images that a split shares with an earlier one as problems; returns the first such pair, or "".

  Args:
    path: of the database, which is made.
    pictures: split, key and `pixel_hash` of all images, split by split.
    problems: receives an `in_other_split` for each.
  """
  first = ""
  with databases.writing(path, SCHEMA) as database:
    index = ImageIndex(database)
    for split, key, pixels in pictures:
      earlier = index.add(split, key, pixels)
      if earlier is not None and earlier.split != split:
        detail = f"{split}: the same pixels as {earlier.key} of {earlier.split}"
        problems.add("in_other_split", key, detail)
        first = first or f"{key} of {detail}"
  path.unlink()
  return first


def pixel_hash(pixels: np.ndarray) -> str:
  """Returns 128 bits of SHA-256 of uint8 [height, width, 3], in hexadecimal."""
  digest = hashlib.sha256(repr(pixels.shape).encode())
  digest.update(np.ascontiguousarray(pixels).data)
  return digest.hexdigest()[:32]


def image_hash(data: bytes) -> str:
  """Returns the hash of the pixels of a file, or of its bytes if it cannot be decoded."""
  try:
    return pixel_hash(images.decode(data, ""))
  except XmcapError:
    return _file_hash(data)


def _file_hash(data: bytes) -> str:
  return hashlib.sha256(data).hexdigest()[:32]


def difference_hash(pixels: np.ndarray) -> int:
  """Returns the difference hash of uint8 [height, width, 3], of 64 bits; 0 for a plain picture."""
  image = Image.fromarray(pixels)
  image = image.reduce(max(1, min(image.size) // 32)).convert("L").resize(_LOOK_SIZE, Image.Resampling.BOX)
  grey = np.asarray(image)
  bits = grey[:, 1:] > grey[:, :-1]
  is_plain = not _LEAST_BITS <= bits.sum() <= bits.size - _LEAST_BITS
  return 0 if is_plain else int.from_bytes(np.packbits(bits).tobytes(), "big")


def alike(looks: np.ndarray, others: np.ndarray, label: str, say: Say | None) -> Iterator[tuple[int, int]]:
  """Yields the index of each image that looks like one of the others, and the index of the nearest of those.

  The looks are uint64 [N] and [M], of `difference_hash`. Of more than `MOST_COMPARED` pairs none is compared, and a
  line says so.
  """
  if len(looks) * len(others) > MOST_COMPARED:
    if say is not None:
      say(f"{label}: too many pictures to look for those that are alike")
    return
  is_plain = others == 0
  for index in np.flatnonzero(looks).tolist() if len(others) else ():
    distances = np.bitwise_count(others ^ looks[index])
    distances[is_plain] = 64
    nearest = int(distances.argmin())
    if distances[nearest] <= _MOST_OTHER:
      yield index, nearest


def hash_images(
  work: BuildInProgress, search: ImageSearch, numbers: Iterator[int], count: int
) -> Iterator[ImageHash]:
  """Yields the hashes of images by their numbers, on all cores; a killed build begins where it stopped."""
  progress = Progress(work.say, "pictures: hashed, to find copies", count)
  chunks = (list(chunk) for _, chunk in itertools.groupby(numbers, lambda number: number // _CHUNK))
  paths = (work.folder / f"hashes-{chunk:06d}.json" for chunk in itertools.count())
  done = 0
  with processes_lib.pool(min(work.processes, -(-count // _CHUNK))) as pool:
    for hashes in pool.map(_hash_chunk, paths, itertools.repeat(search), chunks):
      yield from hashes
      done += len(hashes)
      progress(done)


def _hash_chunk(path: pathlib.Path, search: ImageSearch, numbers: list[int]) -> list[ImageHash]:
  if path.exists():
    return msgspec.json.decode(path.read_bytes(), type=list[ImageHash])
  hashes = [_hash(search, number) for number in numbers]
  files.write_bytes(path, msgspec.json.encode(hashes))
  return hashes


def _hash(search: ImageSearch, number: int) -> ImageHash:
  try:
    data = search.find(Wanted("", "", str(number)))
  except XmcapError:  # counted when its record is made
    data = f"unreadable {number}".encode()
  return ImageHash(number, _file_hash(data), image_hash(data))
