"""Captions as the servers of COCO and EvalAI take them: `[{"image_id": 1, "caption": "..."}, ...]`, one an image.

https://cocodataset.org/#format-results; nocaps, VizWiz and others on EvalAI take the same.
"""

import json
import os

import msgspec

from xmcap import wording
from xmcap.errors import UsageError
from xmcap.reading import failed_requests, jsonl, matching
from xmcap.reading.predictions import read_predictions
from xmcap.reading.references import References
from xmcap.terminal import shown


class _Image(msgspec.Struct):
  id: int
  file_name: str = ""


class _Images(msgspec.Struct):
  images: list[_Image]


def read(
  path: str | os.PathLike, language: str | None = None, images: str | os.PathLike = "", key: str | None = None
) -> tuple[dict[int, str], tuple[str, ...]]:
  """Returns image id -> caption in ascending order, and notes on what was recognised.

  A key is an id as a number, or as COCO names its files, such as `COCO_val2014_000000000042.jpg`.

  Args:
    path: captions, as `read_predictions` takes them.
    language: which, if there are several; the language of captions that come without one.
    images: annotations or image info of the split, `{"images": [{"id": 42, "file_name": ...}, ...]}`: one caption for
      each of its images is wanted, and keys may be names of files; "": not checked.
    key: a regular expression whose group is the id in a key.

  Raises:
    UsageError: a key is no id, two are the same one, an image has no caption or is not of the split, there are captions
      in several languages, or a file cannot be read.
  """
  references = None
  if images:
    listed = jsonl.read_document(
      images, _Images, "no list of images", "give COCO's image info or annotations"
    ).images
    references = References({str(image.id): {language or "en": ["?"]} for image in listed})
    references.names = {str(image.id): image.file_name for image in listed if image.file_name}
  try:
    predictions = read_predictions(path, None, references, key)
  except UsageError:
    if language is None:
      raise
    predictions = read_predictions(path, language, references, key)  # of captions that come without one
  total = len(predictions) + len(predictions.failed)
  failed_requests.refuse(predictions.failed, total, os.fspath(path))
  codes = sorted({code for of_image in predictions.values() for code in of_image})
  if language not in codes and (language or len(codes) > 1):
    raise UsageError(f"{path}: captions in {', '.join(codes)}: choose one of them with --language")
  captions: dict[int, str] = {}
  for name, of_image in predictions.items():
    number = matching.bare(name) if references is None else name
    if not (number.isascii() and number.isdigit()):
      raise UsageError(
        f"{path}: '{shown(name)}' is no id: give --images=FILE, which has file names, or --key=REGEX"
      )
    if int(number) in captions:
      raise UsageError(f"{path}: '{shown(name)}' is another caption of image {int(number)}: keep one")
    if (caption := of_image.get(language or codes[0])) is not None:
      captions[int(number)] = caption
  if references is not None:
    ids = set(map(int, references))
    for wrong, verb in (
      (ids - captions.keys(), "lack a caption"),
      (captions.keys() - ids, f"are not in {images}"),
    ):
      if wrong:
        few = wording.first_few([str(number) for number in sorted(wrong)])
        raise UsageError(
          f"{path}: {len(wrong):,} images {verb} ({few}): give one caption for each of its images"
        )
  return dict(sorted(captions.items())), predictions.notes


def as_json(captions: dict[int, str]) -> str:
  """Returns the file; ASCII, since some servers open it in another encoding."""
  rows = (json.dumps({"image_id": number, "caption": caption}) for number, caption in captions.items())
  return "[\n" + ",\n".join(rows) + "\n]\n"
