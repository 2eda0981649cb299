"""Options of a build, and a build in progress."""

import dataclasses
import pathlib

from xmcap.corpora.building import image_check
from xmcap.corpora.building.problems import Problems
from xmcap.data.skipped_images import ON_BAD
from xmcap.errors import UsageError
from xmcap.progress import Say
from xmcap.reading import lines

DUPLICATES = ("merge", "keep", "refuse")
"""What is done about identical pictures under several keys."""


@dataclasses.dataclass(frozen=True)
class Options:
  """Options of a build; see `Problems` and `image_check.examine`. UsageError if one is out of range.

  Attributes:
    on_bad: whether problems are skipped or stop the build.
    image_size: shorter side in pixels to which larger images are scaled; None: they are not.
    quality: JPEG quality of scaled images.
    shard_pictures: images per file of records.
    chunk_bytes: bytes of captions that are parsed at a time.
    duplicates: of `DUPLICATES`; "": the default of the corpus.
  """

  on_bad: str = "skip"
  image_size: int | None = None
  quality: int = image_check.DEFAULT_QUALITY
  shard_pictures: int = 2_048
  chunk_bytes: int = lines.CHUNK_BYTES
  duplicates: str = ""

  def __post_init__(self):
    if self.on_bad not in ON_BAD:
      raise UsageError(f"--on_bad={self.on_bad}: choose {' or '.join(ON_BAD)}")
    if self.duplicates and self.duplicates not in DUPLICATES:
      raise UsageError(f"--duplicates={self.duplicates}: choose {', '.join(DUPLICATES)}")
    least = image_check.MIN_SIDE
    if self.image_size is not None and not least <= self.image_size <= 8192:
      raise UsageError(f"--image_size={self.image_size}: give a number from {least} to 8192")
    if not 1 <= self.quality <= 95:
      raise UsageError(f"--quality={self.quality}: give a number from 1 to 95")


@dataclasses.dataclass(frozen=True)
class BuildInProgress:
  """A build in progress; `folder` is for intermediate files, and `say` receives progress lines."""

  folder: pathlib.Path
  options: Options = Options()
  processes: int = 1
  problems: Problems = dataclasses.field(default_factory=Problems)
  say: Say = lambda line: None
