"""The files of the releases, by the names that they were published under; light, as the command line reads it."""

import dataclasses
from collections.abc import Mapping, Sequence

_CAPTIONS = (".jsonl.bz2", ".jsonl.gz", ".jsonl")


@dataclasses.dataclass(frozen=True)
class Part:
  """A part of a release.

  Attributes:
    names: files or folders that it may be, the first that is there is taken.
    text: what it is.
    optional: whether a release may be without it.
  """

  names: Sequence[str]
  text: str
  optional: bool = False


def _translations(name: str) -> Part:
  return Part([f"{name}{end}" for end in _CAPTIONS], f"{name}.jsonl, or .bz2 or .gz")


COCO35L: Mapping[str, Part] = {
  "train_captions": _translations("coco_mt_train"),
  "dev_captions": _translations("coco_mt_dev"),
  "karpathy": Part(["dataset_coco.json"], "Karpathy's dataset_coco.json"),
  "train_images": Part(["train2014.zip", "train2014"], "train2014, a folder or the zip file"),
  "val_images": Part(["val2014.zip", "val2014"], "val2014, a folder or the zip file"),
}
CC3M35L: Mapping[str, Part] = {
  "train_captions": _translations("cc3m_mt_train"),
  "dev_captions": _translations("cc3m_mt_dev"),
  "train_tsv": Part(
    ["Train_GCC-training.tsv", "Train-GCC-training.tsv", "GCC-training.tsv"],
    "the training TSV (caption, address)",
  ),
  "dev_tsv": Part(
    [
      "Validation_GCC-1.1.0-Validation.tsv",
      "Validation-GCC-1.1.0-Validation.tsv",
      "GCC-1.1.0-Validation.tsv",
    ],
    "the validation TSV",
  ),
  "train_images": Part(["train_images"], "training pictures: what img2dataset left, or a folder or archive"),
  "dev_images": Part(["dev_images"], "validation pictures"),
  "train_keys": Part(
    ["train_keys.tsv"], "for pictures under names of their own: rec_num or address, tab, file", optional=True
  ),
  "dev_keys": Part(["dev_keys.tsv"], "the same for validation", optional=True),
}
XM3600: Mapping[str, Part] = {
  "captions": Part(["captions.zip", "captions.jsonl"], "captions.zip or captions.jsonl"),
  "images": Part(["images.tgz", "images"], "images.tgz, or the folder"),
}
