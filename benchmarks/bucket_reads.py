"""Requests of a bucket for a picture of COCO-35L, with neighbouring records shown side by side and read by one request.

usage: python benchmarks/bucket_reads.py [--pictures=113287]
BB at K = 1 on a v4-128: batches of 2,048, of which each of 16 hosts has 128 rows, in two blocks (a host of 2 x 2 chips
is [0, 1, 4, 5] on a slice of 4 x 4 x 4). Batches are dealt by length as in `data/coco35l.gin`, with the made-up lengths
of benchmarks/lengths.py. A window of 16 batches of all hosts is counted as `array_records.remote` joins its records: no
more than one that nobody needs between two. tests/data/test_corpus_in_a_bucket.py counts the requests to a store.
"""

import argparse

import lengths
import numpy as np
import report

from xmcap import languages
from xmcap.data.caption_choice import Drawing
from xmcap.data.length_batches import LengthBatches
from xmcap.data.length_index import LengthIndex
from xmcap.data.order import Order

_BATCH, _SIDE = 2_048, 4
_NEED = 37_000  # pictures a second, of all hosts
_WINDOW, _LENGTHS = 16, (16, 32, 64)
_START = 160  # a step, the first of a window
_CASES = (
  # neighbours, window, batches read together
  (1, 1, 1), (16, 1, 1), (1, 16, 1), (8, 16, 16), (16, 16, 1), (16, 16, 8), (16, 16, 16),
)  # fmt: skip


def hosts() -> list[np.ndarray]:
  """The rows of each host of a v4-128."""
  size = _BATCH // _SIDE**3
  devices = np.arange(_SIDE**3).reshape(_SIDE, _SIDE, _SIDE)
  blocks = (
    devices[z, y : y + 2, x : x + 2].ravel()
    for z in range(_SIDE)
    for y in range(0, _SIDE, 2)
    for x in range(0, _SIDE, 2)
  )
  return [(block[:, None] * size + np.arange(size)).ravel() for block in blocks]


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--pictures", type=int, default=113_287)
  arguments = parser.parse_args()
  index = LengthIndex.whole(lengths.made_up(arguments.pictures))
  drawing = Drawing(0, languages.TRAINED, [dict.fromkeys(languages.TRAINED, 1.0)], None, 1)
  rows = []
  for neighbours, window, together in _CASES:
    order = Order(0, [arguments.pictures], neighbours)
    batches = LengthBatches(
      drawing, [index], order, _BATCH, _LENGTHS if window > 1 else _LENGTHS[-1:], window
    )
    requests, unused = counted(batches, order, together)
    positions = np.mean([batches.length(step) for step in range(_START, _START + _WINDOW)])
    rows.append((
      str(neighbours), str(window), str(together), f"{requests:.3f}", f"{requests * _NEED:,.0f}", f"{unused:.0%}",
      f"{positions:.1f}",
    ))  # fmt: skip
    print(*rows[-1], sep="  ")
  report.write(
    "bucket_reads",
    "Requests of a bucket for a picture, BB at K = 1 on a v4-128",
    rows,
    columns=(
      "neighbours", "window of lengths", "batches read together", "requests a picture",
      f"reads a second for {_NEED:,} pictures", "records read for nothing", "positions per caption",
    ),
    notes=["Counted, not timed: made-up lengths of captions, and the rows of the hosts of a v4-128."],
  )  # fmt: skip


def counted(batches: LengthBatches, order: Order, together: int) -> tuple[float, float]:
  """Returns the requests a picture, and how many records are read for nothing a picture."""
  requests, unused, pictures = 0, 0, 0
  for first in range(_START, _START + _WINDOW, together):
    for own in hosts():
      positions = np.concatenate([batches.positions(step, own) for step in range(first, first + together)])
      indices = np.sort(order.at(positions).indices)
      gaps = np.diff(indices) - 1
      joined = gaps <= 1
      requests, unused, pictures = (
        requests + 1 + (~joined).sum(),
        unused + gaps[joined].sum(),
        pictures + len(indices),
      )
  return requests / pictures, unused / pictures


if __name__ == "__main__":
  main()
