"""A split of COCO-35L or CC3M-35L: its captions sorted by shard, each beside its picture."""

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from xmcap import languages
from xmcap.data.corpora import listing, spill
from xmcap.data.corpora.build import Split, Work
from xmcap.data.corpora.listing import Listing, Wanted
from xmcap.data.corpora.pictures import Pictures
from xmcap.data.corpora.problems import Problems
from xmcap.data.corpora.releases.translations import HUMAN, CaptionRow, Cc3mIds, CocoIds, Parser
from xmcap.data.corpora.shards import ShardMaker
from xmcap.data.records import SOURCES, Caption

_CODES = tuple(languages.LANGUAGES)


def read_split(
  work: Work,
  name: str,
  captions: pathlib.Path,
  listed: Listing,
  ids: CocoIds | Cc3mIds,
  places: Sequence[str | os.PathLike],
  pictures: Pictures,
) -> Split:
  """Reads the captions of a split.

  Args:
    captions: its file of lines.
    listed: the pictures that it should have.
    ids: how its lines name them.
    places: where they were looked for, for messages.
    pictures: where they are read.
  """
  spilled = spill.spill(
    captions,
    Parser(captions.name, ids),
    work.folder,
    name,
    chunk_bytes=work.options.chunk_bytes,
    processes=work.processes,
    problems=work.problems,
    say=work.say,
  )
  make = ShardMaker(work.folder, name, _Captions(captions.name, listed, spilled), pictures, work.options)
  return Split(name, places, listed.count, spilled.lines, listed.shards, make)


def write_listing(work: Work, name: str, wanted: Iterable[Wanted]) -> Listing:
  """Writes the listing of a split's pictures."""
  return listing.write(work.folder / f"{name}.listing", wanted, work.options.shard_pictures)


@dataclasses.dataclass(frozen=True)
class _Captions:
  """Yields the pictures of a shard with their captions; see `ShardMaker`."""

  name: str
  listed: Listing
  spilled: spill.Spilled

  def __call__(self, shard: int, problems: Problems) -> Iterator[tuple[Wanted, Sequence[Caption]]]:
    places = self.listed.places(shard)
    rows = itertools.groupby(self.spilled.captions(places), key=lambda row: row.picture)
    by_picture = {picture: list(group) for picture, group in rows}
    for place, wanted in zip(places, self.listed.wanted(shard), strict=True):
      yield wanted, list(self._captions(wanted, by_picture.get(place, ()), problems))

  def _captions(self, wanted: Wanted, rows: Iterable[CaptionRow], problems: Problems) -> Iterator[Caption]:
    last = None
    for row in rows:
      if row[:3] != last:
        last = row[:3]
        yield Caption(_CODES[row.language], row.text, "", SOURCES[row.source])
      elif row.source != HUMAN:  # English stands in the lines of all languages
        what = f"{wanted.key}, caption {row.number}, {_CODES[row.language]}"
        problems.add("duplicate_line", f"{self.name}, line {row.line:,}", what)
