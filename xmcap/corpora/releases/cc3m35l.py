"""CC3M-35L: Conceptual Captions with English captions and machine translations into 34 languages.

Thapliyal et al., "Crossmodal-3600" (EMNLP 2022), section 3.1. `rec_num` in a line of captions is the line number of the
published TSV, from 1. It is the key of the record, in eight digits, and gives the order of the records. Images are
found by URL if img2dataset kept it, otherwise by `rec_num`. Many URLs are dead. The captions may be one's own
translations, into any languages; without the files of dev there is no split `validation`.
"""

import dataclasses
import pathlib
from collections.abc import Iterator

from xmcap import languages
from xmcap.corpora.building import build, file_names, splits
from xmcap.corpora.building.image_search import ImageSearch, Wanted
from xmcap.corpora.building.options import BuildInProgress
from xmcap.corpora.building.spill import spill
from xmcap.corpora.building.splits import Split
from xmcap.corpora.releases.translations import Cc3mParser
from xmcap.errors import UsageError
from xmcap.terminal import shown

MAX_PICTURES = 50_000_000
"""Limit for the lines of a TSV; CC12M would have 12 million."""

_MAX_LINE = 1 << 20


@dataclasses.dataclass(frozen=True)
class Cc3m35l(build.CorpusBuild):
  """CC3M-35L; see `file_names.CC3M35L` for the fields."""

  NAME = "cc3m_35l"
  DESCRIPTION = (
    "Conceptual Captions with captions in 35 languages, 34 by machine translation; one record an image."
  )
  LANGUAGES = languages.TRAINED
  PARTS = file_names.CC3M35L
  train_captions: pathlib.Path
  train_tsv: pathlib.Path
  train_images: pathlib.Path
  train_keys: pathlib.Path | None = None
  dev_captions: pathlib.Path | None = None
  dev_tsv: pathlib.Path | None = None
  dev_images: pathlib.Path | None = None
  dev_keys: pathlib.Path | None = None

  def __post_init__(self):
    paths = self.paths()
    dev = ("dev_captions", "dev_tsv", "dev_images")
    if any(map(paths.get, (*dev, "dev_keys"))) and (absent := [name for name in dev if not paths[name]]):
      here = ", ".join(str(path) for name, path in paths.items() if path and name.startswith("dev_"))
      raise UsageError(
        f"{here}: of dev, {', '.join(absent)} is missing: give it too; or, for a corpus without validation, move the"
        " files of dev elsewhere"
      )

  def splits(self, work: BuildInProgress) -> Iterator[Split]:
    for name, captions, tsv, images, keys in (
      ("train", self.train_captions, self.train_tsv, self.train_images, self.train_keys),
      ("validation", self.dev_captions, self.dev_tsv, self.dev_images, self.dev_keys),
    ):
      if captions is None or tsv is None or images is None:
        continue
      pictures = ImageSearch.search(work, [images], key_map=keys, name=f"pictures-{name}")
      split = splits.write(work, name, read_tsv(tsv), pictures)
      spilled = spill(work, name, captions, Cc3mParser(captions.name, split.count))
      yield dataclasses.replace(split, lines=spilled.lines, captions=spilled)


def read_tsv(path: pathlib.Path) -> Iterator[Wanted]:
  """Yields the images of Conceptual Captions' TSV, `caption<TAB>url`; the key is the line number in eight digits.

  UsageError if the file is missing or too long, or its first line has no URL.
  """
  no_list = (
    f"{path}, line 1: not `caption<TAB>URL`: give the TSV as it was published, without a line of column names"
  )
  number = 0
  try:
    with open(path, "rb") as file:
      for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE), b""), 1):
        if number > MAX_PICTURES:
          raise UsageError(f"{path}: over {MAX_PICTURES:,} lines: give the TSV as it was published")
        url = line.rstrip(b"\r\n").rpartition(b"\t")[2].decode("utf-8", "replace")
        if number == 1 and "://" not in url:
          raise UsageError(no_list)
        key = f"{number:08d}"
        yield Wanted(key, f"{shown(path.name)}, line {number} ({shown(url)})", name=key, url=url)
  except OSError as error:
    raise UsageError(f"cannot read {path}: {error.strerror}; give the TSV as it was published") from None
  if not number:
    raise UsageError(no_list)
