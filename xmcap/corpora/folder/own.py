"""Own images: a folder, and captions as JSONL, CSV, COCO's JSON, WebDataset, Parquet or a Hugging Face dataset.

Problems are counted as in the other corpora. The split of an image is given by the source, or depends only on its key.
"""

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from xmcap.corpora.building import build, release, splits
from xmcap.corpora.building import options as options_lib
from xmcap.corpora.building.file_names import FOLDER
from xmcap.corpora.building.image_search import ByPath
from xmcap.corpora.building.options import BuildInProgress
from xmcap.corpora.building.splits import Split
from xmcap.corpora.folder import beside, columnar, grouping, staging, text_files
from xmcap.corpora.folder.split_choice import SplitRule
from xmcap.corpora.folder.table import ColumnNames
from xmcap.data import records
from xmcap.errors import UsageError, XmcapError
from xmcap.files import files, plans
from xmcap.reading import hub_folders, rows

TAR = ".tar"
# Files of Hugging Face's imagefolder, in the folder or in the folder of each split.
_METADATA = ("metadata.jsonl", "metadata.csv", "metadata.parquet")
_TABLES = ("captions.jsonl", "captions.csv", "captions.tsv")
_TEXT = "captions.txt"  # of Flickr8k; beside an image of that name it would be its caption
_KINDS = (*text_files.SUFFIXES, TAR, *columnar.SUFFIXES)
_PACKED = tuple(f"{suffix}{packed}" for suffix in text_files.SUFFIXES for packed in rows.PACKED)
_WORKBOOKS = (".xls", ".ods", ".numbers")


@dataclasses.dataclass(frozen=True)
class Folder(build.CorpusBuild):
  """Own images.

  Attributes:
    captions: a file, or a folder of tar or Parquet files or a Hugging Face dataset.
    images: a folder or archive; None: the images are beside the captions, or embedded.
    columns: names of columns.
    splits_by: the rule that assigns images to splits.
  """

  NAME = "folder"
  DESCRIPTION = "Own pictures with their captions; one record an image."
  WHAT = "data"
  PAGE = "docs/own_data.md"
  PARTS = FOLDER
  DUPLICATES = "merge"  # a picture is in one split
  RENEWED = True  # users fix their captions and build again
  captions: pathlib.Path
  images: pathlib.Path | None = None
  columns: ColumnNames = ColumnNames()
  splits_by: SplitRule = SplitRule()

  def plan(self, options: options_lib.Options) -> plans.Plan:
    plan = super().plan(options)
    columns = dataclasses.asdict(self.columns)
    columns["captions"] = list(self.columns.captions)  # a list, as JSON returns it
    return {**plan, "options": {**plan["options"], "columns": columns, "splits": self.splits_by.text}}

  def splits(self, work: BuildInProgress) -> Iterator[Split]:
    sources = find(self.captions)
    columns = dataclasses.replace(self.columns, split=self.splits_by.column)
    lines = staging.read(work, sources, self.captions, columns)
    if not lines:
      raise XmcapError(f"{self.captions}: none of its lines can be used{_seen(work)}")
    images = ByPath.search(work, self._places(work, sources))
    names, counts = grouping.gather(work, images, self.splits_by)
    # A language that some lines lack may be a slip, or not; nothing else tells.
    work.say(
      f"of {lines:,} lines have captions: " + ", ".join(f"{language} {n:,}" for language, n in counts.items())
    )
    if not names:
      raise XmcapError(f"{self.captions}: none of its pictures can be used{_seen(work)}")
    # Stored beside the records, because the languages may be outside the table.
    files.write_text(work.folder.parent / records.LANGUAGES, "".join(f"{language}\n" for language in counts))
    for name in names:
      yield splits.write(work, name, grouping.wanted(work, name), images, lines)

  def recognised(self, work: BuildInProgress) -> Mapping[str, Any]:
    return {"columns": staging.columns(work)}

  def _places(self, work: BuildInProgress, sources: list[pathlib.Path]) -> list[pathlib.Path]:
    """Returns the possible places of images: in the files of the captions, in `images`, or beside the captions."""
    places = [work.folder / staging.PACKED] if staging.is_packed(work) else []
    if sources[0].suffix.lower() == TAR:
      places += sources
    if self.images is not None:
      places.append(self.images)
    if places:
      return places
    near = self.captions if self.captions.is_dir() else self.captions.parent
    inside = near / "images"
    return [inside if inside.is_dir() and sources != [near] else near]


def _seen(work: BuildInProgress) -> str:
  """Returns every kind of problem, for a message, and where all are listed."""
  brief = work.problems.in_brief()
  return f": {brief}; {work.folder.parent / 'problems.jsonl'} lists them" if brief else ": there are none"


def find(path: pathlib.Path) -> list[pathlib.Path]:
  """Returns the files of the captions: one text file, or all `metadata.*`, .tar, .parquet or .arrow files of a folder.

  A folder with texts beside its images stands for itself.

  UsageError if there are none, or if the file is of another kind.
  """
  if path.is_file():
    if path.name.lower().endswith((*_KINDS, *_PACKED)):
      return [path]
    if path.suffix.lower() in _WORKBOOKS:
      raise UsageError(
        f"{path}: a workbook: open it in its program, save it as `CSV UTF-8`, and give that file"
      )
    raise UsageError(
      f"{path}: unknown suffix: give {', '.join(_KINDS)}, or a folder of such files; "
      f"a text also with {', '.join(rows.PACKED)}"
    )
  if not path.is_dir():
    raise UsageError(f"{path} does not exist: give the captions")
  path = hub_folders.tables(path)
  sources = _below(path, "metadata.*", _METADATA)
  if others := {file.name for file in sources} - {file.name for file in sources[:1]}:
    raise UsageError(f"{path}: contains {sources[0].name} and {min(others)}: keep one kind, or give the file")
  if sources:
    return sources
  for name in _TABLES:
    if (path / name).is_file():
      return [path / name]
  for suffix in (TAR, *columnar.SUFFIXES):
    if sources := _below(path, f"*{suffix}"):
      return sources
  if beside.is_beside(path):
    return [path]
  if (text := path / _TEXT).is_file():
    return [text]
  kinds = f".tar, .parquet or .arrow file, no {_METADATA[0]} and no .txt beside a picture"
  raise UsageError(f"{path}: contains no {kinds}: give the file of the captions")


def _below(path: pathlib.Path, pattern: str, names: Iterable[str] = ()) -> list[pathlib.Path]:
  """Returns the files of a folder at any depth, sorted by path, without hidden ones and caches of `datasets`."""
  return sorted(
    file
    for file in path.rglob(pattern)
    if (not names or file.name in names)
    and not any(part.startswith((".", "cache-")) for part in file.relative_to(path).parts)
    and file.is_file()
  )


def write_references(out: pathlib.Path, splits: Iterable[str]) -> None:
  """Writes SPLIT/captions.jsonl in XM3600's layout for all splits but `train`, for `xmcap score`, if not yet there."""
  for split in splits:
    path = out / split / "captions.jsonl"
    if split == "train" or path.exists():
      continue
    files.make_folder(path.parent)
    files.remove_incomplete(path.parent)
    with files.whole(path) as file:
      for record in records.RecordSource(out, split):
        file.write(release.as_line(record))
