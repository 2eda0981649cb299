"""Reads rows of WebDataset's tar files, where successive entries with the same key form a sample.

`KEY.jpg` is the picture, `KEY.txt` its caption, `KEY.th.txt` a caption in Thai, and `KEY.json` has further fields, like
a line of JSONL. The key is the path up to the first dot of its last part
(https://github.com/webdataset/webdataset, "The WebDataset Format").
"""

import pathlib
from collections.abc import Iterator
from typing import Any

from xmcap.data.corpora import archives, tar_files
from xmcap.data.corpora.folder import fields
from xmcap.data.corpora.folder.fields import Row
from xmcap.data.corpora.folder.recognition import recognise
from xmcap.data.corpora.folder.table import Columns, Placed, Table
from xmcap.data.corpora.problems import Problems
from xmcap.errors import UsageError
from xmcap.storage import strict_json

_PICTURE, _NAME = "__picture__", "image"


def read(
  paths: list[pathlib.Path], columns: Columns, source: str, problems: Problems
) -> tuple[Table, Iterator[Row]]:
  """Returns the table and the rows of tar files; a truncated file just ends, and the search reports it."""
  table, placed = recognise(_placed(paths, problems), columns, source, picture=_NAME)
  return table, _rows(placed, table, problems)


def _placed(paths: list[pathlib.Path], problems: Problems) -> Iterator[Placed]:
  for path in paths:
    for key, sample in _samples(path, problems):
      where = f"{path.name}: {key}"
      picture = sample.pop(_PICTURE, None)
      if picture is None:
        problems.add("missing", where, "a sample without a picture")
      else:
        yield Placed(where, {_NAME: picture, **sample}, (path, key))


def _rows(placed: Iterator[Placed], table: Table, problems: Problems) -> Iterator[Row]:
  for where, sample, (path, key) in placed:
    row = fields.parse(sample, where, table, problems)
    if row is not None:
      row.archive, row.key = str(path.absolute()), key
      row.split = row.split or path.name
      yield row


def _samples(path: pathlib.Path, problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
  held, sample = "", {}
  try:
    with archives.Bounded(str(path), tar_files.MAX_HEADER) as file:
      for member, inside in tar_files.members(file):
        if inside is None or not member.isreg():
          continue
        folder, slash, name = inside.rpartition("/")
        stem, _, suffix = name.partition(".")
        key = f"{folder}{slash}{stem}"
        if key != held and sample:
          yield held, sample
          sample = {}
        held = key
        _add(sample, inside, suffix.lower(), file, member, f"{path.name}: {key}", problems)
  except tar_files.DAMAGE:
    pass
  if sample:
    yield held, sample


def _add(
  sample: dict[str, Any], inside: str, suffix: str, file, member, where: str, problems: Problems
) -> None:
  before, _, last = suffix.rpartition(".")
  if last in ("txt", "caption", "json") and member.size <= archives.MAX_ABOUT:
    file.seek(member.offset_data)
    data = file.read(member.size)
    try:
      if last == "json":
        # Separate files take precedence, such as img2dataset's caption.
        about = strict_json.parse_object(data, where)
        sample |= {name: value for name, value in about.items() if name not in (*sample, _NAME, "key")}
      else:
        sample[f"caption_{before}" if before else "caption"] = strict_json.decode(data, where)
    except UsageError as error:
      problems.add("bad_utf8" if last != "json" else "not_json", where, str(error).removeprefix(f"{where}: "))
  elif archives.role_of(inside) == "file" and last not in ("cls", "id"):
    sample.setdefault(_PICTURE, inside)
