"""Random damage of bytes: flipped bits, lost, doubled and swapped bytes, and cut ends."""

import random
from collections.abc import Sequence

_TELLING = (0, 1, 0x7F, 0x80, 0xFF, 0x22, 0x5C, 0x0A, 0x0D)
"""Bytes that mean something to somebody: bounds of numbers, quotation mark, backslash, ends of lines."""


def mutate(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
  """`data` with one to four pieces of damage; parts of `others` may be put into it."""
  damaged = bytearray(data)
  for _ in range(rng.choice((1, 1, 1, 2, 4))):
    _damage(damaged, others, rng)
  return bytes(damaged)


def _damage(data: bytearray, others: Sequence[bytes], rng: random.Random) -> None:
  # Half of all damage is done near the start, where headers are.
  near = min(len(data), 64) if rng.random() < 0.5 else len(data)
  start = rng.randrange(near + 1)
  length = rng.choice((1, 2, 4, 16, 100))
  match rng.randrange(8):
    case 0:
      if start < len(data):
        data[start] ^= 1 << rng.randrange(8)
    case 1:
      data[start : start + 1] = bytes([rng.choice(_TELLING)])
    case 2:
      data[start : start + length] = rng.randbytes(length)
    case 3:
      del data[start : start + length]
    case 4:
      data[start:start] = rng.randbytes(length)
    case 5:
      data[start:start] = data[start : start + length]
    case 6:
      del data[rng.randrange(len(data) + 1) :]
    case 7:
      other = rng.choice(others)
      place = rng.randrange(len(other) + 1)
      data[start:] = other[place:]
