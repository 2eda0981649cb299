"""Tar files."""

import io
import pathlib
import tarfile


def tar(path: pathlib.Path, *entries: tuple[str, bytes], mode="w", **options) -> pathlib.Path:
  """Writes a tar file of (name, data), in which a name may come twice; options are those of `tarfile.open`."""
  with tarfile.open(path, mode, **options) as archive:
    for name, data in entries:
      entry = tarfile.TarInfo(name)
      entry.size = len(data)
      archive.addfile(entry, io.BytesIO(data))
  return path
