"""XM3600 as the Hugging Face Hub mirrors it (floschne/xm3600): a Parquet file a language, with all pictures in each."""

import contextlib
import pathlib
import tarfile
from typing import Any

from xmcap.corpora.building.options import BuildInProgress
from xmcap.errors import UsageError
from xmcap.files import files
from xmcap.progress import Progress
from xmcap.reading import arrow_files, hub_folders, ids
from xmcap.reading.packed import Packed

PICTURES = "mirror.tar"
"""Tar file in the working folder with each picture once."""


def read(work: BuildInProgress, folder: pathlib.Path, with_images: bool) -> dict[str, dict[str, Any]]:
  """Returns image key -> line of the release, joined from the files of all languages.

  If `with_images`, writes the pictures into `PICTURES`, unless they are there, after a comparison of all copies.

  Raises:
    UsageError: `folder` has no file a language, lacks one of several parts, or has other bytes for a picture in another
      language.
  """
  paths = sorted(folder.glob("*.parquet"))
  if not hub_folders.of_languages(folder):
    raise UsageError(f"{folder}: contains no Parquet files, each named by its language, such as en.parquet")
  ids.check_parts(paths)
  lines: dict[str, dict[str, Any]] = {}
  progress = Progress(work.say, "captions: files of languages read", len(paths))
  with contextlib.ExitStack() as stack:
    packed = None
    if with_images and not (work.folder / PICTURES).exists():
      file = stack.enter_context(files.whole(work.folder / PICTURES))
      packed = Packed(stack.enter_context(tarfile.TarFile(fileobj=file, mode="w")), paths)
    for done, path in enumerate(paths, 1):
      for number, (_, row) in enumerate(arrow_files.rows(path, () if packed else ("image",))):
        _add(lines, row, ids.language_of_name(path) or "", f"{path.name}, row {number:,}", work, packed)
      progress(done)
  return lines


def _add(
  lines: dict[str, dict[str, Any]],
  row: dict[str, Any],
  language: str,
  where: str,
  work: BuildInProgress,
  packed: Packed | None,
) -> None:
  key = row.get("image_id")
  if not isinstance(key, str) or "captions" not in row:
    work.problems.add("missing_field", where, "image_id or captions is missing or not a string")
    return
  line = lines.setdefault(key, {"image/key": key, "image/locale": row.get("image_locale") or ""})
  if language in line:
    work.problems.add("duplicate_line", where, f"{key} has an earlier row in {language}")
    return
  line[language] = {"caption": row["captions"], "caption/tokenized": row.get("captions_tokenized")}
  image = row.get("image")
  data = image.get("bytes") if isinstance(image, dict) else image
  if packed is not None and isinstance(data, bytes):
    packed.once(key, f"{key}.jpg", data, where)
