"""XM3600: builds records of the split `test` from 3,600 images with human captions in 36 languages.

The inputs are the published files (Thapliyal et al. 2022): `captions.zip` or its `captions.jsonl`, and `images.tgz` or
a folder of its images. A record has `image/locale`, and its captions are in the order of the line, with the release's
tokens. Other releases in this layout, such as emoji36's, can be built too. Captions and images may also be the folder
of the Hugging Face Hub's mirror (floschne/xm3600): a Parquet file a language, with all images in each.

The layout of a line is described in `xmcap.reading.layouts`. Here an unusable line, language or caption counts
as a problem, and only that part is skipped. `caption/tokenized/lowercase` is ignored, as it can be derived.
"""

import contextlib
import dataclasses
import pathlib
import re
import tarfile
from collections.abc import Iterator
from typing import Any

from xmcap.corpora.building import build, file_names, line_check, splits
from xmcap.corpora.building.image_search import ImageSearch, Wanted
from xmcap.corpora.building.options import BuildInProgress
from xmcap.corpora.building.problems import Problems
from xmcap.corpora.building.splits import Split
from xmcap.data.records import Caption
from xmcap.errors import UsageError, XmcapError
from xmcap.files import files
from xmcap.progress import Progress
from xmcap.reading import arrow_files, hub_folders, ids, layouts
from xmcap.reading.inputs import Input
from xmcap.reading.packed import Packed

SPLIT = "test"
_PICTURES = "mirror.tar"  # in the working folder, with each image of the mirror once
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


@dataclasses.dataclass(frozen=True)
class Xm3600(build.CorpusBuild):
  """XM3600; see `file_names.XM3600` for the fields."""

  NAME = "xm3600"
  DESCRIPTION = "XM3600: 3,600 pictures with captions by people in 36 languages."
  PARTS = file_names.XM3600
  captions: pathlib.Path
  images: pathlib.Path

  def splits(self, work: BuildInProgress) -> Iterator[Split]:
    if self.captions.is_dir():
      split = self._of_mirror(work)
    else:
      images = ImageSearch.search(work, [self.images])
      with Input(self.captions) as source:
        lines = read_pictures(source, self.captions.name, work.problems)
        split = splits.write(work, SPLIT, lines, images)
      split = dataclasses.replace(split, lines=source.num_lines)
    if not split.count:
      seen = f" ({', '.join(work.problems.counts)})" if work.problems.counts else ""
      raise XmcapError(f"{self.captions}: none of its lines can be used{seen}: give the published file")
    work.say(f"{self.captions.name}: {split.count:,} images with captions")
    keys = {image.key for shard in range(split.shards) for image in split.wanted(shard)}
    for name in dict.fromkeys(split.pictures.names()):  # a folder may contain all of Open Images
      if name not in keys:
        work.problems.add("no_captions", name, "no line of captions names it")
    yield split

  def _of_mirror(self, work: BuildInProgress) -> Split:
    is_whole = self.images == self.captions
    lines = _read_mirror(work, hub_folders.tables(self.captions), is_whole)
    images = ImageSearch.search(work, [work.folder / _PICTURES if is_whole else self.images])
    listed = (parse_row(line, f"image {key}", work.problems) for key, line in lines.items())
    return splits.write(work, SPLIT, filter(None, listed), images, len(lines))


def _read_mirror(work: BuildInProgress, folder: pathlib.Path, with_images: bool) -> dict[str, dict[str, Any]]:
  """Returns image key -> line of the release, joined from the files of all languages.

  If `with_images`, writes the images into `_PICTURES`, unless they are there, after a comparison of all copies.

  Raises:
    UsageError: `folder` has no file a language, lacks one of several parts, or has other bytes for an image in another
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
    if with_images and not (work.folder / _PICTURES).exists():
      file = stack.enter_context(files.whole(work.folder / _PICTURES))
      archive = stack.enter_context(tarfile.TarFile(fileobj=file, mode="w"))
      packed = stack.enter_context(contextlib.closing(Packed(archive, paths)))
    for done, path in enumerate(paths, 1):
      for number, (_, row) in enumerate(arrow_files.rows(path, () if packed else ("image",))):
        _add_row(lines, row, ids.language_of_name(path) or "", f"{path.name}, row {number:,}", work, packed)
      progress(done)
  return lines


def _add_row(
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


def read_pictures(source: Input, name: str, problems: Problems) -> Iterator[Wanted]:
  """Yields the images in the lines of the file `name`, with their captions; of lines with the same key, the first.

  UsageError if the file cannot be read completely, or if a line is too long.
  """
  lines: dict[str, int] = {}
  for number, where, line in line_check.filled(source.raw_lines(), name, problems):
    image = parse_line(line, where, problems)
    if image is None:
      continue
    if image.key in lines:
      problems.add("duplicate_line", where, f"{image.key} is already on line {lines[image.key]:,}")
      continue
    lines[image.key] = number
    yield image


def parse_line(line: bytes, where: str, problems: Problems) -> Wanted | None:
  """Parses a line; None if it is unusable, which counts as a problem."""
  row = line_check.parse_object(line, where, problems)
  return None if row is None else parse_row(row, where, problems)


def parse_row(row: dict[str, Any], where: str, problems: Problems) -> Wanted | None:
  """Parses the object of a line; None if it is unusable, which counts as a problem."""
  key, locale = row.get("image/key"), row.get("image/locale", "")
  if not isinstance(key, str) or not isinstance(locale, str):
    problems.add("missing_field", where, "image/key or image/locale is missing or not a string")
    return None
  if not _KEY.fullmatch(key):
    problems.add("unknown_id", where, f"image/key {key[:40]!a} is not a valid picture name")
    return None
  return Wanted(key, "", name=key, locale=locale, captions=list(captions_of(row, where, problems)))


def captions_of(row: dict, where: str, problems: Problems) -> Iterator[Caption]:
  """Yields the usable captions of a line."""
  for language, texts, raw in layouts.released(row, where, problems.add):
    tokenized = layouts.texts(raw)
    if raw is not None and (tokenized is None or len(tokenized) != len(texts)):
      detail = f"'{language}': caption/tokenized lacks an entry for each caption; not used"
      problems.add("missing_field", where, detail)
      tokenized = None
    for text, tokens in zip(texts, tokenized or [""] * len(texts), strict=True):
      if text := line_check.usable(text, f"{where}, '{language}'", problems):
        tokens = line_check.usable(tokens, where, Problems()) if tokens else ""
        yield Caption(language, text, tokens, "human")
