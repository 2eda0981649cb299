"""Layouts of caption files: XM3600's release, plain JSONL, and COCO's annotations and results.

Release: one line per image with `image/key`, `image/locale` (optional) and, for each language code, an object with the
list `caption`, and the list `caption/tokenized` with the same captions split into words by the release.
Plain: one line per caption, `{"image/key": ..., "language": ..., "caption": ...}`.
COCO: annotations are `{"images": [{"id": ...}, ...], "annotations": [{"image_id": ..., "caption": ...}, ...]}`, results
`[{"image_id": ..., "caption": ...}, ...]` (https://cocodataset.org/#format-data). Neither names a language. The key of
an image is its id as a string, so the ids 7 and "7" are the same image.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.reading.inputs import Input
from xmcap.terminal import shown

Report = Callable[[str, str, str], object]
"""Called with kind, place and message of a problem in a line; if it returns, that part of the line is skipped."""

_FIRST = re.compile(rb'\s*\{\s*"(info|licenses|images|annotations|categories|type)"\s*:')
_LATER = re.compile(rb'"(images|annotations)"\s*:\s*\[')


def is_annotations(head: bytes) -> bool:
  """Whether the first bytes of a file show COCO annotations rather than a line of captions."""
  if _FIRST.match(head):
    return True
  return head.lstrip()[:1] == b"{" and b'"image/key"' not in head and _LATER.search(head) is not None


def is_results(head: bytes) -> bool:
  """Whether the first bytes of a file show a JSON list."""
  return head.lstrip()[:1] == b"["


def refuse(kind: str, where: str, problem: str) -> NoReturn:
  """The strict `Report`: raises a UsageError."""
  del kind
  raise UsageError(f"{where}: {problem}")


def text(row: dict[str, Any], member: str, where: str, hint: str = "") -> str:
  """Returns a field that must be a string; UsageError if it is not."""
  value = row.get(member)
  if not isinstance(value, str):
    raise UsageError(f"{where}: '{member}' is missing or not a string{hint}")
  return value


def texts(value: Any) -> list[str] | None:
  """Returns `value` if it is a list of strings, else None."""
  return value if isinstance(value, list) and set(map(type, value)) <= {str} else None


def released(
  row: dict[str, Any], where: str, report: Report = refuse
) -> Iterator[tuple[str, list[str], Any]]:
  """Yields (language, captions, unchecked `caption/tokenized`) of a line of the release."""
  for name, value in row.items():
    if name.startswith("image/"):
      continue
    if not languages.is_known(name):
      report("unknown_language", where, files.unknown_language(name))
      continue
    captions = texts(value.get("caption")) if isinstance(value, dict) else None
    if captions is None:
      report("missing_field", where, f"'{name}' must be an object whose 'caption' is a list of strings")
      continue
    yield name, captions, value.get("caption/tokenized")


def annotations(source: Input) -> tuple[dict[str, list[str]], int]:
  """Returns image key -> captions, in the order of `images`, or of the annotations if there is no `images`.

  Also returns the number of annotations that repeat the `id` of an earlier one, as in some published files; they are
  not rejected. UsageError if a field is missing or has the wrong type, an image occurs twice, or the image of a caption
  is unknown.
  """
  document = source.document()
  captions: dict[str, list[str]] = {}
  for where, image in _objects(document.get("images", []), f"{source.name}, images"):
    key = _id(image, "id", where)
    if key in captions:
      raise UsageError(f"{where}: id {shown(key)} occurs twice; keep one")
    captions[key] = []
  ids: list[str] = []
  for where, annotation in _objects(document.get("annotations"), f"{source.name}, annotations"):
    key = _id(annotation, "image_id", where)
    if "id" in annotation:
      ids.append(repr(annotation["id"]))
    if key not in captions and "images" in document:
      raise UsageError(f"{where}: image_id {shown(key)} is not among the images; add or remove it")
    captions.setdefault(key, []).append(text(annotation, "caption", where))
  return captions, len(ids) - len(set(ids))


def results(source: Input) -> Iterator[tuple[int, str, str]]:
  """Yields (index from 0, image key, caption) of a list of results; UsageError as `annotations`."""
  for position, (where, result) in enumerate(_objects(source.document(), f"{source.name}, results")):
    yield position, _id(result, "image_id", where), text(result, "caption", where)


def _objects(values: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
  if not isinstance(values, list):
    raise UsageError(f"{where}: must be a list of objects, as in COCO's JSON")
  for position, value in enumerate(values):
    if not isinstance(value, dict):
      raise UsageError(f"{where}[{position}]: must be an object")
    yield f"{where}[{position}]", value


def _id(item: dict[str, Any], member: str, where: str) -> str:
  value = item.get(member)
  # In Python True is an int, but it is not a valid id.
  if not isinstance(value, int | str) or isinstance(value, bool) or value == "":
    raise UsageError(f"{where}: '{member}' is missing or neither an integer nor a string")
  return str(value)
