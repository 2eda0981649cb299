"""COCO-35L: MSCOCO 2014 with its captions in English and, machine translated, in 34 more languages.

Thapliyal et al., "Crossmodal-3600" (EMNLP 2022), section 4. `train` holds Karpathy's train and restval images,
`validation` his val images, in the order of his `dataset_coco.json`; his test images are not used. A record's key is
the image's COCO id in twelve digits; its captions are in the order of their numbers, and of each number in the order
of `xmcap.languages`. English is `caption_tokenized`, by people; the others are `translation_tokenized`.
"""

import os
import pathlib
from collections.abc import Iterator

import msgspec

from xmcap.data.corpora import build
from xmcap.data.corpora.listing import Wanted
from xmcap.data.corpora.pictures import open_pictures
from xmcap.data.corpora.releases import translated
from xmcap.data.corpora.releases.translations import CocoIds
from xmcap.errors import UsageError, one_line
from xmcap.terminal import shown

NAME = "coco_35l"
VERSION = "1.0.0"
DESCRIPTION = (
  "MSCOCO 2014 with captions in 35 languages, 34 of them by machine translation; one record an image."
)
_MAX_KARPATHY = 1 << 30  # bytes; the published file has 0.14 GB
_SPLITS = {"train": ("train", "restval"), "validation": ("val",)}


class _Image(msgspec.Struct):
  cocoid: int
  filepath: str
  filename: str
  split: str


class _Karpathy(msgspec.Struct):
  """dataset_coco.json; its sentences are not read."""

  images: list[_Image]


def corpus(
  *,
  train_captions: str | os.PathLike,
  dev_captions: str | os.PathLike,
  karpathy: str | os.PathLike,
  train_images: str | os.PathLike,
  val_images: str | os.PathLike,
) -> build.Corpus:
  """The corpus, for `build.build`.

  Args:
    train_captions, dev_captions: coco_mt_train.jsonl and coco_mt_dev.jsonl, or .bz2 or .gz.
    karpathy: dataset_coco.json.
    train_images, val_images: train2014 and val2014, each a folder or a zip file; or one folder that holds both.
  """
  captions = {"train": pathlib.Path(train_captions), "validation": pathlib.Path(dev_captions)}
  karpathy = pathlib.Path(karpathy)
  images = list(dict.fromkeys(map(pathlib.Path, (train_images, val_images))))
  inputs = {"train_captions": captions["train"], "dev_captions": captions["validation"], "karpathy": karpathy}
  inputs |= {f"images_{number}": place for number, place in enumerate(images, 1)}

  def splits(work: build.Work) -> Iterator[build.Split]:
    listed = read_karpathy(karpathy)
    pictures = open_pictures(images, work.folder / "pictures", problems=work.problems, say=work.say)
    for name in _SPLITS:
      wanted = [
        Wanted(f"{image.cocoid:012d}", path, path)
        for image in listed[name]
        for path in [f"{image.filepath}/{image.filename}"]
      ]
      yield translated.read_split(
        work,
        name,
        captions[name],
        translated.write_listing(work, name, wanted),
        CocoIds({image.cocoid: place for place, image in enumerate(listed[name])}),
        images,
        pictures,
      )

  return build.Corpus(NAME, VERSION, DESCRIPTION, inputs, lambda work: list(splits(work)))


def read_karpathy(path: pathlib.Path) -> dict[str, list[_Image]]:
  """The images of each of our splits in the order of dataset_coco.json.

  Raises:
    UsageError: the file is absent or is something else, or names an image twice or a file outside its folder.
  """
  try:
    if path.stat().st_size > _MAX_KARPATHY:
      raise UsageError(f"{path}: over {_MAX_KARPATHY >> 20} MB: give dataset_coco.json as it was published")
    images = msgspec.json.decode(path.read_bytes(), type=_Karpathy).images
  except OSError as error:
    raise UsageError(f"cannot read {path}: {error.strerror}; give Karpathy's dataset_coco.json") from None
  except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
    raise UsageError(f"{path} is not Karpathy's dataset_coco.json ({one_line(error)})") from None
  seen: set[int] = set()
  for image in images:
    if image.cocoid in seen or not 0 <= image.cocoid < 10**12:
      raise UsageError(
        f"{path}: image {image.cocoid} is named twice, or no id: give the file as it was published"
      )
    seen.add(image.cocoid)
    if any(char in image.filename + image.filepath for char in "\t\n\r\\") or "/" in image.filename:
      raise UsageError(
        f"{path}: image {image.cocoid} has the file name '{shown(image.filename)}', which is none"
      )
  splits = {split: [image for image in images if image.split in names] for split, names in _SPLITS.items()}
  for split, found in splits.items():
    if not found:
      raise UsageError(f"{path} has no images for the split {split}: give Karpathy's dataset_coco.json")
  return splits
