"""Chunks of lines of plain, gzip and bzip2 files: every line once, in order; damage is reported."""

import bz2
import gzip
import random

import pytest

from tests.make.refusals import refusal
from xmcap.errors import XmcapError
from xmcap.reading import lines

FORMATS = {".jsonl": bytes, ".jsonl.bz2": bz2.compress, ".jsonl.gz": gzip.compress}


def text(seed: int, count: int = 2_000, longest: int = 200, last_end: bool = True) -> bytes:
  rng = random.Random(seed)
  made = b"".join(rng.randbytes(rng.randrange(longest)).hex().encode() + b"\n" for _ in range(count))
  return made if last_end else made[:-1]


def read(tmp_path, data: bytes, suffix: str, chunk_bytes: int = lines.CHUNK_BYTES) -> list[bytes]:
  path = tmp_path / f"file{suffix}"
  path.write_bytes(data)
  pieces, shares = [], []
  for piece, share in lines.chunks(path, chunk_bytes):
    pieces.append(piece)
    shares.append(share)
  assert shares == sorted(shares) and all(0 < share <= 1 for share in shares)
  return pieces


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("chunk_bytes", [64 << 20, 100_000, 4_097])
@pytest.mark.parametrize("last_end", [True, False])
def test_chunks_have_every_line_once_and_in_order(tmp_path, suffix, chunk_bytes, last_end):
  data = text(1, last_end=last_end)
  chunks = read(tmp_path, FORMATS[suffix](data), suffix, chunk_bytes)
  assert b"".join(chunks) == data
  assert all(chunk.endswith(b"\n") for chunk in chunks[:-1] if chunk)


@pytest.mark.parametrize("chunk_bytes", range(1, 12))
def test_chunks_with_lines_longer_than_a_chunk(tmp_path, chunk_bytes):
  data = b"a\nbb\n\nccc\n" + b"d" * 30 + b"\ne\n"
  chunks = read(tmp_path, data, ".jsonl", chunk_bytes)
  assert b"".join(chunks) == data
  assert all(chunk.endswith(b"\n") for chunk in chunks if chunk)


def test_bzip2_blocks_are_found_at_any_bit_offset(tmp_path):
  data = text(2, count=10_000)
  pieces = read(tmp_path, bz2.compress(data, 1), ".jsonl.bz2", chunk_bytes=100_000)
  assert len(pieces) > 15
  assert b"".join(pieces) == data


def test_multi_stream_bzip2_file(tmp_path):
  parts = [text(seed, count=200) for seed in range(5)]
  data = b"".join(bz2.compress(part, 1 + number) for number, part in enumerate(parts))
  assert b"".join(read(tmp_path, data + bz2.compress(b""), ".jsonl.bz2")) == b"".join(parts)


@pytest.mark.parametrize("suffix", FORMATS)
def test_empty_file_has_no_chunks(tmp_path, suffix):
  assert read(tmp_path, FORMATS[suffix](b""), suffix) == []


_WHOLE = bz2.compress(text(4))


@pytest.mark.parametrize(
  ("data", "words"),
  [
    (_WHOLE[:-1], "truncated"),
    (_WHOLE[: len(_WHOLE) // 2], "ended before"),
    (_WHOLE[:3], "ended before"),
    (b"", "ended before|no bzip2"),
    (b"<html>gone</html>" * 9, "Invalid data stream"),
    (b"junk" + _WHOLE, "Invalid data stream"),
    (_WHOLE[:7] + b"x" + _WHOLE[8:], "Invalid data stream"),
    (_WHOLE + b"junk", "not bzip2 from byte"),
    (_WHOLE + b"\0" + _WHOLE, "not bzip2 from byte"),
    (_WHOLE[: len(_WHOLE) // 2] + _WHOLE[len(_WHOLE) // 2 + 99 :], "Invalid data stream"),
  ],
)
def test_damaged_bzip2_is_refused(tmp_path, data, words):
  with pytest.raises(XmcapError, match=f"file.jsonl.bz2: .*({words}).*"):
    read(tmp_path, data, ".jsonl.bz2")


@pytest.mark.parametrize("suffix", [".jsonl.bz2", ".jsonl.gz"])
def test_damaged_compressed_lines_are_refused(tmp_path, suffix):
  data = bytearray(FORMATS[suffix](text(5)))
  data[len(data) // 2] ^= 0xFF
  message = refusal(read, tmp_path, bytes(data), suffix, error=XmcapError)
  assert f"file{suffix}: damaged, or cannot be read" in message


@pytest.mark.parametrize("left", [0.99, 0.5, 0.0001])
def test_truncated_gzip_is_refused(tmp_path, left):
  data = gzip.compress(text(5))
  message = refusal(read, tmp_path, data[: int(len(data) * left)], ".jsonl.gz", error=XmcapError)
  assert "file.jsonl.gz: damaged, or cannot be read" in message


def test_too_long_line_is_refused(tmp_path, monkeypatch):
  monkeypatch.setattr(lines, "MAX_LINE_BYTES", 3 << 20)
  assert "a line of over 3 MB" in refusal(
    read, tmp_path, b"x" * (4 << 20), ".jsonl", 1 << 20, error=XmcapError
  )


def test_chunks_refuse_unknown_suffixes_and_missing_files(tmp_path):
  message = "captions.txt: give a file .jsonl, .jsonl.bz2, .jsonl.gz"
  assert message in refusal(next, lines.chunks(tmp_path / "captions.txt"))
  assert "is not a file" in refusal(next, lines.chunks(tmp_path / "captions.jsonl"))
