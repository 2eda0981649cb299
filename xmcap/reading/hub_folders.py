"""Data sets of the Hugging Face Hub as they lie on a disk: downloaded into a folder, or in the cache."""

import pathlib

from xmcap.errors import UsageError
from xmcap.reading import ids


def tables(folder: pathlib.Path) -> pathlib.Path:
  """Returns the folder with the Parquet files of a data set that has one a language; any other folder as it is.

  They are in `data`, beside README.md and the like, and in the cache below `snapshots/REVISION`, as links.
  UsageError if the cache has several revisions and does not say which is `main`.
  """
  if (snapshots := folder / "snapshots").is_dir():
    revisions = sorted(entry.name for entry in snapshots.iterdir() if entry.is_dir())
    main = folder / "refs" / "main"
    chosen = main.read_text(encoding="utf-8").strip() if main.is_file() else ""
    if chosen not in revisions and len(revisions) != 1:
      raise UsageError(f"{snapshots}: contains {len(revisions)} revisions: give the folder of one")
    folder = snapshots / (chosen if chosen in revisions else revisions[0])
  inside = folder / "data"
  return inside if of_languages(inside) and not of_languages(folder) else folder


def of_languages(folder: pathlib.Path) -> bool:
  """Whether a folder has Parquet files, each named by its language, such as `th-00000-of-00001.parquet`."""
  names = [file.name for file in folder.glob("*.parquet")]
  return bool(names) and all(map(ids.language_of_name, names))
