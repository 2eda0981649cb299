"""JSON in the layout of the COCO caption evaluation: annotations hold references, results hold predictions.

Annotations are `{"images": [{"id": ...}, ...], "annotations": [{"image_id": ..., "caption": ...}, ...]}`,
results `[{"image_id": ..., "caption": ...}, ...]`; https://cocodataset.org/#format-data. Neither names a
language. An image's key is its id as text, so that the ids 7 and "7" are one image.
"""

import re
from collections.abc import Iterator
from typing import Any

from xmcap.errors import UsageError
from xmcap.scoring.inputs import Input
from xmcap.terminal import shown

_FIRST = re.compile(rb'\s*\{\s*"(info|licenses|images|annotations|categories|type)"\s*:')
_LATER = re.compile(rb'"(images|annotations)"\s*:\s*\[')


def is_annotations(head: bytes) -> bool:
  """Whether a file that begins so is an object with COCO's members, not a line of captions."""
  if _FIRST.match(head):
    return True
  return head.lstrip()[:1] == b"{" and b'"image/key"' not in head and _LATER.search(head) is not None


def is_results(head: bytes) -> bool:
  """Whether a file that begins so is a list."""
  return head.lstrip()[:1] == b"["


def read_annotations(source: Input) -> dict[str, list[str]]:
  """Returns image key -> captions, in the order of `images`; an image may have none.

  Where there is no `images`, the images are those that have captions.

  Raises:
    UsageError: broken JSON (see `Input.document`), a member is missing or of the wrong type, an id of an
      image or an annotation is given twice, or a caption belongs to none of the images.
  """
  document = source.document()
  captions: dict[str, list[str]] = {}
  for place, image in _objects(document.get("images", []), f"{source.name}, images"):
    key = _key(image, "id", place)
    if key in captions:
      raise UsageError(f"{place()}: id {shown(key)} is given twice; keep one")
    captions[key] = []
  ids: set[str] = set()
  for place, annotation in _objects(document.get("annotations"), f"{source.name}, annotations"):
    key = _key(annotation, "image_id", place)
    if "id" in annotation:
      identifier = _key(annotation, "id", place)
      if identifier in ids:
        raise UsageError(f"{place()}: id {shown(identifier)} is given twice; keep one")
      ids.add(identifier)
    if key not in captions:
      if "images" in document:
        raise UsageError(f"{place()}: image_id {shown(key)} is not among the images; add or remove it")
      captions[key] = []
    captions[key].append(_caption(annotation, place))
  return captions


def read_results(source: Input) -> Iterator[tuple[int, str, str]]:
  """Yields (position from 0, image key, caption) of a list of results.

  Raises:
    UsageError: broken JSON (see `Input.document`), or a member is missing or of the wrong type.
  """
  for position, (place, result) in enumerate(_objects(source.document(), f"{source.name}, results")):
    yield position, _key(result, "image_id", place), _caption(result, place)


class _Place:
  """Where an object stands: file, list and position from 0; worded only if something is wrong there."""

  def __init__(self, where: str):
    self.where = where
    self.position = -1

  def __call__(self) -> str:
    return f"{self.where}[{self.position}]"


def _objects(values: Any, where: str) -> Iterator[tuple[_Place, dict[str, Any]]]:
  if not isinstance(values, list):
    raise UsageError(f"{where}: must be a list of objects, as in COCO's JSON")
  place = _Place(where)
  for value in values:
    place.position += 1
    if not isinstance(value, dict):
      raise UsageError(f"{place()}: must be an object")
    yield place, value


def _key(item: dict[str, Any], member: str, place: _Place) -> str:
  value = item.get(member)
  # True is an int to Python, but no image.
  if not isinstance(value, int | str) or isinstance(value, bool) or value == "":
    raise UsageError(f"{place()}: '{member}' is missing or neither a whole number nor a text")
  return str(value)


def _caption(item: dict[str, Any], place: _Place) -> str:
  caption = item.get("caption")
  if not isinstance(caption, str):
    raise UsageError(f"{place()}: 'caption' is missing or no text")
  return caption
