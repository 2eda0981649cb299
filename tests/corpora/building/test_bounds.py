"""Limits against decompression bombs, huge zip directories, JPEG scans and endless empty lines."""

import bz2
import gzip
import os
import struct
import tarfile
import time
import zipfile

import pytest
from PIL import Image

from tests.make.files import tarred
from tests.make.images import encode
from xmcap.corpora.building import image_check
from xmcap.corpora.building.problems import MAX_LISTED, Problems
from xmcap.corpora.releases import cc3m35l, xm3600
from xmcap.corpora.releases.translations import CocoParser
from xmcap.data import images
from xmcap.errors import UsageError, XmcapError
from xmcap.files import strict_json
from xmcap.reading import archives, inputs, lines, tar_files
from xmcap.reading.archives import File

NEWLINES = 50_000_000
SOON = 10.0  # seconds of the processor; without a limit each of these takes minutes


@pytest.fixture
def soon():
  began = time.process_time()
  yield
  assert time.process_time() - began < SOON


def packed(path, opener, piece, count):
  with opener(path, "wb") as file:
    for _ in range(count):
      file.write(piece)
  return path


@pytest.mark.parametrize("suffix, opener", [("", open), (".gz", gzip.open)])
@pytest.mark.parametrize("line", [b"\n", b" \n"])
def test_many_empty_lines_of_translations_are_fast(suffix, opener, line, tmp_path, soon):
  piece = line * ((1 << 20) // len(line))
  path = packed(tmp_path / f"a.jsonl{suffix}", opener, piece, 4)
  parser, count, problems = CocoParser("a", {1: 0}), 0, Problems()
  for text, _ in lines.chunks(path):
    captions, read = parser(text, count + 1, problems)
    assert not captions
    count += read
  assert count == 4 * piece.count(b"\n") and not problems.counts


@pytest.mark.parametrize("line", [b"\n", b"\r\n", b"   \n"])
def test_filled_lines_keep_line_numbers(line):
  block = line.join([b"", b"", b"a", b"  b\t", b"", b"c", b"", b""])
  expected = [(n, raw) for n, raw in enumerate(block.split(b"\n"), 8) if raw.strip()]
  found = list(strict_json.filled_lines(block, 7))
  assert [(number, raw.rstrip(b"\r")) for number, raw in found] == [
    (n, raw.rstrip(b"\r")) for n, raw in expected
  ]


def test_many_empty_lines_of_predictions_are_fast(tmp_path, soon):
  path = tmp_path / "predictions.zip"
  with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.jsonl", "w") as file:
    for _ in range(NEWLINES >> 20):
      file.write(b"\n" * (1 << 20))
    file.write(b'{"a": 1}\n')
  with inputs.Input(path) as source:
    assert list(source.rows()) == [((NEWLINES >> 20 << 20) + 1, {"a": 1})]


@pytest.mark.parametrize("opener", [open, gzip.open, bz2.open])
def test_many_empty_lines_of_xm3600_are_fast(opener, tmp_path, soon):
  path = packed(tmp_path / "captions.jsonl", opener, b"\n" * (1 << 20), 8)
  with inputs.Input(path) as source:
    assert not list(xm3600.read_pictures(source, "captions.jsonl", Problems()))
  assert source.num_lines == 8 << 20


@pytest.mark.parametrize("opener", [gzip.open, bz2.open])
def test_captions_over_the_decompressed_size_limit_are_refused(opener, tmp_path, monkeypatch):
  monkeypatch.setattr(inputs, "MAX_UNPACKED", 1 << 20)
  path = packed(tmp_path / "captions.jsonl", opener, b"\n" * (1 << 20), 2)
  with (
    inputs.Input(path) as source,
    pytest.raises(UsageError, match="captions.jsonl: over 1 MiB when decompressed"),
  ):
    list(source.rows())


def test_problems_have_a_maximum_number():
  assert Problems()._most == MAX_LISTED
  problems = Problems(most=1_000)
  with pytest.raises(XmcapError, match=r"line 1000: more than 1,000 problems, .*not_json: give the files"):
    for number in range(2_000):
      problems.add("not_json", f"line {number}")
  assert len(problems.listed) == 1_001


@pytest.mark.parametrize("suffix, opener", [("gz", gzip.open), ("bz2", bz2.open)])
def test_table_over_the_decompressed_size_limit_is_refused(suffix, opener, tmp_path, monkeypatch):
  monkeypatch.setattr(lines, "MAX_SMALL", 1 << 16)
  path = packed(tmp_path / f"a.jsonl.{suffix}", opener, b"{}" * (1 << 19) + b"\n", 2)
  with pytest.raises(
    XmcapError, match=f"a.jsonl.{suffix}: decompresses to implausibly more than its .* bytes"
  ):
    list(lines.chunks(path))


@pytest.mark.parametrize("mode", ["gz", "bz2"])
@pytest.mark.parametrize("behind", [False, True])
def test_tar_over_the_decompressed_size_limit_is_refused(mode, behind, tmp_path, monkeypatch):
  """Either a member is as large, though it is no picture; or zeros follow the end of the tar."""
  monkeypatch.setattr(lines, "MAX_SMALL", 1 << 20)
  whole = tarred(tmp_path / "a.tar", ("a.txt", bytes(0 if behind else 64 << 20)))
  opener = gzip.open if mode == "gz" else bz2.open
  path = packed(tmp_path / f"a.tar.{mode}", opener, whole.read_bytes() + bytes(64 << 20 if behind else 0), 1)
  with pytest.raises(
    XmcapError, match=r"not a complete tar file \(it decompresses to over [17],[0-9,]+ bytes\)"
  ):
    tar_files.unpack(str(path), str(tmp_path / "unpacked"))


@pytest.mark.parametrize("large", [False, True])
def test_zip_with_a_huge_central_directory_is_refused(large, tmp_path):
  path = tmp_path / "a.zip"
  size = 300 << 20
  if large:
    end = b"PK\x06\x06" + struct.pack("<QHHLLQQQQ", 44, 45, 45, 0, 0, 9, 9, size, 0)
    end += b"PK\x06\x07" + struct.pack("<LQL", 0, size, 1)
    end += b"PK\x05\x06" + struct.pack("<HHHHLLH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
  else:
    end = b"PK\x05\x06" + struct.pack("<HHHHLLH", 0, 0, 9, 9, size, 0, 0)
  with open(path, "wb") as file:
    file.write(b"PK\x03\x04")
    file.seek(size)
    file.write(end)
  with pytest.raises(XmcapError, match="a.zip: its directory has over 256 MB: unpack it into folders"):
    list(archives.search_zip(str(path)))


def test_zip_entry_without_a_name_is_ignored(tmp_path):
  path = tmp_path / "a.zip"
  with zipfile.ZipFile(path, "w") as archive:
    archive.writestr("x", b"data")
  raw = bytearray(path.read_bytes())
  place = raw.rfind(b"PK\x01\x02")
  raw[place + 28 : place + 30] = (
    b"\0\0"  # the name has no bytes, and what was the name belongs to the comment
  )
  raw[place + 32 : place + 34] = b"\1\0"
  path.write_bytes(raw)
  assert list(archives.search_zip(str(path))) == []


def test_zip_entry_with_offset_beyond_the_file_is_refused(tmp_path):
  path = tmp_path / "a.zip"
  with zipfile.ZipFile(path, "w") as archive:
    archive.writestr("x.jpg", b"data")
  raw = bytearray(path.read_bytes())
  directory, end = raw.rfind(b"PK\x01\x02"), raw.rfind(b"PK\x05\x06")
  extra = struct.pack("<HHQ", 1, 8, 2**63 + 9)
  raw[directory + 30 : directory + 32] = struct.pack("<H", len(extra))
  raw[directory + 42 : directory + 46] = b"\xff" * 4
  raw[end + 12 : end + 16] = struct.pack("<L", end - directory + len(extra))
  raw[end:end] = extra
  path.write_bytes(raw)
  with pytest.raises(XmcapError, match="a.zip: not a complete zip file"):
    list(archives.search_zip(str(path)))


def test_zip_central_directory_within_limits_is_read(tmp_path, monkeypatch):
  path = tmp_path / "a.zip"
  with zipfile.ZipFile(path, "w") as archive:
    archive.comment = b"a comment"
    for number in range(10):
      archive.writestr(f"{number}.jpg", b"x")
  monkeypatch.setattr(archives, "MAX_DIRECTORY", 1_000)
  assert len(list(archives.search_zip(str(path)))) == 10
  monkeypatch.setattr(archives, "MAX_DIRECTORY", 10 * (46 + 5) - 1)
  with pytest.raises(XmcapError, match="a.zip: its directory has over"):
    list(archives.search_zip(str(path)))


def test_cc3m_list_of_too_many_images_is_refused(tmp_path, monkeypatch):
  path = tmp_path / "a.tsv"
  path.write_text("a dog\thttp://a\n" + "\n" * 100)
  monkeypatch.setattr(cc3m35l, "MAX_PICTURES", 100)
  with pytest.raises(UsageError, match="a.tsv: over 100 lines: give the TSV"):
    list(cc3m35l.read_tsv(path))


def progressive(side, extra):
  """A progressive JPEG with its last scan so many times more."""
  first, last = encode(Image.new("L", (side, side), 128), "JPEG", progressive=True).rsplit(b"\xff\xda", 1)
  return first + (b"\xff\xda" + last[:-2]) * (extra + 1) + b"\xff\xd9"


def test_jpeg_with_too_many_scans_is_refused(soon):
  data = progressive(5_000, 100_000)
  with pytest.raises(XmcapError, match="picture 'a': a JPEG of more than 256 scans"):
    images.decode(data, "a")
  found = image_check.examine(data, "a")
  assert not found.data and found.kind == "too_many_pixels" and "over 256 scans" in found.what


def test_jpeg_scan_limit_ignores_trailing_bytes():
  for extra in (0, 200):
    data = progressive(16, extra) + b"\xff\xda" * 1_000
    assert images.decode(data, "a").shape == (16, 16, 3) and image_check.examine(data, "a").data == data


@pytest.mark.parametrize("name", ["../a.jpg", "/a.jpg", "a/../../b.jpg", "C:\\a.jpg", "..\\a.jpg"])
def test_tar_member_path_traversal_is_refused(name, tmp_path):
  path = tarred(tmp_path / "a.tar", (name, b"x"))
  found = list(tar_files.search_tar(File(archives.TAR, str(path))))
  assert [trouble.kind for trouble in found] == ["unsafe_path"]


def test_tar_member_names_may_be_any_bytes(tmp_path):
  names = [b"\xff\xfe.jpg", b"a\nb.jpg", "é.jpg".encode(), b"x" * 5_000 + b".jpg", b"same.jpg", b"same.jpg"]
  entries = [(os.fsdecode(name), b"") for name in names]
  path = tarred(tmp_path / "a.tar", *entries, format=tarfile.GNU_FORMAT, errors="surrogateescape")
  assert [found.path for found in tar_files.search_tar(File(archives.TAR, str(path)))] == [
    os.fsdecode(name) for name in names
  ]
