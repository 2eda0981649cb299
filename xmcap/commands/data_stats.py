"""`xmcap data stats`: captions, images, words, characters, replication and lengths of each language."""

import sys
import time

from xmcap.commands import base

_EVERY = 5.0  # seconds between lines of progress


def add(actions) -> None:
  """Declares the command."""
  command = base.add_command(
    actions,
    "stats",
    _stats,
    "print captions, images, words, characters and replication for each language",
    "XM3600, COCO-35L and CC3M-35L are compared with what was published of them.",
  )
  command.add_argument("dir", metavar="DIR", help="a built corpus, or a folder with captions.jsonl")
  command.add_argument(
    "--vocabulary", default="", metavar="PATH", help="a SentencePiece model: print lengths in its pieces, too"
  )
  command.add_argument(
    "--target_length",
    type=int,
    default=64,
    metavar="T",
    help="pieces at which a target is cut, with --vocabulary",
  )
  command.add_argument(
    "--published",
    default="",
    metavar="NAME",
    help="compare with xm3600, coco35l or cc3m35l, also where the folder does not say that it is that",
  )
  command.add_argument("--processes", type=int, metavar="N", help="processes that count; default: one a core")


def _stats(arguments) -> None:
  from xmcap.data import statistics, statistics_tables

  found = statistics.statistics(
    arguments.dir,
    vocabulary=arguments.vocabulary,
    target_length=arguments.target_length,
    corpus=arguments.published,
    processes=arguments.processes,
    progress=_Progress(),
  )
  print(statistics_tables.text(found))


class _Progress:
  """Says on stderr how far the counting is, how fast, and how long yet; what is quick says nothing."""

  def __init__(self):
    self._split, self._began, self._said = "", 0.0, 0.0

  def __call__(self, split: str, done: int, total: int) -> None:
    now = time.monotonic()
    if split != self._split:
      self._split, self._began, self._said = split, now, now
      return
    if now - self._said < _EVERY:
      return
    self._said = now
    rate = done / (now - self._began)
    left = (total - done) / rate
    print(f"{split}: {done:,} of {total:,} images, {rate:,.0f}/s, {left:,.0f} s left", file=sys.stderr)
