"""COCO-35L: MSCOCO 2014 with its English captions and machine translations into 34 languages.

Thapliyal et al., "Crossmodal-3600" (EMNLP 2022), section 3.1. `train` has Karpathy's train and restval images,
`validation` his val images, in the order of his `dataset_coco.json`; his test images are not used. The key of a record
is the COCO id of the image in twelve digits. Its captions are ordered by number, then by language as in
`xmcap.languages`. English is the human `caption_tokenized`; the other languages are `translation_tokenized`.
"""

import collections
import dataclasses
import pathlib
import zipfile
import zlib
from collections.abc import Iterator

import msgspec

from xmcap import languages
from xmcap.corpora.building import build, file_names, splits
from xmcap.corpora.building.image_search import ImageSearch, Wanted
from xmcap.corpora.building.options import BuildInProgress
from xmcap.corpora.building.spill import spill
from xmcap.corpora.building.splits import Split
from xmcap.corpora.releases import coco_ids
from xmcap.corpora.releases.translations import LEFT_OUT, CocoParser
from xmcap.errors import UsageError, one_line

_MAX_KARPATHY = 1 << 30  # limit in bytes; the published file has 0.14 GB
_BAD_ZIP = (zipfile.BadZipFile, zlib.error, EOFError)
_SPLITS = {"train": ("train", "restval"), "validation": ("val",)}


class _Image(msgspec.Struct):
  cocoid: int
  filepath: str
  filename: str
  split: str


class _Karpathy(msgspec.Struct):
  """dataset_coco.json; its sentences are not read."""

  images: list[_Image]


@dataclasses.dataclass(frozen=True)
class Coco35l(build.CorpusBuild):
  """COCO-35L; see `file_names.COCO35L` for the fields."""

  NAME = "coco_35l"
  DESCRIPTION = "MSCOCO 2014 with captions in 35 languages, 34 by machine translation; one record an image."
  LANGUAGES = languages.TRAINED
  PARTS = file_names.COCO35L
  train_captions: pathlib.Path
  dev_captions: pathlib.Path
  karpathy: pathlib.Path
  train_images: pathlib.Path
  val_images: pathlib.Path
  exclude: tuple[pathlib.Path, ...] = ()
  """Lists of ids of images to leave out of `train`."""

  def paths(self) -> dict[str, pathlib.Path | None]:
    return {**super().paths(), **{f"exclude{number}": path for number, path in enumerate(self.exclude)}}

  def splits(self, work: BuildInProgress) -> Iterator[Split]:
    images = read_karpathy(self.karpathy)
    excluded = coco_ids.read(self.exclude)
    pictures = ImageSearch.search(work, list(dict.fromkeys([self.train_images, self.val_images])))
    for name, captions in (("train", self.train_captions), ("validation", self.dev_captions)):
      parts = collections.Counter(image.split for image in images[name])
      work.say(f"{name}: Karpathy's {' and '.join(f'{part} ({n:,} pictures)' for part, n in parts.items())}")
      left_out = excluded if name == "train" else {}
      kept = [image for image in images[name] if image.cocoid not in left_out]
      positions = {image.cocoid: position for position, image in enumerate(kept)}
      without = {image.cocoid for image in images[name]} - positions.keys()
      for number, where in left_out.items():
        if number in without:
          work.problems.add("excluded", where, f"{number:012d}")
      split = splits.write(work, name, map(_wanted, kept), pictures)
      parser = CocoParser(captions.name, positions | dict.fromkeys(without, LEFT_OUT))
      spilled = spill(work, name, captions, parser)
      yield dataclasses.replace(split, lines=spilled.lines, captions=spilled)


def read_karpathy(path: pathlib.Path) -> dict[str, list[_Image]]:
  """Returns the images of each of our splits, in the order of dataset_coco.json.

  UsageError if the file is missing or malformed, or repeats an image.
  """
  try:
    images = msgspec.json.decode(_read(path), type=_Karpathy).images
  except OSError as error:
    raise UsageError(f"cannot read {path}: {error.strerror}; give Karpathy's dataset_coco.json") from None
  except (msgspec.MsgspecError, RecursionError, KeyError, ValueError, RuntimeError, *_BAD_ZIP) as error:
    raise UsageError(f"{path} is not Karpathy's dataset_coco.json ({one_line(error)})") from None
  seen: set[int] = set()
  for image in images:
    if image.cocoid in seen or not 0 <= image.cocoid < 10**12:
      raise UsageError(f"{path}: image {image.cocoid} occurs twice, or is not a valid id: give another file")
    seen.add(image.cocoid)
  splits = {split: [image for image in images if image.split in names] for split, names in _SPLITS.items()}
  for split, of_split in splits.items():
    if not of_split:
      raise UsageError(f"{path} has no images for the split {split}: give Karpathy's dataset_coco.json")
  return splits


def _read(path: pathlib.Path) -> bytes:
  """Returns the bytes of dataset_coco.json, which may be inside caption_datasets.zip."""
  if zipfile.is_zipfile(path):
    with zipfile.ZipFile(path) as archive, archive.open("dataset_coco.json") as file:
      data = file.read(_MAX_KARPATHY + 1)
  else:
    with open(path, "rb") as file:
      data = file.read(_MAX_KARPATHY + 1)
  if len(data) > _MAX_KARPATHY:
    raise ValueError(f"over {_MAX_KARPATHY >> 20} MB")
  return data


def _wanted(image: _Image) -> Wanted:
  path = f"{image.filepath}/{image.filename}"
  return Wanted(f"{image.cocoid:012d}", path, name=path)
