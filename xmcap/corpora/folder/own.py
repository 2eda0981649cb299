"""Own images: a folder, and captions as JSONL, CSV, COCO's JSON, WebDataset, Parquet or a Hugging Face dataset.

Problems are counted as in the other corpora. The split of an image is given by the source, or depends only on its key.
"""

import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from xmcap.corpora.building import build, release, splits
from xmcap.corpora.building import options as options_lib
from xmcap.corpora.building.file_names import FOLDER
from xmcap.corpora.building.image_search import ByPath
from xmcap.corpora.building.options import BuildInProgress
from xmcap.corpora.building.splits import Split
from xmcap.corpora.folder import grouping, staging
from xmcap.corpora.folder import sources as sources_lib
from xmcap.corpora.folder.split_choice import SplitRule
from xmcap.corpora.folder.table import ColumnNames, SourceFile
from xmcap.data import records
from xmcap.errors import XmcapError
from xmcap.files import files, plans
from xmcap.reading import joining


@dataclasses.dataclass(frozen=True)
class Folder(build.CorpusBuild):
  """Own images.

  Attributes:
    captions: a file, a folder of tar or Parquet files or a Hugging Face dataset, a pattern, or several of these.
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
  captions: joining.Paths
  images: pathlib.Path | None = None
  columns: ColumnNames = ColumnNames()
  splits_by: SplitRule = SplitRule()

  def paths(self) -> dict[str, pathlib.Path | None]:
    captions = sources_lib.expanded(self.captions)
    numbered = {f"captions {number}": path for number, path in enumerate(captions[1:], 2)}
    return {"captions": captions[0], "images": self.images, **numbered}

  def plan(self, options: options_lib.Options) -> plans.Plan:
    plan = super().plan(options)
    columns = dataclasses.asdict(self.columns)
    columns["captions"] = list(self.columns.captions)  # a list, as JSON returns it
    return {**plan, "options": {**plan["options"], "columns": columns, "splits": self.splits_by.text}}

  def splits(self, work: BuildInProgress) -> Iterator[Split]:
    columns = dataclasses.replace(self.columns, split=self.splits_by.column)
    sources = sources_lib.find(self.captions, columns)
    lines = staging.read(work, sources, columns)
    if not lines:
      raise XmcapError(f"{sources.name}: none of its lines can be used{_seen(work)}")
    images = ByPath.search(work, self._places(work, sources.files))
    names, counts = grouping.gather(work, images, self.splits_by)
    # A language that some lines lack may be a slip, or not; nothing else tells.
    work.say(
      f"of {lines:,} lines have captions: " + ", ".join(f"{language} {n:,}" for language, n in counts.items())
    )
    if not names:
      raise XmcapError(f"{sources.name}: none of its pictures can be used{_seen(work)}")
    for name in names:
      yield splits.write(work, name, grouping.wanted(work, name), images, lines)

  def recognised(self, work: BuildInProgress) -> Mapping[str, Any]:
    return {"columns": staging.columns(work)}

  def _places(self, work: BuildInProgress, sources: Sequence[SourceFile]) -> list[pathlib.Path]:
    """Returns the possible places of images: in the files of the captions, in `images`, or beside the captions."""
    places = [work.folder / staging.PACKED] if staging.is_packed(work) else []
    if sources[0].path.suffix.lower() == sources_lib.TAR:
      places += [source.path for source in sources]
    if self.images is not None:
      places.append(self.images)
    if places:
      return places
    near: dict[pathlib.Path, None] = {}
    for path in sources_lib.expanded(self.captions):
      folder = path if path.is_dir() else path.parent
      inside = folder / "images"
      near[inside if inside.is_dir() and sources[0].path != folder else folder] = None
    return list(near)


def _seen(work: BuildInProgress) -> str:
  """Returns every kind of problem, for a message, and where all are listed."""
  brief = work.problems.in_brief()
  return f": {brief}; {work.folder.parent / 'problems.jsonl'} lists them" if brief else ": there are none"


def write_references(out: pathlib.Path, splits: Iterable[str]) -> dict[str, int]:
  """Writes SPLIT/captions.jsonl in XM3600's layout for all splits but `train`, for `xmcap score`, if not yet there.

  Returns split -> how many machine translations are left out: references are people's.
  """
  machine: collections.Counter[str] = collections.Counter()
  for split in splits:
    path = out / split / "captions.jsonl"
    if split == "train" or path.exists():
      continue
    files.make_folder(path.parent)
    files.remove_incomplete(path.parent)
    with files.whole(path) as file:
      for record in records.RecordSource(out, split):
        of_people = [caption for caption in record.captions if caption.source != records.MACHINE]
        machine[split] += len(record.captions) - len(of_people)
        file.write(release.as_line(dataclasses.replace(record, captions=of_people)))
  return dict(+machine)
