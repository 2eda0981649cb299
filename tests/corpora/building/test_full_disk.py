"""A disk that is full during a build is named, wherever that happens, and the release is not blamed for it."""

import bz2
import contextlib
import errno
import gzip
import os
import resource
import signal
import subprocess
import sys
import tarfile

import pytest

from tests.corpora import release_folders as releases
from tests.corpora.building import builds
from tests.corpora.building.test_downloads import DATA, server  # noqa: F401 a fixture
from xmcap.corpora.building import downloads
from xmcap.errors import XmcapError
from xmcap.files import files
from xmcap.reading import archives

LIMITS = (0, 100, 4_000, 40_000, 50_000, 100_000)


@contextlib.contextmanager
def largest_file(size):
  """No file may grow beyond `size` bytes: a write fails in the place where it would on a full disk."""
  before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
  resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
  try:
    yield
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@contextlib.contextmanager
def full_disk(folder, size):
  """A disk of so many bytes, mounted at a folder."""
  folder.mkdir()
  if subprocess.run(
    ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True
  ).returncode:
    pytest.skip("no disk can be mounted here")
  try:
    yield folder
  finally:
    subprocess.run(["umount", "-l", str(folder)], check=True)


def coco(folder):
  """COCO-35L with its pictures in .tgz and its captions in .gz: both leave something in the working folder."""
  release = releases.write_coco35l(folder, images=8, languages=("de", "th"))
  for part in ("train_images", "val_images"):
    path = release.paths[part]
    with tarfile.open(f"{path}.tgz", "w:gz") as tar:
      tar.add(path, path.name)
    release.paths[part] = path.with_name(f"{path.name}.tgz")
  for part in ("train_captions", "dev_captions"):
    path = release.paths[part].with_suffix(".gz")
    path.write_bytes(gzip.compress(bz2.decompress(release.paths[part].read_bytes())))
    release.paths[part] = path
  return release


CORPORA = {
  "coco35l": (coco, builds.coco),
  "cc3m35l": (lambda folder: releases.write_cc3m35l(folder, images=8, languages=("de", "th")), builds.cc3m),
  "xm3600": (lambda folder: releases.write_xm3600(folder, images=8), builds.xm3600),
}


def blamed(error, out):
  """What an error says is at fault: it must be in `out`."""
  line = str(error)
  assert "cannot write " in line and str(out) in line.split("cannot write ")[1].split(": ")[0], line
  assert "\n" not in line and "download" not in line and "damaged" not in line, line
  return line


@pytest.mark.parametrize("corpus", CORPORA)
def test_full_disk_error_names_the_output_and_build_resumes(corpus, tmp_path):
  write, build = CORPORA[corpus]
  release, out = write(tmp_path / "release"), tmp_path / "out"
  said = set()
  for limit in LIMITS:
    with largest_file(limit), pytest.raises(XmcapError) as raised:
      build(release, out)
    said.add(blamed(raised.value, out))
  assert len(said) >= 3  # in as many places
  build(release, out)
  assert release.differences(out) == []


@pytest.mark.parametrize("corpus", CORPORA)
def test_build_on_a_full_disk_names_the_output(corpus, tmp_path):
  write, build = CORPORA[corpus]
  release = write(tmp_path / "release")
  for kilobytes in (4, 20, 60, 110, 200):
    with full_disk(tmp_path / str(kilobytes), kilobytes << 10) as disk, pytest.raises(XmcapError) as raised:
      build(release, disk / "out")
    assert "No space left on device" in blamed(raised.value, disk)


@pytest.mark.parametrize(
  "number, hint", [(errno.ENOSPC, "is full"), (errno.EDQUOT, "your quota"), (errno.EFBIG, "ulimit -f")]
)
def test_cannot_write_hint_depends_on_errno(number, hint):
  error = files.cannot_write("/out/a", OSError(number, os.strerror(number)))
  assert str(error).startswith(f"cannot write /out/a: {os.strerror(number)}: ") and hint in str(error)


def test_download_on_a_full_disk_names_the_output(server, tmp_path):  # noqa: F811
  with largest_file(100_000), pytest.raises(XmcapError) as raised:
    downloads.fetch(f"{server}/data.bin", tmp_path, print)
  blamed_line = str(raised.value)
  assert f"cannot write {tmp_path}/data.bin.part: File too large" in blamed_line
  downloads.fetch(f"{server}/data.bin", tmp_path, print)
  assert (tmp_path / "data.bin").read_bytes() == DATA


def test_failed_connection_is_not_reported_as_full_disk(server, tmp_path, monkeypatch):  # noqa: F811
  def fail(*arguments, **options):
    raise OSError(errno.EPROTO, "tlsv1 alert")

  monkeypatch.setattr(downloads.urllib.request, "urlopen", fail)
  with pytest.raises(XmcapError, match="cannot fetch .*tlsv1 alert; start again"):
    downloads.fetch(f"{server}/data.bin", tmp_path, print)


def test_unreadable_release_file_is_named(tmp_path, monkeypatch):
  release = releases.write_coco35l(tmp_path / "release", images=8, languages=("de",), layout="zip")

  pread = os.pread

  def fail(file, *place):
    if os.readlink(f"/proc/self/fd/{file}").endswith(".zip"):
      raise OSError(errno.EIO, os.strerror(errno.EIO))
    return pread(file, *place)

  with monkeypatch.context() as broken, pytest.raises(XmcapError) as raised:
    broken.setattr(archives.os, "pread", fail)
    builds.coco(release, tmp_path / "out", on_bad="stop")
  line = str(raised.value)
  assert "train2014.zip" in line and "Input/output error" in line and "cannot write" not in line


def test_full_standard_output_is_named(tmp_path):
  release = releases.write_xm3600(tmp_path / "release", images=4)
  builds.xm3600(release, tmp_path / "out")
  with open("/dev/full", "wb") as full:
    done = subprocess.run(
      [sys.executable, "-m", "xmcap.cli", "data", "stats", str(tmp_path / "out")],
      stdout=full,
      stderr=subprocess.PIPE,
      text=True,
    )
  assert done.returncode == 1
  last = done.stderr.splitlines()[-1]
  assert last.startswith("xmcap: error: the standard output: No space left on device")
