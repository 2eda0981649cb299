"""What building the corpora of the paper takes: hours of cores, memory, disk and money.

The rates are those of benchmarks/build_rates.py, measured on made-up releases; a test compares them.
"""

import dataclasses

from xmcap.corpora.building.options import Options
from xmcap.grid import Grid


@dataclasses.dataclass(frozen=True)
class PaperCorpus:
  """A corpus, and what a picture with its captions takes in its build.

  Attributes:
    pictures: of its splits, if none is gone from the web.
    epoch: captions of `train`, in 35 languages.
    picture_bytes: mean size of a picture as published.
    cpu_seconds: of one core.
    line_bytes, record_bytes, work_bytes: of its lines of captions; of its captions in the records, and in OUT/.build.
    memory_bytes: of a process.
  """

  name: str
  pictures: int
  epoch: int
  picture_bytes: float
  cpu_seconds: float
  line_bytes: float
  record_bytes: float
  work_bytes: float
  memory_bytes: float

  def core_hours(self) -> float:
    """Hours of one core; each file of records looks into each file of sorted captions."""
    options = Options()
    chunks = self.pictures * self.line_bytes / options.chunk_bytes
    shards = self.pictures / options.shard_pictures
    return (self.pictures * self.cpu_seconds + chunks * shards * LOOKUP_SECONDS) / 3600

  def memory(self, cores: int) -> float:
    """Bytes of a process a core, and of the one that starts them."""
    return (cores + 1) * self.memory_bytes

  def disk(self) -> tuple[float, float]:
    """Bytes of the records, and of what a build has besides until it ends."""
    return self.pictures * (self.picture_bytes + self.record_bytes), self.pictures * self.work_bytes


LOOKUP_SECONDS = 0.107e-3

CORPORA = {
  # Of the 3,016,640 pictures in WeiChow/cc3m on the Hugging Face hub, of at most 1,024 pixels: 271.1 GB.
  "cc3m_35l": PaperCorpus(
    "CC3M-35L", 3_318_270 + 15_840, 35 * 3_318_270, 89_870, 6.12e-3, 14_991, 5_257, 5_662, 167e6
  ),
  # train2014.zip has 82,783 pictures in 13.5 GB.
  "coco_35l": PaperCorpus(
    "COCO-35L", 113_287 + 5_000, 35 * 566_435, 163_200, 9.39e-3, 75_639, 24_649, 28_510, 311e6
  ),
}
"""Mixture -> its corpus."""


def of_mixture(mixture: str) -> PaperCorpus | None:
  """The corpus of a mixture, or of a task of it such as `cc3m_35l_th`; None: it is none of the paper's."""
  return next((corpus for name, corpus in CORPORA.items() if mixture.startswith(name)), None)


def building(corpus: PaperCorpus, cores: int = 2, price: float | None = None) -> Grid:
  """What the corpus takes to build on some cores; `price` is per core-hour."""
  hours, disk = corpus.core_hours(), corpus.disk()
  rows = [
    ("hours", f"{hours / cores:,.1f}"),
    ("GB of memory", f"{corpus.memory(cores) / 1e9:.1f}"),
    ("GB of disk, records", f"{disk[0] / 1e9:,.0f}"),
    ("GB of disk besides, until it ends", f"{disk[1] / 1e9:,.0f}"),
  ]
  if price is not None:
    rows.append((f"cost at {price:g} per core-hour", f"{hours * price:,.2f}"))
  return Grid((f"building {corpus.name}, estimated", f"on {cores} cores"), tuple(rows))
