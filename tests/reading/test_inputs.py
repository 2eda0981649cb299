"""Input files: JSONL and JSON limits, archives, compression and encodings."""

import bz2
import gzip
import lzma
import tarfile
import zipfile

import pytest

from tests.make import files
from tests.make.refusals import refusal
from xmcap.errors import UsageError
from xmcap.reading import inputs
from xmcap.reading.inputs import Input


def _rows(path, **limits):
  with Input(path, **limits) as source:
    return list(source.rows())


def _object(size):
  return '{"a": "' + "x" * (size - 9) + '"}'


def _refused(path, content, **limits):
  """The message when rows are read of a file of this content."""
  return refusal(_rows, files.text(path, content), **limits)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", " \n"])
def test_jsonl_line_numbers_across_read_blocks(tmp_path, monkeypatch, end):
  monkeypatch.setattr(inputs, "_BLOCK", 16)
  path = tmp_path / "rows.jsonl"
  path.write_text(end.join(f'{{"n": {n}, "ü": "{"ë" * n}"}}' for n in range(20)), newline="")
  step = end.count("\n")
  assert _rows(path) == [(1 + n * step, {"n": n, "ü": "ë" * n}) for n in range(20)]


def test_jsonl_error_after_the_first_block_names_the_line(tmp_path, monkeypatch):
  monkeypatch.setattr(inputs, "_BLOCK", 16)
  content = '{"n": 1}\n' * 30 + '{"n": 1, "n": 2}\n'
  assert "line 31: names 'n' twice" in _refused(tmp_path / "rows.jsonl", content)


def test_jsonl_line_length_limit(tmp_path, monkeypatch):
  monkeypatch.setattr(inputs, "_BLOCK", 64)
  path = files.text(tmp_path / "rows.jsonl", "{}\n" + _object(1 << 20) + "\n{}")
  assert [number for number, _ in _rows(path, max_line=1 << 20)] == [1, 2, 3]
  content = "{}\n" + _object((1 << 20) + 1) + "\n{}"
  assert "line 2: longer than 1 MiB" in _refused(path, content, max_line=1 << 20)


def test_too_long_jsonl_line_is_refused_before_reading_it_whole(tmp_path):
  path = tmp_path / "rows.jsonl"
  with open(path, "wb") as file:
    file.truncate(1 << 36)  # a hole: 64 GiB that take no room on the disk
  assert "line 1: longer than 16 MiB" in refusal(_rows, path)


def test_json_document_over_the_size_limit_is_refused(tmp_path, monkeypatch):
  monkeypatch.setattr(inputs, "MAX_DOCUMENT", 1 << 20)
  path = tmp_path / "results.json"
  path.write_text("[" + " " * (1 << 20) + "]")
  with pytest.raises(UsageError, match="over 1 MiB"), Input(path) as source:
    source.document()


def test_json_errors_name_line_and_column(tmp_path):
  path = tmp_path / "results.json"
  for content, message in [
    (b'[\n  {"a": nan}]', r"broken JSON \(Expecting value at line 2, column 9\)"),
    (b'[\n  {"a": NaN}]', "NaN is not valid JSON"),
    (b'[\n  "\xff"]', r"byte 0xff at line 2, column 4"),
    (b'[{"image_id": 7, "a": 1, "a": 2}]', r"names 'a' twice"),
  ]:
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message), Input(path) as source:
      source.document()


def test_zip_with_a_single_jsonl_file_is_read(tmp_path):
  members = {"README": "-", "a/captions.jsonl": '{"a": 1}\n', "__MACOSX/._captions.jsonl": ""}
  assert _rows(files.zipped(tmp_path / "x", members)) == [(1, {"a": 1})]


@pytest.mark.parametrize(
  "members, message",
  [
    ({}, "a zip archive with 0 .jsonl, .json, .csv, .tsv or .txt files"),
    ({"captions.xml": "{}"}, "with 0 .jsonl, .json"),
    ({"a.json": "[]", "b.json": "[]"}, "with 2 .json files"),
    ({"a.jsonl": "{}", "b.jsonl": "{}"}, "with 2 .jsonl files"),
    ({"../a.jsonl": "{}\n["}, "x (../a.jsonl), line 2: broken JSON"),
  ],
)
def test_zip_without_a_single_captions_file_is_refused(tmp_path, members, message):
  assert message in refusal(_rows, files.zipped(tmp_path / "x", members))


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_tar_with_a_single_captions_file_is_read(tmp_path, mode):
  entries = ("a/README", b"-"), ("a/c.jsonl", b'{"a": 1}\n'), ("a/._c.jsonl", b"")
  assert _rows(files.tarred(tmp_path / "x", *entries, mode=mode)) == [(1, {"a": 1})]
  path = files.tarred(tmp_path / "x", ("a.jsonl", b"{}"), ("b.jsonl", b"{}"), mode=mode)
  assert "a tar archive with 2 .jsonl files; unpack it, and name the file" in refusal(_rows, path)
  link = tarfile.TarInfo("a.jsonl")
  link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
  assert "a tar archive with 0 " in refusal(_rows, files.tarred(tmp_path / "x", link, mode=mode))


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_compressed_files_are_read_and_damaged_refused(tmp_path, module):
  packed = module.compress(b'{"a": 1}\n')
  assert _rows(files.text(tmp_path / "x", packed)) == [(1, {"a": 1})]
  message = _refused(tmp_path / "x", packed[:-9])
  assert "cannot be read " in message and "; fetch or make it again" in message


def test_zip_over_the_decompressed_size_limit_is_refused(tmp_path, monkeypatch):
  monkeypatch.setattr(inputs, "MAX_UNPACKED", 1 << 20)
  name, large = "captions.jsonl", b"\n" * ((1 << 20) + 1)
  path = files.zipped(tmp_path / "x", {name: large})
  assert "(captions.jsonl): over 1 MiB when decompressed" in refusal(_rows, path)
  path = files.tarred(tmp_path / "x", (name, large), mode="w:gz")
  assert "x: over 1 MiB when decompressed" in refusal(_rows, path)


def test_broken_or_encrypted_archives_are_refused(tmp_path):
  path, members = tmp_path / "x", {"captions.jsonl": "{}"}
  whole = files.zipped(path, members).read_bytes()
  directory = whole.index(b"PK\x01\x02")
  false_size = bytearray(files.zipped(path, {"captions.jsonl": b"{}\n" * (1 << 20)}).read_bytes())
  start = false_size.index(b"PK\x01\x02") + 24
  false_size[start : start + 4] = (30).to_bytes(4, "little")
  for content, message in [
    (whole[:-5], "not a zip file"),
    (whole[: directory + 8] + b"\x01" + whole[directory + 9 :], "encrypted"),
    (files.zipped(path, members, zipfile.ZIP_BZIP2).read_bytes(), "compressed in an unsupported way"),
    (bytes(false_size), "CRC"),
  ]:
    assert message in _refused(path, content)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_utf_encodings_with_bom_are_read(tmp_path, encoding):
  mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
  path = files.text(tmp_path / "x", (mark + '{"a": "é ภ 😀"}\r\n{"a": 2}\r\n').encode(encoding))
  assert _rows(path) == [(1, {"a": "é ภ 😀"}), (2, {"a": 2})]
  with Input(path) as source:
    assert [line for _, line in source.lines()] == ['{"a": "é ภ 😀"}', '{"a": 2}']
  with Input(path) as source:
    assert source.text().startswith("{")
  assert source.head.startswith(b"{")


@pytest.mark.parametrize(
  ("content", "message"),
  [
    (b"\xff\xfea\x00\x00", "cannot be read"),  # UTF-16
    (b"\x93NUMPY\x01", "NumPy"),
    (b"\x89HDF\r\n\x1a\n", "HDF5"),
    (b"RIFF\x0a\x00\x00\x00WEBPVP8 ", "a picture, not text"),
    (b"GIF89a", "a picture, not text"),
    (b"%PDF-1.4\n", "a PDF document"),
    (b"\n\x0e\n\x05<unk>\x15", "a vocabulary of SentencePiece"),
    ("image,caption\n".encode("utf-16-le"), "UTF-16 without a byte order mark"),
    (b"\x89PNG\r\n", "picture"),
    (b"\x28\xb5\x2f\xfd\x24", "compressed with Zstandard: decompress it with zstd -d"),
    (b"7z\xbc\xaf\x27\x1c\0", "compressed with 7-Zip"),
    (b"Rar!\x1a\x07\1\0", "compressed with RAR"),
    (b'<refset setid="newstest2014" srclang="any">', "markup, such as WMT's SGML"),
  ],
)
def test_unsupported_file_kinds_are_refused(tmp_path, content, message):
  assert message in refusal(Input, files.text(tmp_path / "x", content))
