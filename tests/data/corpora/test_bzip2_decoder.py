"""The decoder of bzip2 against the standard library's, on texts of every kind; damage of every kind is noticed.

numba checks no bounds; with NUMBA_BOUNDSCHECK=1 and a new NUMBA_CACHE_DIR it does, and an IndexError here is a fault.
"""

import bz2
import functools
import os
import pathlib
import random
import resource
import subprocess
import sys

import numpy as np
import pytest

from xmcap.data.corpora import bzip2_blocks

ROOT = pathlib.Path(__file__).parents[3]
SCRIPTS = [
  "plain",
  "ünïcödé",
  "слова",
  "λέξεις",
  "言葉",
  "낱말들",
  "शब्द",
  "คำศัพท์",
  "מילים",
  "كلمات",
  "శబ్దం",
  "🐈🐕",
]


@pytest.fixture(scope="module")
def decoder():
  """Compiled here, where it never was."""
  from xmcap.data.corpora import bzip2_decoder

  return bzip2_decoder


def words(rng: random.Random, count: int) -> list[bytes]:
  known = ["".join(rng.sample(s, rng.randint(1, len(s)))).encode() for _ in range(300) for s in SCRIPTS]
  return rng.choices(known, k=count)


def fibonacci(length: int) -> bytes:
  one, two = b"a", b"ab"
  while len(two) < length:
    one, two = two, two + one
  return two


TEXTS = {
  "one byte": lambda rng: b"x",
  "one zero": lambda rng: b"\0",
  "two bytes": lambda rng: b"ab",
  "three": lambda rng: b"aab",
  "four alike": lambda rng: b"aaaa",
  "five alike": lambda rng: b"aaaaa",
  "259 and 260 alike": lambda rng: b"a" * 259 + b"b" + b"a" * 260,
  "one byte often": lambda rng: b"a" * 300_000,
  "zeros": lambda rng: bytes(50_000_000),
  "two in turn": lambda rng: b"ab" * 150_000,
  "a period": lambda rng: b"abcdefghijklmnopqrstuvwxyz" * 8_000,
  "every byte": lambda rng: bytes(range(256)) * 1_000,
  "every byte backwards": lambda rng: bytes(range(255, -1, -1)) * 100,
  "random": lambda rng: rng.randbytes(1_000_000),
  "random nibbles": lambda rng: rng.randbytes(150_000).hex().encode(),
  "long codes": lambda rng: bytes(rng.choices(range(200), [0.6**n + 1e-6 for n in range(200)], k=950_000)),
  "runs": lambda rng: b"".join(rng.randbytes(1) * length for length in range(1, 600) for _ in range(4)),
  "runs of four": lambda rng: b"".join(bytes([1 + byte // 2]) * 4 for byte in rng.randbytes(50_000)),
  "fibonacci": lambda rng: fibonacci(300_000),
  "scripts": lambda rng: b" ".join(words(rng, 80_000)),
  "json": lambda rng: b"".join(b'{"id":"%d_1","caption":"%s"}\n' % pair for pair in enumerate(words(rng, 60_000))),
}  # fmt: skip


@functools.cache
def text(name: str) -> bytes:
  return TEXTS[name](random.Random(0))


def spans(path: pathlib.Path, data: bytes) -> list[tuple[int, int]]:
  path.write_bytes(data)
  return [(int(begin), int(end)) for begin, end in bzip2_blocks.find(path)]


@pytest.fixture
def unpacked(decoder, tmp_path):
  """The text of a file."""

  def unpack(data: bytes) -> bytes:
    return b"".join(decoder.decompress(data, *span) for span in spans(tmp_path / "a.bz2", data))

  return unpack


@pytest.fixture
def decoded(decoder):
  """The text between two bits, None where damage is noticed."""

  def decode(data: bytes, begin: int, end: int) -> bytes | None:
    try:
      return decoder.decompress(data, begin, end)
    except ValueError as error:
      assert "\n" not in str(error) and "bzip2" in str(error)
      return None

  return decode


@pytest.mark.parametrize("name", TEXTS)
def test_same_as_standard_library(unpacked, name):
  same = unpacked(bz2.compress(text(name))) == text(name)
  assert same


def test_many_blocks(unpacked):
  same = unpacked(bz2.compress(text("json"), 1)) == text("json")
  assert same


def test_many_small_texts(unpacked):
  rng = random.Random(1)
  for length in range(1, 300):
    made = bytes(rng.choice(b"abc\0\xff"[: rng.randint(1, 5)]) for _ in range(length))
    assert unpacked(bz2.compress(made)) == made


def test_streams_that_follow_one_another(unpacked):
  parts = [text("runs of four"), b"x", text("every byte backwards")]
  same = unpacked(b"".join(map(bz2.compress, parts))) == b"".join(parts)
  assert same


def test_empty_file_has_no_blocks(unpacked):
  assert unpacked(bz2.compress(b"")) == b""


def flipped(data: bytes, *bits: int) -> bytes:
  damaged = bytearray(data)
  for bit in bits:
    damaged[bit // 8] ^= 128 >> bit % 8
  return bytes(damaged)


@pytest.mark.parametrize("name", ["scripts", "runs"])
def test_each_flipped_bit_is_noticed(decoded, tmp_path, name):
  whole = text(name)[:1500]
  data = bz2.compress(whole)
  ((begin, end),) = spans(tmp_path / "a.bz2", data)
  unnoticed = 0
  for bit in range(begin, end):
    found = decoded(flipped(data, bit), begin, end)
    assert found is None or found == whole
    unnoticed += found is not None
  assert unnoticed < 40  # lengths of codes that no symbol has


@pytest.mark.parametrize("name", ["scripts", "random", "zeros", "long codes"])
def test_damage_in_large_blocks(decoded, tmp_path, name):
  data = bz2.compress(text(name)[:600_000])
  begin, end = spans(tmp_path / "a.bz2", data)[0]
  whole = decoded(data, begin, end)
  rng = random.Random(2)
  for turn in range(40):
    # Half of the turns near the tables.
    last = min(end, begin + 20_000) if turn % 2 else end
    bits = [rng.randrange(begin, last) for _ in range(rng.choice([1, 1, 2, 10]))]
    assert decoded(flipped(data, *bits), begin, end) in (None, whole)


def test_garbage(decoded):
  rng = random.Random(3)
  head = bz2.compress(text("scripts")[:3000])[4:]
  for _ in range(2000):
    kept = rng.choice([6, 10, 14, 30, 60, 150])
    data = head[:kept] + rng.choice([rng.randbytes, bytes, lambda n: b"\xff" * n])(rng.randrange(3000))
    assert decoded(data, 0, 8 * len(data) - rng.randrange(8)) is None


def test_cut_off(decoded, tmp_path):
  data = bz2.compress(text("scripts")[:20_000])
  ((begin, end),) = spans(tmp_path / "a.bz2", data)
  for cut in range(begin, end, 53):
    assert decoded(data, begin, cut) is None
    assert decoded(data[: -(-cut // 8)], begin, cut) is None
  assert decoded(data, begin, end + 1) is None
  assert decoded(data, begin + 1, end) is None
  assert decoded(data, begin, 8 * len(data) + 1) is None


def test_wrong_checksum_alone(decoder, tmp_path):
  data = bz2.compress(text("json")[:50_000])
  ((begin, end),) = spans(tmp_path / "a.bz2", data)
  for bit in range(begin + 48, begin + 80):
    with pytest.raises(ValueError, match="checksum"):
      decoder.decompress(flipped(data, bit), begin, end)


def test_checksum_of_odd_lengths(decoder):
  for length in range(50):
    value = 0xFFFFFFFF
    for byte in range(length):
      value ^= byte << 24
      for _ in range(8):
        value = (value << 1 ^ (0x04C11DB7 if value >> 31 else 0)) & 0xFFFFFFFF
    assert decoder._checksum(np.arange(length, dtype=np.uint8), decoder._CHECKSUMS) == value ^ 0xFFFFFFFF


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is looked up in /proc")
def test_memory_does_not_grow_with_the_blocks(decoder, tmp_path):
  data = bz2.compress(text("json")[:800_000])
  ((begin, end),) = spans(tmp_path / "a.bz2", data)

  def resident() -> int:
    with open("/proc/self/statm", encoding="utf-8") as file:
      return int(file.read().split()[1]) * resource.getpagesize()

  for _ in range(3):
    decoder.decompress(data, begin, end)
  before = resident()
  for _ in range(60):
    decoder.decompress(data, begin, end)
  assert resident() - before < 20e6


def test_numba_is_imported_for_bzip2_alone():
  code = "import sys, xmcap.data.corpora.build; sys.exit('numba' in sys.modules)"
  subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


DECODE = """
import bz2, sys
from xmcap.data.corpora import bzip2_decoder, compiled
assert bzip2_decoder.decompress(bz2.compress(b"text"), 32, int(sys.argv[1])) == b"text"
print(len(compiled.not_kept), *compiled.not_kept)
"""


@pytest.mark.slow
def test_what_is_compiled_is_kept_where_that_can_be(tmp_path):
  ((_, end),) = spans(tmp_path / "a.bz2", bz2.compress(b"text"))

  def start(cache: str) -> subprocess.Popen:
    # No folder but the one that is given: what was compiled before this test is not to be found.
    environment = os.environ | {
      "NUMBA_CACHE_DIR": cache,
      "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator",
    }
    command = [sys.executable, "-c", DECODE, str(end)]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)

  def said(process: subprocess.Popen) -> str:
    output = process.communicate()[0]
    assert process.returncode == 0
    return output

  folder = tmp_path / "cache"
  at_once = [start(str(folder)), start(str(folder))]
  assert [said(process) for process in at_once] == ["0\n", "0\n"]
  kept = {path: path.stat().st_mtime_ns for path in folder.rglob("*.nbc")}
  assert len(kept) == 5
  assert said(start(str(folder))) == "0\n"
  assert {path: path.stat().st_mtime_ns for path in kept} == kept
  damaged = next(path for path in kept if "_checksum" in path.name)
  damaged.write_bytes(damaged.read_bytes()[:100])
  assert said(start(str(folder))).startswith("1 ")
  assert said(start(os.devnull)).startswith("5 ")
