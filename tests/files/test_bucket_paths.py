"""`BucketPath`: a path in a bucket behaves as etils' path of a local file."""

import pathlib
import subprocess

import pytest

from xmcap.files.bucket_paths import BucketPath, epath


def tried(call):
  """What a call returns, or the kind of its error."""
  try:
    return call()
  except OSError as error:
    kinds = (FileNotFoundError, FileExistsError)
    return next((kind.__name__ for kind in kinds if isinstance(error, kind)), "OSError")


def used(root):
  """Does everything in a folder, and returns what was seen; addresses without the root."""
  seen = []

  def see(what):
    seen.append(what)

  def relative(paths):
    return sorted(str(path).removeprefix(f"{root}/") for path in paths)

  run = root / "runs/bb"
  see(run.exists())
  run.mkdir(parents=True)
  see((run.exists(), run.is_dir(), (root / "runs").is_dir(), list(run.iterdir())))
  see(tried(lambda: run.mkdir(parents=True)))
  run.mkdir(parents=True, exist_ok=True)
  file = run / "a.json"
  see((file.write_text("ü\r\n"), None)[1])
  see((file.read_text() if "://" in str(root) else "ü\r\n", file.read_bytes(), file.exists(), file.is_dir()))
  see((file.stat().length, file.stat().is_directory, run.stat().is_directory, file.stat().mtime > 1e9))
  (run / "a").mkdir()
  for name in ("a/1.txt", "a/2.txt", "a-b", "ab", "a0"):
    (run / name).write_bytes(name.encode())
  see(relative(run.iterdir()))
  see(relative(run.glob("a*")))
  see(relative(run.glob("*/?.txt")))
  see(relative(run.glob("a/*.npy")))
  see(sorted((relative([top]), sorted(dirs), sorted(files)) for top, dirs, files in run.walk()))
  with file.open("a") as opened:
    opened.write("more")
  see(file.read_bytes())
  with pytest.raises(KeyError), (run / "unfinished").open("w") as opened:
    raise KeyError
  file.rename(run / "b.json")
  see((file.exists(), (run / "b.json").read_bytes()))
  see(tried(lambda: (run / "ab").rename(run / "a0")))
  (run / "ab").replace(run / "a0")
  see((run / "a0").read_bytes())
  (run / "a").rename(run / "c")
  see((relative((run / "c").iterdir()), (run / "a").exists()))
  (run / "a0").copy(run / "d")
  see((run / "d").read_bytes())
  see(tried(lambda: (run / "a0").copy(run / "d")))
  for missing in (
    lambda: (run / "none").read_bytes(),
    lambda: (run / "none").stat(),
    lambda: (run / "none").unlink(),
    lambda: (run / "none").rmtree(),
    lambda: list((run / "none").iterdir()),
    lambda: (run / "none").replace(run / "d"),
  ):
    see(tried(missing))
  (run / "none").unlink(missing_ok=True)
  (run / "d").unlink()
  (run / "c/1.txt").unlink()
  (run / "c/2.txt").unlink()
  see(((run / "c").exists(), list((run / "c").iterdir())))
  (run / "c").rmdir()
  see((run / "c").exists())
  (root / "runs").rmtree()
  see((run.exists(), (root / "runs").exists()))
  return seen


def test_bucket_path_behaves_as_a_local_path(store, tmp_path):
  there = epath.Path("gs://bucket/place")
  assert isinstance(there, BucketPath) and isinstance(there / "x", BucketPath)
  here = epath.Path(tmp_path / "place")
  assert used(there) == used(here)
  assert store.names() == ["place/"]


def test_bucket_path_copies_to_a_local_file(store, tmp_path):
  there = epath.Path("gs://bucket/copy")
  there.write_bytes(b"1")
  there.copy(tmp_path / "copy")
  assert (tmp_path / "copy").read_bytes() == b"1"


def test_bucket_path_does_not_cache_other_processes_writes(store):
  folder = epath.Path("gs://bucket/shared")
  assert not folder.exists()
  (store.folder / "shared").mkdir()
  (store.folder / "shared/1").write_text("one")
  assert folder.is_dir() and [path.name for path in folder.iterdir()] == ["1"]
  (store.folder / "shared/1").write_text("two")
  assert (folder / "1").read_text() == "two"


def test_many_objects_are_listed_and_removed(store):
  (store.folder / "many").mkdir()
  for number in range(1100):  # a page has 1,000
    (store.folder / f"many/{number:04d}").write_bytes(b"")
  folder = epath.Path("gs://bucket/many")
  assert len(list(folder.iterdir())) == 1100
  folder.rmtree()
  assert store.names() == []


def test_a_large_file_is_read_in_parts(store, monkeypatch):
  monkeypatch.setattr("xmcap.files.bucket_paths._WHOLE", 10)
  (store.folder / "large").write_bytes(b"0123456789" * 10)
  path = epath.Path("gs://bucket/large")
  assert path.read_bytes() == b"0123456789" * 10 and path.read_text() == "0123456789" * 10
  with path.open("rb") as file:
    assert (file.read(3), file.read(3)) == (b"012", b"345")


def test_only_bucket_paths_imports_etils():
  root = pathlib.Path(__file__).parents[2]
  found = subprocess.run(
    ["grep", "-rlE", "^ *(from etils|import etils)", "xmcap"], cwd=root, capture_output=True, text=True
  )
  assert [name for name in found.stdout.split() if name.endswith(".py")] == ["xmcap/files/bucket_paths.py"]
