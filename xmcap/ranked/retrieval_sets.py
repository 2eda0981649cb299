"""The sets of images and captions that papers report retrieval on, recognised by their images."""

import dataclasses
import re
from collections.abc import Iterable, Mapping

from xmcap import digests, papers, wording
from xmcap.errors import UsageError


@dataclasses.dataclass(frozen=True)
class RetrievalSet:
  """A set of images with captions.

  Attributes:
    title: the name in papers.
    images: number and hash of the images' names, see `name_of`.
    captions: number of captions of a language; "" stands for each other language, a language without is not checked.
    table: the table of Babel-ImageNet's paper, as a file of `published`; "" if there is none.
    number: its number there.
  """

  title: str
  images: str
  captions: Mapping[str, int]
  table: str = ""
  number: str = ""


# Table 1 of Thapliyal et al. (2022).
_OF_XM3600 = {row["lang"]: int(row["num_captions"]) for row in papers.read("xm3600_table1_caption_stats")}

SETS: dict[str, RetrievalSet] = {
  "xm3600": RetrievalSet(
    "XM3600", papers.XM3600_IMAGES, _OF_XM3600, "babel_imagenet_table11_xm3600_t2i_r1", "11"
  ),
  "xflickrco": RetrievalSet(
    "xFlickrCo", "2000#4dfe66b2f6007445", {"": 2_000}, "babel_imagenet_table10_xflickrco_t2i_r1", "10"
  ),
  "xtd": RetrievalSet("XTD", "1000#c195d9abc8ead653", {"": 1_000}, "babel_imagenet_table12_xtd_t2i_r1", "12"),
  "coco_cn": RetrievalSet("COCO-CN, test", "1000#96d4f981816d13b8", {"zh": 1_053}),
}
"""Name -> set: those of Babel-ImageNet (Geigle et al., 2024) and the test set of COCO-CN (Li et al., 2019)."""

_OF_COCO = re.compile(r"COCO_(?:train|val)2014_0*([0-9]+)")


def name_of(key: str) -> str:
  """Returns the name of an image without its suffix; of one of COCO its number."""
  stem = re.sub(r"\.(jpe?g|png)$", "", key, flags=re.IGNORECASE)
  match = _OF_COCO.fullmatch(stem)
  return match[1] if match else stem


def recognise(keys: Iterable[str]) -> str:
  """Returns the name of the set with exactly these images; "" if there is none."""
  images = digests.of_images(map(name_of, keys))
  return next((name for name, test_set in SETS.items() if test_set.images == images), "")


def check(name: str, keys: Iterable[str], captions: Mapping[str, int]) -> None:
  """Checks that images and captions are those of a set.

  Args:
    name: one of `SETS`.
    keys: the images' keys.
    captions: language code -> number of captions in the file.

  Raises:
    UsageError: images are missing, are others, or a language has another number of captions.
  """
  own, keys = SETS[name], [*map(name_of, keys)]
  if digests.of_images(keys) != own.images:
    count = wording.count(int(own.images.partition("#")[0]), "picture")
    raise UsageError(
      f"--preset={name}: {own.title} has {count}; these {len(keys):,} are not the same: give its own file of captions"
    )
  for language, number in captions.items():
    expected = own.captions.get(language, own.captions.get("", number))
    if number != expected:
      raise UsageError(
        f"--preset={name}: {own.title} has {wording.count(expected, 'caption')} in '{language}', but there are "
        f"{number:,}"
      )
