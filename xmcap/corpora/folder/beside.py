"""Reads rows of a folder of images with a text file beside each, as img2dataset and kohya's scripts lay them out.

`NAME.jpg` has its caption in `NAME.txt` or `NAME.caption`, one in Thai in `NAME.th.txt`, and further fields in
`NAME.json` (img2dataset's `FilesSampleWriter`). NAME may have dots, unlike the keys of WebDataset.
"""

import collections
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from xmcap.corpora.building.problems import Problems
from xmcap.corpora.folder import fields, text_of
from xmcap.corpora.folder.fields import RecordFields
from xmcap.corpora.folder.recognition import recognise
from xmcap.corpora.folder.table import ColumnNames, Placed, TableRoles
from xmcap.errors import XmcapError
from xmcap.reading import archives


def is_beside(root: pathlib.Path) -> bool:
  """Whether a folder has an image with a text of the same name, at any depth."""
  texts = {f".{text}" for text in text_of.SUFFIXES}
  return any(suffix.lower() in texts for suffix in _suffixes_beside(root))


def other_suffixes(root: pathlib.Path) -> list[str]:
  """Returns the suffixes of files with an image's name that are no texts for `read`, such as `.prompt`."""
  return sorted(set(_suffixes_beside(root)))


def _suffixes_beside(root: pathlib.Path) -> Iterator[str]:
  for _, names in _folders(root):
    parts = [os.path.splitext(name) for name in names]
    images = {stem for stem, suffix in parts if _is_picture(suffix.lower())}
    yield from (
      suffix for stem, suffix in parts if stem in images and not _is_picture(suffix.lower()) and suffix
    )


def read(
  root: pathlib.Path, columns: ColumnNames, problems: Problems
) -> tuple[TableRoles, Iterator[RecordFields]]:
  """Returns the table, and a row for each image that has texts, sorted by path."""
  table, placed = recognise(_placed(root, problems), columns, str(root), image=text_of.IMAGE)
  rows = (fields.parse(values, where, table, problems) for where, values, _ in placed)
  return table, filter(None, rows)


def _placed(root: pathlib.Path, problems: Problems) -> Iterator[Placed]:
  """Yields the fields of each image; only the names of one folder at a time are in memory."""
  for folder, names in _folders(root):
    images: dict[str, list[str]] = collections.defaultdict(list)
    for name in names:
      stem, suffix = archives.split_suffix(name)
      if _is_picture(suffix):
        images[stem].append(name)
    for stem, texts in _texts(folder, names, images, problems).items():
      where = _joined(folder, stem)
      if len(images[stem]) > 1:
        problems.add("ambiguous", where, f"is the name of several pictures ({', '.join(images[stem][:3])})")
        continue
      values: dict[str, Any] = {text_of.IMAGE: _joined(folder, images[stem][0])}
      for middle, suffix, name in texts:
        data = _contents(root / folder / name)
        text_of.add(values, middle, suffix, data, _joined(folder, name), problems)
      yield Placed(where, values)


def _texts(
  folder: str, names: list[str], images: Mapping[str, list[str]], problems: Problems
) -> dict[str, list[tuple[str, str, str]]]:
  """Returns image's name -> (language or "", suffix, name) of its texts; the first of two alike counts."""
  texts: dict[str, dict[tuple[str, bool], tuple[str, str, str]]] = collections.defaultdict(dict)
  for name in names:
    whole, _, suffix = name.rpartition(".")
    suffix = suffix.lower()
    if suffix not in text_of.SUFFIXES:
      continue
    stem, _, middle = (whole, "", "") if whole in images else whole.rpartition(".")
    if stem not in images:
      if suffix in text_of.PLAIN:
        problems.add("missing", _joined(folder, name), "no picture of this name beside it")
    elif texts[stem].setdefault((middle, suffix == "json"), (middle, suffix, name))[2] != name:
      problems.add("ambiguous", _joined(folder, name), "another text of the same picture: keep one")
  return {stem: list(of_stem.values()) for stem, of_stem in texts.items()}


def _folders(root: pathlib.Path) -> Iterator[tuple[str, list[str]]]:
  """Yields each folder at or below `root`, relative to it, and the sorted names of its files, without hidden ones."""
  for folder, inside, names in os.walk(root):
    inside[:] = sorted(name for name in inside if not name.startswith(".") and name != "__MACOSX")
    relative = pathlib.Path(folder).relative_to(root).as_posix()
    yield "" if relative == "." else relative, sorted(name for name in names if not name.startswith("."))


def _is_picture(suffix: str) -> bool:
  return suffix in archives.PICTURES


def _joined(folder: str, name: str) -> str:
  return f"{folder}/{name}" if folder else name


def _contents(path: pathlib.Path) -> bytes:
  try:
    with open(path, "rb") as file:
      return file.read(archives.MAX_ABOUT)
  except OSError as error:
    raise XmcapError(f"{path}: cannot be read ({error.strerror}): fix it or remove it") from None
