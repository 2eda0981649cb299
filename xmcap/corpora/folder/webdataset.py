"""Reads rows of WebDataset's tar files, where successive entries with the same key form a sample.

The key is the path up to the first dot of its last part (https://github.com/webdataset/webdataset, `base_plus_ext`).
`KEY.jpg` is the image, `KEY.txt` its caption, `KEY.th.txt` a caption in Thai, and `KEY.json` has further fields, like
a line of JSONL. `KEY.NAME.jpg`, such as a depth map, is the image only if the image column is called NAME. A short text
under another suffix, such as `KEY.prompt`, is a field of that name.
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from xmcap.corpora.building.problems import Problems
from xmcap.corpora.folder import fields, text_of
from xmcap.corpora.folder.fields import RecordFields
from xmcap.corpora.folder.recognition import recognise
from xmcap.corpora.folder.table import ColumnNames, Placed, SourceFile, TableRoles
from xmcap.errors import XmcapError
from xmcap.reading import archives, tar_files

_MOST_FILES, _MOST_BYTES = 1_000, 16 << 20  # of a sample, and of its texts
_OTHER_TEXT = 1 << 16  # bytes of a file under another suffix that may be a text


@dataclasses.dataclass
class _Sample:
  """Successive entries with a key: suffix (in lower case, without the first dot) -> path in the tar file."""

  key: str
  paths: dict[str, str] = dataclasses.field(default_factory=dict)
  size: int = 0
  wrong: str = ""
  values: dict[str, Any] = dataclasses.field(default_factory=dict)

  def pictures(self, named: str) -> list[str]:
    """Returns the suffixes of its images: all those that follow the key, or `named`, directly."""
    suffixes = [suffix for suffix in self.paths if _is_picture(suffix)]
    if named:
      return [suffix for suffix in self.paths if suffix == named] or [
        suffix for suffix in suffixes if suffix.rpartition(".")[0] == named
      ]
    return [suffix for suffix in suffixes if "." not in suffix]

  def joined(self) -> list[str]:
    """Returns the suffixes of images of another name, with texts of that name: `05.png` with `05.txt`."""
    return [
      suffix
      for suffix in self.paths
      if "." in suffix
      and _is_picture(suffix)
      and any(f"{suffix.rpartition('.')[0]}.{plain}" in self.paths for plain in text_of.SUFFIXES)
    ]


def read(
  files: Sequence[SourceFile], columns: ColumnNames, source: str, problems: Problems
) -> tuple[TableRoles, Iterator[RecordFields]]:
  """Returns the table and the rows of tar files; a truncated file just ends, and the search reports it."""
  rows = _placed(files, columns.image.lower(), problems)
  table, placed = recognise(rows, columns, source, image=text_of.IMAGE)
  return table, _rows(placed, table, problems)


def _placed(files: Sequence[SourceFile], named: str, problems: Problems) -> Iterator[Placed]:
  for file in files:
    for sample in _samples(file.path, problems, len(files) == 1):
      where = f"{file.path.name}: {sample.key}"
      if image := _picture(sample, named, where, problems):
        values = {text_of.IMAGE: image, **sample.values, **file.fields}
        yield Placed(where, values, (file, sample.key))


def _rows(placed: Iterator[Placed], table: TableRoles, problems: Problems) -> Iterator[RecordFields]:
  for where, sample, (file, key) in placed:
    row = fields.parse(sample, where, table, problems)
    if row is not None:
      row.archive, row.key, row.file = str(file.path.absolute()), key, file.name
      yield row


def _picture(sample: _Sample, named: str, where: str, problems: Problems) -> str:
  """Returns the path of a sample's image; "" if it has none or several, which is a problem."""
  suffixes = sample.pictures(named)
  name = sample.key.rpartition("/")[2]
  joined = [] if named else sample.joined()
  if joined:
    first = _few(f"{name}.{suffix}" for suffix in joined)
    problems.add(
      "dotted_name", where, f"{first}: a key ends at the first dot: rename the files without other dots"
    )
  if sample.wrong:
    problems.add("ambiguous", where, sample.wrong)
  elif len(suffixes) > 1:
    several = f"several pictures ({_few(f'{name}.{suffix}' for suffix in suffixes)})"
    problems.add("ambiguous", where, f"{several}: name one with --image_column=NAME, such as {suffixes[0]}")
  elif suffixes:
    return sample.paths[suffixes[0]]
  elif not joined:
    lack = f"no picture {f'{name}.{named}' if named else f'{name}.jpg, .png, ...'}"
    hint = "the files of a sample must follow each other"
    if others := [suffix for suffix in sample.paths if _is_picture(suffix)]:
      middle = others[0].rpartition(".")[0] or others[0]
      hint = f"if {name}.{others[0]} is the picture, give --image_column={middle}"
    problems.add("missing", where, f"{lack} beside {_few(sample.paths)}: {hint}")
  return ""


def _is_picture(suffix: str) -> bool:
  last = suffix.rpartition(".")[2]
  return f".{last}" in archives.PICTURES or last == "img"  # DALLE-pytorch's


def _few(names) -> str:
  names = list(names)
  return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _samples(path: pathlib.Path, problems: Problems, alone: bool) -> Iterator[_Sample]:
  sample = None
  try:
    with archives.Bounded(str(path), tar_files.MAX_HEADER) as file:
      for member, inside in tar_files.members(file):
        folder, slash, name = (inside or "").rpartition("/")
        if inside is None or not member.isreg() or name.startswith(".") or inside.startswith("__MACOSX/"):
          continue
        stem, _, suffix = name.partition(".")
        key = f"{folder}{slash}{stem}"
        if sample is None or key != sample.key:
          if sample is not None:
            yield sample
          sample = _Sample(key)
        _add(sample, inside, suffix.lower(), file, member, f"{path.name}: {key}", problems)
  except tar_files.DAMAGE as error:
    if alone and sample is None:  # the search, which reports damage, would not be reached
      reason = f"not a complete tar file ({archives.reason_of(error)})"
      raise XmcapError(f"{path}: {reason}: download it again") from None
  if sample is not None:
    yield sample


def _add(sample: _Sample, inside: str, suffix: str, file, member, where: str, problems: Problems) -> None:
  if sample.wrong:
    return
  if suffix in sample.paths:
    sample.wrong = f"{inside} is there twice, or in another case: keep one"
  sample.paths[suffix] = inside
  middle, _, last = suffix.rpartition(".")
  if last in text_of.SUFFIXES and member.size <= archives.MAX_ABOUT:
    file.seek(member.offset_data)
    text_of.add(sample.values, middle, last, file.read(member.size), where, problems)
    sample.size += member.size
  elif not _is_picture(suffix) and member.size <= _OTHER_TEXT:
    file.seek(member.offset_data)
    with contextlib.suppress(UnicodeDecodeError):
      sample.values.setdefault(suffix, file.read(member.size).decode())
      sample.size += member.size
  if len(sample.paths) > _MOST_FILES or sample.size > _MOST_BYTES:
    sample.wrong = "too many files for one sample: give each picture a key of its own"
