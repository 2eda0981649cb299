"""Hostile `scores.npz`: read as it was written, or refused in one line."""

import dataclasses
import io
import struct
import zipfile

import numpy as np
import pytest

from tests.make.command import xmcap
from tests.make.refusals import refusal
from tests.scoring import release
from xmcap.errors import UsageError
from xmcap.scoring import score_files
from xmcap.scoring.statistics import statistics_file
from xmcap.scoring.statistics.statistics_file import read_statistics, write_statistics


@pytest.fixture(scope="module")
def written(tmp_path_factory):
  folder = tmp_path_factory.mktemp("scores")
  score_files(*release.write(folder, 5), folder / "out")
  return folder / "out"


@pytest.fixture
def folder(written, tmp_path):
  """A copy that may be changed."""
  (tmp_path / "scores.npz").write_bytes((written / "scores.npz").read_bytes())
  (tmp_path / "table.json").write_bytes((written / "table.json").read_bytes())
  return tmp_path


def _refused(written, folder, message):
  for systems in ([folder, written], [written, folder]):
    pairs = [f"{name}={system}" for name, system in zip("ab", systems, strict=True)]
    xmcap("compare", *pairs, "--resamples=10").refused(message)


def _change(path, **changed):
  arrays = {**np.load(path), **{name.replace("__", "/"): values for name, values in changed.items()}}
  np.savez(path, **{name: values for name, values in arrays.items() if values is not None})


_KEYS = np.array(["a", "b", "c", "d", "e"])


@pytest.mark.parametrize(
  "changed, message",
  [
    ({"keys": np.array(["a", "a", "c", "d", "e"])}, "an image key occurs twice"),
    ({"keys": np.array(["a", "a\0", "c", "d", "e"])}, "an image key occurs twice"),
    ({"keys": np.array(["a", "b\0b", "c", "d", "e"])}, "is not a valid image key"),
    ({"keys": np.array(["a", "", "c", "d", "e"])}, "is not a valid image key"),
    ({"keys": np.array(["a", "\ud800", "c", "d", "e"])}, "is not a valid image key"),
    ({"keys": np.array([0x110000] * 5, np.uint32).view("<U1")}, "an image key is not valid Unicode"),
    ({"keys": np.array([b"a", b"b"])}, "no list of image keys"),
    ({"keys": _KEYS}, "are from different runs"),
    ({"keys": None}, "no list of image keys"),
    ({"en__images": np.array([0, 1, 2, 3, -1])}, "not indices into keys"),
    ({"en__images": np.array([0, 1, 2, 3, 5])}, "not indices into keys"),
    ({"en__images": np.array([0, 1, 2, 3, 3])}, "not indices into keys"),
    ({"en__images": np.array([0, 1, 2, 3, 4.0])}, "lacks its images"),
    ({"en__images": np.array([0, 1, 2, 3, 2**64 - 1], np.uint64)}, "not indices into keys"),
    ({"en__num_references": np.array(-1)}, "has -1 references"),
    ({"en__num_references": np.array([15])}, "lacks its images, its number of references"),
    ({"en__cider": np.full((5, 1), np.nan)}, "en/cider has an invalid score"),
    ({"en__cider": np.full((5, 1), np.inf)}, "en/cider has an invalid score"),
    ({"en__cider": np.full((5, 1), -1.0)}, "en/cider has an invalid score"),
    ({"en__cider": np.full((5, 1), 1e300)}, "en/cider has an invalid score"),
    ({"en__cider": np.zeros((5, 2))}, "inconsistent arrays"),
    ({"en__cider": np.zeros((5, 0))}, "inconsistent arrays"),
    ({"en__cider": np.zeros(5)}, "inconsistent arrays"),
    ({"en__cider": np.zeros((5, 1), np.float32)}, "inconsistent arrays"),
    ({"en__cider": np.zeros((5, 1), complex)}, "inconsistent arrays"),
    ({"en__cider": np.array([["a"]] * 5)}, "inconsistent arrays"),
    ({"en__cider": np.array([[{}]] * 5, object)}, "Python objects"),
    ({"en__cider": np.zeros((5, 1), [("x", float)])}, "not a file of scores of xmcap"),
    ({"en__bertscore": np.zeros((5, 1))}, "'en/bertscore.npy' is not a plain array of scores"),
    ({"xx__cider": np.zeros((5, 1))}, "'xx/cider.npy' is not a plain array of scores"),
    ({"..__..__x": np.zeros((5, 1))}, "is not a plain array of scores"),
  ],
)  # fmt: skip
def test_scores_npz_with_changed_arrays_is_refused(written, folder, changed, message):
  _change(folder / "scores.npz", **changed)
  _refused(written, folder, message)


def test_arrays_in_the_other_byte_order_are_the_same(written, folder):
  arrays = np.load(folder / "scores.npz")
  swapped = {
    name.replace("/", "__"): array.astype(array.dtype.newbyteorder(">")) for name, array in arrays.items()
  }
  _change(folder / "scores.npz", **swapped)
  xmcap("compare", f"a={folder}", f"b={written}", "--resamples=10").succeeded()


def _npy(header: bytes, content: bytes = b"") -> bytes:
  return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


@pytest.mark.parametrize(
  "content",
  [
    _npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1), }", bytes(40)),
    _npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (-5, -1), }", bytes(40)),
    _npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (5, 1)", bytes(40)),
    _npy(b"(" * 9000, bytes(40)),
    _npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (5, 1), }", bytes(39)),
    b"\x93NUMPY\x02\x00\xff\xff\xff\x7f",
    b"\x93NUMPY\x09\x00",
    b"no array",
    b"",
  ],
)
def test_scores_npz_with_malformed_headers_is_refused(written, folder, content):
  arrays = dict(np.load(folder / "scores.npz"))
  with zipfile.ZipFile(folder / "scores.npz", "w") as archive:
    for name, values in arrays.items():
      buffer = io.BytesIO()
      np.save(buffer, values)
      archive.writestr(f"{name}.npy", content if name == "en/cider" else buffer.getvalue())
  _refused(written, folder, "not a file of scores of xmcap (array en/cider")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_scores_npz_with_a_duplicate_array_is_refused(written, folder):
  with zipfile.ZipFile(folder / "scores.npz", "a") as archive:
    archive.writestr("en/cider.npy", archive.read("en/cider.npy"))
  _refused(written, folder, "'en/cider.npy' is not a plain array of scores, or occurs twice")


def test_scores_npz_zip_bomb_is_refused(written, folder, monkeypatch):
  monkeypatch.setattr(statistics_file, "MAX_BYTES", 2 << 20)
  with (
    zipfile.ZipFile(folder / "scores.npz", "a", zipfile.ZIP_DEFLATED) as archive,
    archive.open("de/cider.npy", "w", force_zip64=True) as member,
  ):
    member.write(bytes(3 << 20))
  _refused(written, folder, "over 2 MiB of them")


def test_scores_npz_with_too_many_arrays_is_refused(written, folder):
  with zipfile.ZipFile(folder / "scores.npz", "a") as archive:
    for number in range(10_000):
      archive.writestr(f"{number}.npy", b"")
  _refused(written, folder, f"over {statistics_file._MAX_ARRAYS:,} arrays")


def test_damaged_scores_npz_is_refused_or_unchanged(written, tmp_path):
  content = (written / "scores.npz").read_bytes()
  path = tmp_path / "scores.npz"
  for end in range(0, len(content), 97):
    path.write_bytes(content[:end])
    with pytest.raises(UsageError):
      read_statistics(path)
  for place in range(0, len(content), 13):
    path.write_bytes(content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :])
    try:
      read_statistics(path)
    except UsageError as error:
      assert "\n" not in str(error)


def test_write_statistics_refuses_keys_with_nul(written, tmp_path):
  scores = read_statistics(written / "scores.npz")
  scores["en"] = dataclasses.replace(scores["en"], keys=("a\0", *scores["en"].keys[1:]))
  assert "contains a NUL" in refusal(write_statistics, tmp_path / "x.npz", scores)
