"""Names and URLs of the published files of the releases.

The URLs are from the project page of Crossmodal-3600 (captions, images and translations), MSCOCO's download page, and
Karpathy's page of "Deep visual-semantic alignments". The command line imports this module, so it must stay light.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

from xmcap.errors import UsageError

_CROSSMODAL = "https://storage.googleapis.com/crossmodal-3600"


@dataclasses.dataclass(frozen=True)
class ReleasePart:
  """A part of a release.

  Attributes:
    names: possible names of the file or folder; the first that exists is used.
    text: description.
    optional: whether a release may lack it.
    url: the public URL, if it has one; it ends in one of the names.
  """

  names: Sequence[str]
  text: str
  optional: bool = False
  url: str = ""

  def find(self, folder: pathlib.Path) -> pathlib.Path | None:
    """Returns the part in a folder; None if it does not exist."""
    return next((folder / name for name in self.names if (folder / name).exists()), None)


def find(folder: pathlib.Path, parts: Mapping[str, ReleasePart]) -> dict[str, pathlib.Path]:
  """Returns the parts of a release in a folder; UsageError names a missing one."""
  paths = {}
  for role, part in parts.items():
    path = part.find(folder)
    if path is not None:
      paths[role] = path
    elif not part.optional:
      names = " or ".join(part.names)
      raise UsageError(f"{folder} has no {names}: put the release there, or give its --manual_dir")
  return paths


def _translations(name: str, optional: bool = False) -> ReleasePart:
  names = [f"{name}{end}" for end in (".jsonl.bz2", ".jsonl.gz", ".jsonl")]
  return ReleasePart(names, f"{name}.jsonl, or .bz2 or .gz", optional, url=f"{_CROSSMODAL}/{names[0]}")


def _coco_images(name: str) -> ReleasePart:
  url = f"http://images.cocodataset.org/zips/{name}.zip"
  return ReleasePart([f"{name}.zip", name], f"{name}, a folder or the zip file", url=url)


def _tsv(split: str, name: str, text: str, optional: bool = False) -> ReleasePart:
  return ReleasePart([f"{split}_{name}", f"{split}-{name}", name], text, optional)


COCO35L: Mapping[str, ReleasePart] = {
  "train_captions": _translations("coco_mt_train"),
  "dev_captions": _translations("coco_mt_dev"),
  "karpathy": ReleasePart(
    ["dataset_coco.json", "caption_datasets.zip"],
    "Karpathy's dataset_coco.json, or caption_datasets.zip, which contains it",
    url="http://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip",
  ),
  "train_images": _coco_images("train2014"),
  "val_images": _coco_images("val2014"),
}
CC3M35L: Mapping[str, ReleasePart] = {
  "train_captions": _translations("cc3m_mt_train"),
  "dev_captions": _translations("cc3m_mt_dev", optional=True),
  "train_tsv": _tsv("Train", "GCC-training.tsv", "the training TSV (caption, URL)"),
  "dev_tsv": _tsv("Validation", "GCC-1.1.0-Validation.tsv", "the validation TSV", optional=True),
  "train_images": ReleasePart(
    ["train_images"], "training pictures: img2dataset's output, or a folder or archive"
  ),
  "dev_images": ReleasePart(["dev_images"], "validation pictures", optional=True),
  "train_keys": ReleasePart(
    ["train_keys.tsv"], "for pictures with other file names: rec_num or URL, tab, file", optional=True
  ),
  "dev_keys": ReleasePart(["dev_keys.tsv"], "the same for validation", optional=True),
}
XM3600: Mapping[str, ReleasePart] = {
  "captions": ReleasePart(
    ["captions.zip", "captions.jsonl"],
    "captions.zip or captions.jsonl",
    url="https://google.github.io/crossmodal-3600/web-data/captions.zip",
  ),
  "images": ReleasePart(
    ["images.tgz", "images"],
    "images.tgz, or the folder",
    url="https://open-images-dataset.s3.amazonaws.com/crossmodal-3600/images.tgz",
  ),
}
BABEL_IMAGENET: Mapping[str, ReleasePart] = {
  "labels": ReleasePart(
    ["babel_imagenet-298.json", "babel_imagenet.json"], 'labels, {"DE": [[index, ...], [label, ...]]}'
  ),
  "images": ReleasePart(
    ["val", "images", "ILSVRC2012_img_val.tar"],
    "pictures, a folder or archive with one folder per class (n01440764/)",
  ),
  "prompts": ReleasePart(
    ["nllb_dist13b_prompts.json"], 'prompts, {"DE": ["ein Bild von {}", ...]}', optional=True
  ),
  "wnids": ReleasePart(
    ["wnids.txt"],
    "the classes in the order of their indices, one per line; default: the folders, by name",
    optional=True,
  ),
  "classes": ReleasePart(
    ["classes.txt", "LOC_val_solution.csv"],
    "for pictures in one folder: lines of file name and class",
    optional=True,
  ),
}
FOLDER: Mapping[str, ReleasePart] = {
  "captions": ReleasePart(
    [],
    ".jsonl, .csv, .tsv, .txt, .json (also compressed), .xlsx, .tar, .parquet, .arrow, or a folder or several of them",
  ),
  "images": ReleasePart(
    [], "folder or archive of the pictures; default: beside the captions, or embedded", optional=True
  ),
}
ELSEWHERE = {
  "babel_imagenet": "the labels are in data/ of github.com/gregor-ge/Babel-ImageNet (BabelNet's, non-commercial), the "
  "pictures at https://image-net.org",
  "cc3m35l": "the TSVs of CC3M have no public URL: request them at "
  "https://ai.google.com/research/ConceptualCaptions/download, and fetch the pictures with img2dataset",
}
"""Where to get parts without a public URL."""
