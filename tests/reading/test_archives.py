"""Folders, tar and zip archives of images: which files are read, which are refused, and how damage is reported."""

import collections
import os
import pathlib
import random
import tarfile
import zipfile

import pytest

from tests.fuzz.byte_damage import mutate
from tests.make import files
from tests.make.refusals import refusal
from xmcap.errors import XmcapError
from xmcap.reading import archives, tar_files
from xmcap.reading.archives import Address, File, Found, Trouble


def search_tar(path, kind=archives.TAR):
  return list(tar_files.search_tar(File(kind, str(path))))


def link(name, target, kind=tarfile.SYMTYPE):
  info = tarfile.TarInfo(name)
  info.type, info.linkname = kind, target
  return info


def read_all(kind, path, found, unpacked=""):
  file = File(kind, path, unpacked)
  return {entry.path: archives.read(file, entry) for entry in found if isinstance(entry, Found)}


ENTRIES = [
  ("a/1.jpg", b"one"),
  ("a/2.JPG", b"two" * 700),
  ("a/0.jpg", b""),
  ("a/3.txt", b"text"),
  (".DS_Store", b"x"),
]
PICTURES = {"a/1.jpg": b"one", "a/2.JPG": b"two" * 700, "a/0.jpg": b""}


def test_tar_is_read_in_place(tmp_path):
  path = str(files.tarred(tmp_path / "a.tar", *ENTRIES))
  assert archives.kind_of(path) == archives.TAR
  assert read_all(archives.TAR, path, search_tar(path)) == PICTURES


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2"])
def test_packed_tar_is_unpacked_once(tmp_path, mode):
  path = str(files.tarred(tmp_path / "a.tgz", *ENTRIES, mode=mode))
  unpacked = str(tmp_path / "copy")
  assert archives.kind_of(path) == archives.PACKED_TAR
  found = list(tar_files.search_tar(File(archives.PACKED_TAR, path, unpacked)))
  assert read_all(archives.PACKED_TAR, path, found, unpacked) == PICTURES
  assert sorted(os.listdir(tmp_path)) == ["a.tgz", "copy"]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip_is_read_in_place(tmp_path, method):
  path = str(tmp_path / "a.zip")
  files.zipped(path, {"a/": b"", **dict(ENTRIES), "__MACOSX/a/1.jpg": b"fork"}, method)
  assert archives.kind_of(path) == archives.ZIP
  assert read_all(archives.ZIP, path, archives.search_zip(path)) == PICTURES


def test_folder_search_follows_links_and_survives_link_cycles(tmp_path):
  (tmp_path / "in/deep").mkdir(parents=True)
  (tmp_path / "in/1.jpg").write_bytes(b"one")
  (tmp_path / "in/deep/2.png").write_bytes(b"two")
  (tmp_path / "in/deep/round").symlink_to(tmp_path / "in")
  (tmp_path / "in/gone.jpg").symlink_to(tmp_path / "nowhere")
  os.mkfifo(tmp_path / "in/pipe.jpg")
  found = list(archives.search_folder(str(tmp_path / "in")))
  assert read_all(archives.FOLDER, str(tmp_path / "in"), found) == {"1.jpg": b"one", "deep/2.png": b"two"}
  assert [entry.kind for entry in found if isinstance(entry, Trouble)] == ["unsafe_path"]


UNSAFE = ("../out.jpg", "a/../../out.jpg", "/etc/out.jpg", "C:\\out.jpg", "..\\out.jpg", "\\\\host\\out.jpg")


@pytest.mark.parametrize("name", UNSAFE)
def test_archive_names_with_path_traversal_are_refused(tmp_path, name):
  path = str(files.tarred(tmp_path / "a.tar", (name, b"bad"), ("good.jpg", b"good")))
  zipped = files.zipped(tmp_path / "a.zip", {name: b"bad", "good.jpg": b"good"})
  for entries in (search_tar(path), list(archives.search_zip(str(zipped)))):
    assert [(type(entry), getattr(entry, "kind", "")) for entry in entries] == [
      (Trouble, "unsafe_path"),
      (Found, ""),
    ]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_tar_links_and_devices_are_refused(tmp_path, kind):
  path = str(files.tarred(tmp_path / "a.tar", link("x.jpg", "/etc/passwd", kind), ("good.jpg", b"good")))
  found = search_tar(path)
  assert [type(entry) for entry in found] == [Trouble, Found]


def test_zip_symlink_is_refused(tmp_path):
  info = zipfile.ZipInfo("x.jpg")
  info.external_attr = 0o120777 << 16
  with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
    archive.writestr(info, "/etc/passwd")
  assert [entry.kind for entry in archives.search_zip(str(tmp_path / "a.zip"))] == ["unsafe_path"]


def test_img2dataset_json_gives_image_urls(tmp_path):
  entries = [
    ("00/1.jpg", b"x"),
    ("00/1.json", b'{"url": "http://a/1", "key": "1", "status": "success", "ratio": NaN}'),
    ("00/2.json", b'{"url": "http://a/2", "status": "failed_to_download"}'),
    ("00/3.json", b"{cut"),
    ("00/4.json", b"[" * 100_000),
  ]
  path = str(files.tarred(tmp_path / "a.tar", *entries))
  found = search_tar(path, archives.SHARD)
  assert [entry for entry in found if isinstance(entry, Address)] == [Address("00/1", "http://a/1")]
  assert len(found) == 2


@pytest.mark.parametrize("kind", [archives.FOLDER, archives.ZIP, archives.TAR])
def test_json_over_the_size_limit_is_not_read(kind, tmp_path):
  about = b'{"url": "http://a/1", "exif": "%s"}'
  short, long = (about % (b"x" * (size - len(about) + 2)) for size in (1 << 20, (1 << 20) + 1))
  entries, path = {"1.json": short, "2.json": long}, tmp_path / "a"
  if kind == archives.FOLDER:
    for name, data in entries.items():
      files.text(path / name, data)
  elif kind == archives.ZIP:
    files.zipped(path, entries)
  else:
    files.tarred(path, *entries.items())
  assert list(tar_files.search(File(kind, str(path)))) == [Address("1", "http://a/1")]


def test_truncated_tar_is_reported(tmp_path):
  path = str(files.tarred(tmp_path / "a.tar", ("1.jpg", b"1" * 600), ("2.jpg", b"2" * 600)))
  whole = pathlib.Path(path).read_bytes()
  for length in (512, 700, 1536, 1700, 2100, 3072):  # in data, at a header, in a header, before the end mark
    pathlib.Path(path).write_bytes(whole[:length])
    found = search_tar(path, archives.SHARD)
    assert isinstance(found[-1], Trouble) and found[-1].kind == "truncated", length
    assert len(found) == 1 + (length >= 1536) + (length >= 3072), length
    assert "download it again" in refusal(search_tar, path, error=XmcapError)


def test_damaged_tar_header_is_not_the_end_of_the_tar(tmp_path):
  path = str(files.tarred(tmp_path / "a.tar", ("1.jpg", b"1"), ("2.jpg", b"2"), ("3.jpg", b"3")))
  whole = bytearray(pathlib.Path(path).read_bytes())
  whole[1024:1100] = b"\xff" * 76
  pathlib.Path(path).write_bytes(whole)
  found = search_tar(path, archives.SHARD)
  assert [getattr(entry, "kind", entry.path if isinstance(entry, Found) else "") for entry in found] == [
    "1.jpg",
    "truncated",
  ]


def test_truncated_packed_tar_is_refused(tmp_path):
  path = files.tarred(tmp_path / "a.tgz", ("1.jpg", os.urandom(60_000)), mode="w:gz")
  path.write_bytes(path.read_bytes()[:30_000])
  message = refusal(tar_files.unpack, str(path), str(tmp_path / "copy"), error=XmcapError)
  assert "a.tgz: not a complete tar file" in message


def _longname(name, size):
  header = tarfile.TarInfo(name)
  header.type, header.size = tarfile.GNUTYPE_LONGNAME, size
  return header.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("size", [4 << 30, -(1 << 20)])
def test_tar_header_with_an_impossible_size_is_refused(tmp_path, size):
  path = files.text(tmp_path / "a.tar", _longname("x" * 90, size) + bytes(1 << 20))
  with pytest.raises(XmcapError, match=f"a header of {size:,} bytes|bad checksum|invalid header"):
    search_tar(path)


def test_endless_gnu_longname_headers_are_refused(tmp_path):
  header = _longname("././@LongLink", 5) + b"name\0".ljust(512, b"\0")
  path = files.text(tmp_path / "a.tar", header * 5_000)
  assert "not a complete tar file" in refusal(search_tar, path, error=XmcapError)


def test_damaged_archives_are_read_or_refused_in_one_line(tmp_path):
  tar = files.tarred(tmp_path / "a.tar", *ENTRIES).read_bytes()
  methods = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
  zips = [files.zipped(tmp_path / "a.zip", dict(ENTRIES), method).read_bytes() for method in methods]
  rng = random.Random(4)
  path, outcomes = str(tmp_path / "damaged"), collections.Counter()
  for turn in range(600):
    files.text(path, mutate(tar if turn % 2 else rng.choice(zips), [tar, *zips], rng))
    try:
      entries = search_tar(path) if turn % 2 else list(archives.search_zip(path))
      read_all(archives.TAR if turn % 2 else archives.ZIP, path, entries)
      outcomes["read"] += 1
    except XmcapError as error:
      assert str(error).startswith(path) and "\n" not in str(error)
      outcomes["refused"] += 1
  assert min(outcomes.values()) > 60


def test_zip_bomb_is_read_up_to_the_limit(tmp_path, monkeypatch):
  path = str(files.zipped(tmp_path / "a.zip", {"1.jpg": bytes(1 << 20)}))
  monkeypatch.setattr(archives, "MAX_BYTES", 4096)
  assert [len(data) for data in read_all(archives.ZIP, path, archives.search_zip(path)).values()] == [4096]


def _search_zip(path):
  return list(archives.search_zip(str(path)))


def test_damaged_or_encrypted_zip_is_refused(tmp_path):
  path = files.zipped(tmp_path / "a.zip", {"1.jpg": b"picture"}, zipfile.ZIP_STORED)
  entries, whole = _search_zip(path), path.read_bytes()
  path.write_bytes(whole.replace(b"picture", b"pictuRe"))
  message = refusal(read_all, archives.ZIP, str(path), entries, error=XmcapError)
  assert "a.zip: 1.jpg: " in message and "its checksum is wrong" in message
  path.write_bytes(b"PK\x03\x04 no zip")
  assert "not a complete zip file" in refusal(_search_zip, path, error=XmcapError)
  encrypted = bytearray(whole)
  encrypted[encrypted.index(b"PK\x01\x02") + 8] |= 1
  path.write_bytes(encrypted)
  assert "its entries are encrypted: unpack it" in refusal(_search_zip, path, error=XmcapError)


def test_kind_of_refuses_missing_paths_and_other_files(tmp_path):
  page = files.text(tmp_path / "page.zip", "<html>404</html>")
  assert "neither a folder nor a .zip" in refusal(archives.kind_of, page)
  assert "No such file" in refusal(archives.kind_of, tmp_path / "absent")


@pytest.mark.parametrize(
  "path, expected",
  [
    ("a/b.JPG", ("a/b", ".jpg")),
    ("b.c", ("b.c", "")),
    ("a.jpg/b", ("a.jpg/b", "")),
    (".jpg", (".jpg", "")),
    ("a/.png", ("a/.png", "")),
    ("x.tar.json", ("x.tar", ".json")),
  ],
)
def test_split_suffix_of_archive_paths(path, expected):
  assert archives.split_suffix(path) == expected
