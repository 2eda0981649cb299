"""Zip and tar files of generated releases, and what img2dataset leaves, with entries that no archive should have."""

import json
import pathlib
import tarfile
import zipfile
from collections.abc import Mapping, Sequence

from tests.corpora import release_lines, release_pictures
from tests.make.files import tarred

ARCHIVE_FAULTS = ("unsafe_path", "duplicate_picture")
"""Entries of zip and tar files: two that climb out of the folder; one picture twice."""


def write_zip(path: pathlib.Path, files: Mapping[str, bytes], faults: Sequence[str]) -> dict[str, int]:
  """Writes entries (name -> bytes) as they are, as train2014.zip has them; returns the problems of `faults`."""
  with zipfile.ZipFile(path, "w") as archive:
    archive.writestr(f"{path.stem}/", b"")
    for name, data in files.items():
      archive.writestr(name, data)
    for name in _unsafe(path.stem) if "unsafe_path" in faults else ():
      archive.writestr(name, release_pictures.photo(999_999))
    if "duplicate_picture" in faults:
      name = next(iter(files))
      archive.NameToInfo.pop(name)  # or zipfile warns
      archive.writestr(name, release_pictures.photo(999_998))
  return _archive_problems(faults)


def write_tar(
  path: pathlib.Path, files: Mapping[str, bytes], faults: Sequence[str] = (), mode: str = "w"
) -> dict[str, int]:
  """Writes entries (name -> bytes); `mode` as of tarfile ("w:gz" for a .tgz); returns the problems of `faults`."""
  entries = [*files.items()]
  if "unsafe_path" in faults:
    entries += [(name, release_pictures.photo(999_999)) for name in _unsafe("images")]
  if "duplicate_picture" in faults:
    entries.append((next(name for name in files if name.endswith(".jpg")), release_pictures.photo(999_998)))
  tarred(path, *entries, mode=mode, format=tarfile.GNU_FORMAT)
  return _archive_problems(faults)


def _unsafe(folder: str) -> tuple[str, str]:
  return f"{folder}/../../outside.jpg", "/tmp/xmcap_outside.jpg"


def _archive_problems(faults: Sequence[str]) -> dict[str, int]:
  return {
    "unsafe_path": 2 * ("unsafe_path" in faults),
    "duplicate_picture": int("duplicate_picture" in faults),
  }


def write_files(folder: pathlib.Path, files: Mapping[str, bytes]) -> None:
  """Writes files (path in the folder -> bytes)."""
  folder.mkdir(parents=True, exist_ok=True)
  for name, data in files.items():
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def write_img2dataset(
  folder: pathlib.Path,
  layout: str,
  pictures: release_pictures.Pictures,
  indices: Sequence[int],
  urls: Sequence[str],
  in_shard: int,
  faults: Sequence[str],
) -> dict[str, int]:
  """Writes what img2dataset leaves; returns the problems of `faults`, which are put into the first archive.

  A key is five digits of the shard and the place in it, from 0; what was not fetched has no files, as a rule.
  """
  folder.mkdir(exist_ok=True)
  digits = len(str(in_shard - 1))
  problems: dict[str, int] = {}
  for shard in range(-(-len(indices) // in_shard)):
    files: dict[str, bytes] = {}
    for place in range(shard * in_shard, min((shard + 1) * in_shard, len(indices))):
      data = pictures.published[place]
      key = f"{shard:05d}{place % in_shard:0{digits}d}"
      if data is None and pictures.unfetched.get(place) != "dead_url_noted":
        continue
      text = release_lines.english(indices[place], 1)
      about = {
        "caption": text,
        "url": urls[place],
        "key": key,
        "status": "failed_to_download" if data is None else "success",
        "error_message": "HTTP Error 404: Not Found" if data is None else None,
        "width": None if data is None else 64,
        "height": None if data is None else 64,
      }
      if data is not None:
        files[f"{key}.jpg"] = data
        files[f"{key}.txt"] = text.encode()
      files[f"{key}.json"] = json.dumps(about, indent=4).encode()
    if layout == "webdataset":
      found = write_tar(folder / f"{shard:05d}.tar", files, faults if shard == 0 else ())
      problems = problems or found
    else:
      write_files(folder / f"{shard:05d}", files)
    (folder / f"{shard:05d}_stats.json").write_text(
      json.dumps({"count": in_shard, "successes": len(files) // 3})
    )
  return problems
