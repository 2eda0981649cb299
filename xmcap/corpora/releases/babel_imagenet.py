"""Babel-ImageNet: builds records of the split `validation` from ImageNet's validation images, with labels.

A record has no captions and one tag, the class (n01440764). The folder also gets `tags.txt`, the classes in the order
of their indices, and copies of the labels and prompts for `ZeroShotEvaluator`.

Source: Geigle, Timofte, Glavas, "Babel-ImageNet" (ACL 2024); indices are those of the sorted wnids of ILSVRC 2012.
"""

import dataclasses
import pathlib
from collections.abc import Iterator

from xmcap.corpora.building import build, file_names, splits
from xmcap.corpora.building.image_search import ByPath, Wanted
from xmcap.corpora.building.options import BuildInProgress
from xmcap.corpora.building.splits import Split
from xmcap.corpora.releases import babel_labels
from xmcap.data import record_writer
from xmcap.errors import UsageError
from xmcap.files import files, keys
from xmcap.ranked import prompts, zero_shot
from xmcap.reading import archives
from xmcap.reading.inputs import Input

SPLIT = "validation"


@dataclasses.dataclass(frozen=True)
class BabelImagenet(build.CorpusBuild):
  """Babel-ImageNet; see `file_names.BABEL_IMAGENET` for the fields."""

  NAME = "babel_imagenet"
  DESCRIPTION = (
    "Babel-ImageNet: ImageNet's validation pictures, with names of their classes in many languages."
  )
  HOMEPAGE = "https://github.com/gregor-ge/Babel-ImageNet"
  PAGE = "docs/babel_imagenet.md"
  PARTS = file_names.BABEL_IMAGENET
  labels: pathlib.Path
  images: pathlib.Path
  prompts: pathlib.Path | None = None
  wnids: pathlib.Path | None = None
  classes: pathlib.Path | None = None

  def splits(self, work: BuildInProgress) -> Iterator[Split]:
    labels = zero_shot.read_labels(self.labels, None, work.say)
    if self.prompts is not None:
      prompts.read_prompts(self.prompts)
    images = ByPath.search(work, [self.images])
    class_of = read_classes(self.classes) if self.classes else {}
    listed = list(_wanted(images, class_of, work))
    wnids = babel_labels.read_wnids(self.wnids) if self.wnids else sorted({image.tags[0] for image in listed})
    highest = max(int(names.indices[-1]) for names in labels.values())
    if highest >= len(wnids):
      source = f"{self.wnids or self.images} has only {len(wnids)} classes"
      raise UsageError(f"{self.labels}: class {highest}, but {source}: give all of them with --wnids")
    classes = set(wnids)
    for image in listed:
      if image.tags[0] not in classes:
        reason = f"its class {image.tags[0]} is not in {self.wnids}"
        raise UsageError(f"{image.where}: {reason}: give a list that contains it")
    out = work.folder.parent
    record_writer.write_tags(out, wnids)
    for name, path in (("labels.json", self.labels), ("prompts.json", self.prompts)):
      if path is not None:
        files.write_bytes(out / name, path.read_bytes())
    work.say(f"{len(listed):,} pictures of {len(wnids):,} classes, with names in {len(labels)} languages")
    yield splits.write(work, SPLIT, listed, images)


def read_classes(path: pathlib.Path) -> dict[str, str]:
  """Reads lines with the name of an image and its class, such as `ILSVRC2012_val_00000001 n01751748`.

  They are separated by white space or a comma; the rest of the line is ignored, as in Kaggle's LOC_val_solution.csv.
  """
  classes: dict[str, str] = {}
  with Input(path) as source:
    for number, line in source.lines():
      name, wnid, *_ = [*line.replace(",", " ").split(), "", ""]
      if babel_labels.WNID.fullmatch(wnid):
        classes[archives.split_suffix(name)[0]] = wnid
      elif number > 1:  # the first may be a header
        raise UsageError(f"{path}, line {number}: not a name and a class such as n01751748")
  return classes


def _wanted(images: ByPath, class_of: dict[str, str], work: BuildInProgress) -> Iterator[Wanted]:
  """Yields the images sorted by path, with the class given by a line or by the name of their folder."""
  taken: set[str] = set()
  for number, path in sorted(images.paths(), key=lambda image: image[1]):
    place = pathlib.PurePosixPath(path)
    stem = archives.split_suffix(place.name)[0]
    wnid = class_of.get(stem) or (place.parent.name if babel_labels.WNID.fullmatch(place.parent.name) else "")
    if not wnid:
      work.problems.add("no_class", path)
      continue
    key = stem if keys.is_safe(stem) and stem not in taken else keys.hashed(stem, path)
    if key != stem:
      work.problems.add("renamed_key", path, key)
    taken.add(key)
    yield Wanted(key, path, name=str(number), tags=[wnid])
