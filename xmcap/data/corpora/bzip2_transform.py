"""The runs of a block's transform -> its bytes, several in one step.

The third step of `bzip2_decoder`. The inverse of the transform follows a permutation of the block's bytes from each
to the next, which costs a miss of the cache for each. Here it goes by several bytes at a time. A run of equal bytes
in the transform is an interval of rows which the permutation takes to rows that are next to one another again. Where
these lie in one interval, two steps of all its rows are made one: thrice, so that a step gives up to eight bytes,
from tables of intervals, of which there are far fewer than rows. What is said of compiled code in `bzip2_tables`
holds here.
"""

import numpy as np
from numba.extending import intrinsic

from xmcap.data.corpora import compiled

_JUMP = 8  # bytes at most that a step gives
_ALL = 0xFFFFFFFF


@intrinsic
def _ones(typing_context, number):
  """How many bits of a number are set."""
  return number(number), lambda context, builder, signature, arguments: builder.ctpop(arguments[0])


@compiled.inner
def _interval(ranks, row):
  """The interval in which a row lies."""
  word = ranks[row >> 5 & _ALL]
  return ((word >> 32) + _ones((word << (31 - (row & 31))) & _ALL) - 1) & _ALL


@compiled.inner
def _double(ranks, starts, steps, strings, new_steps, new_strings):
  """Two steps are made one for intervals whose rows, after the first, all lie in one interval."""
  for at in range(len(steps)):
    step, string = np.int64(steps[at]), strings[at]
    row = starts[at] + (step >> 4)
    goal = _interval(ranks, row)
    if row + starts[at + 1] - starts[at] <= starts[goal + 1]:
      string |= strings[goal] << ((step & 15) << 3)
      step += steps[goal]
    new_steps[at], new_strings[at] = step, string


@compiled.entry("(uint32[::1], int64, int64)")
def invert(runs, size, row):
  """The bytes whose transform `runs` is, from `row` on."""
  count = len(runs)
  rows, places = np.zeros(257, np.int64), np.zeros(257, np.int64)  # by byte: of the next interval
  for run in runs:
    rows[(run & 255) + 1] += run >> 8
    places[(run & 255) + 1] += 1
  for byte in range(256):
    rows[byte + 1] += rows[byte]
    places[byte + 1] += places[byte]
  # Of each interval, in the order of rows: the first row; how far a step goes << 4 | its bytes; these bytes.
  starts, steps, strings = (
    np.empty(count + 1, np.uint32),
    np.empty(count, np.int32),
    np.empty(count, np.int64),
  )
  ranks = np.zeros((size >> 5) + 1, np.int64)  # by 32 rows: intervals before << 32 | a bit where one begins
  goal = 0
  for run in runs:
    byte, length = run & 255, run >> 8
    first, place = rows[byte] & _ALL, places[byte] & _ALL
    rows[byte] += length
    places[byte] += 1
    starts[place], steps[place], strings[place] = first, (goal - first) << 4 | 1, byte
    ranks[first >> 5] |= 1 << (first & 31)
    goal += length
  starts[count] = size
  found = 0
  for word in range(len(ranks)):
    marks = ranks[word]
    ranks[word] = found << 32 | marks
    found += _ones(marks)
  more_steps, more_strings = np.empty_like(steps), np.empty_like(strings)
  _double(ranks, starts, steps, strings, more_steps, more_strings)
  _double(ranks, starts, more_steps, more_strings, steps, strings)
  _double(ranks, starts, steps, strings, more_steps, more_strings)

  raw = np.empty(size + _JUMP, np.uint8)
  place = 0
  while place < size:
    at = _interval(ranks, row)
    step, string = more_steps[at], more_strings[at]
    for byte in range(_JUMP):  # those that are too many are overwritten by the next
      raw[(place & _ALL) + byte] = string >> (byte << 3)
    row += step >> 4
    place += step & 15
  return raw[:size]
