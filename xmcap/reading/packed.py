"""Images that tables embed, in one tar file of the working folder."""

import hashlib
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from xmcap.errors import UsageError
from xmcap.reading.lines import MAX_RATIO, most_unpacked


class Packed:
  """A tar file with the images of tables, at most so large as tables of these sizes may be when unpacked."""

  def __init__(self, archive: tarfile.TarFile, tables: Iterable[Path]):
    self._archive = archive
    self._most = most_unpacked(sum(path.stat().st_size for path in tables))
    self._of_key: dict[str, tuple[str, bytes, str]] = {}

  def add(self, name: str, data: bytes, where: str) -> None:
    """Adds an image of the row `where`; UsageError if all take far more room than the tables."""
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    self._archive.addfile(entry, io.BytesIO(data))
    if self._archive.offset > self._most:
      raise UsageError(
        f"{where}: the pictures up to here take {self._archive.offset >> 20:,} MB, more than {MAX_RATIO} times the "
        "files plus 1 GiB: give the published files"
      )

  def once(self, key: str, name: str, data: bytes, where: str) -> str:
    """Adds an image unless its key has one; returns the name of that. UsageError if it has other bytes."""
    digest = hashlib.sha256(data).digest()
    if key not in self._of_key:
      self.add(name, data, where)
    first = self._of_key.setdefault(key, (name, digest, where))
    if first[1] != digest:
      raise UsageError(
        f"{where}: the picture {key} has other bytes than in {first[2]}: give the files of one release"
      )
    return first[0]
