import json

import pytest
from etils import epath

from xmcap.training.checkpoints import checksums

FILES = {
  "_METADATA": b"names", "manifest.ocdbt": b"merged", "d/tree": b"small",
  "ocdbt.process_0/manifest.ocdbt": b"zero", "ocdbt.process_0/d/aa": b"0" * 5000,
  "ocdbt.process_1/manifest.ocdbt": b"one", "ocdbt.process_1/d/bb": b"1" * 7000,
}  # fmt: skip


HOSTILE = {
  "nested": "[" * 100_000, "an array": "[]", "a number": "7", "empty": "", "not UTF-8": "\udcff",
  "NaN": '{"a": [NaN, 1]}', "infinite": '{"a": [1e999, 1]}', "a text": '{"a": "12"}',
  "long": f'{{"a": [{"9" * 5000}, 1]}}', "outside": '{"../../../../../../../../dev/zero": [0, 0]}',
  "absolute": '{"/dev/zero": [0, 0]}',
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
  for name, content in FILES.items():
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
  return epath.Path(tmp_path)


@pytest.fixture
def summed(monkeypatch):
  """The names of the files that are read to be summed."""
  names, real = [], checksums._sum

  def noted(file):
    names.append("/".join(file.parts[-2:]))
    return real(file)

  monkeypatch.setattr(checksums, "_sum", noted)
  return names


def written(folder):
  checksums.write_share(folder, 0)
  checksums.write_share(folder, 1)
  checksums.write(folder)
  return folder


def test_each_process_sums_its_own_share_and_process_0_no_other(folder, summed):
  checksums.write_share(folder, 0)
  checksums.write_share(folder, 1)
  assert sorted(summed) == [
    "d/aa",
    "d/bb",
    "ocdbt.process_0/manifest.ocdbt",
    "ocdbt.process_1/manifest.ocdbt",
  ]
  summed.clear()
  checksums.write(folder)
  read = {name.split("/")[-1] for name in summed}
  assert read == {"_METADATA", "manifest.ocdbt", "tree", "crc32-0.json", "crc32-1.json"} and len(summed) == 5
  assert checksums.difference(folder) is None


def test_process_without_files_writes_empty_checksums(folder):
  checksums.write_share(folder, 2)
  written(folder)
  assert json.loads((folder / "crc32-2.json").read_text()) == {}
  assert checksums.difference(folder) is None


@pytest.mark.parametrize("name", [*FILES, "crc32-0.json", "crc32-1.json"])
def test_each_file_is_verified_by_one_host(folder, name):
  file = written(folder) / name
  data = file.read_bytes()
  file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
  found = [checksums.difference(folder, index, 3) for index in range(3)]
  # All need the sums themselves; a file that they are of is read by one.
  assert len([problem for problem in found if problem]) == (3 if name.startswith("crc32") else 1)
  assert all(str(file) in problem for problem in found if problem)


@pytest.mark.parametrize("name", ["ocdbt.process_1/d/bb", "crc32-1.json"])
def test_a_missing_file_is_named(folder, name):
  (written(folder) / name).unlink()
  assert checksums.difference(folder) == f"{folder / name} is missing"


def test_single_checksums_file_of_older_versions_is_read(folder):
  checksums.write(folder)
  assert set(json.loads((folder / "crc32.json").read_text())) == set(FILES)
  assert checksums.difference(folder) is None
  (folder / "ocdbt.process_1/d/bb").write_bytes(b"1" * 6999)
  assert "6,999 bytes, but had 7,000" in checksums.difference(folder)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
@pytest.mark.parametrize("name", ["crc32.json", "crc32-0.json"])
def test_malformed_checksums_file_is_damage(folder, name, text):
  # What the other sums are compared with is itself as it was written.
  (folder / name).write_bytes(text.encode(errors="surrogateescape"))
  if name != checksums.NAME:
    (folder / checksums.NAME).write_text(json.dumps({name: checksums._sum(folder / name)}))
  assert checksums.difference(folder) == f"{folder / name} is damaged"
