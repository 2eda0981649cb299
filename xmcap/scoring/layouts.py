"""The layouts of files of captions: XM3600's release, plain JSONL, and COCO's annotations and results.

Release: a line an image; `image/key`, `image/locale` (may be missing) and, for each language code, an object whose list
`caption` holds the captions, and `caption/tokenized` the same split into words by the release.
Plain: a line `{"image/key": ..., "language": ..., "caption": ...}`.
COCO: annotations are `{"images": [{"id": ...}, ...], "annotations": [{"image_id": ..., "caption": ...}, ...]}`, results
`[{"image_id": ..., "caption": ...}, ...]` (https://cocodataset.org/#format-data). Neither names a language. The key of
an image is its id as text, so that the ids 7 and "7" are one image.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.inputs import Input
from xmcap.terminal import shown

Report = Callable[[str, str, str], object]
"""Called with kind, place and message of a problem with a part of a line; if it returns, that part is left out."""

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


def refuse(kind: str, where: str, problem: str) -> NoReturn:
  """The strict `Report`: raises a UsageError."""
  del kind
  raise UsageError(f"{where}: {problem}")


def text(row: dict[str, Any], member: str, where: str, hint: str = "") -> str:
  """Returns a member that must be a text; UsageError if it is none."""
  value = row.get(member)
  if not isinstance(value, str):
    raise UsageError(f"{where}: '{member}' is missing or no text{hint}")
  return value


def texts(value: Any) -> list[str] | None:
  """Returns a list of texts as it is, and None for anything else."""
  return value if isinstance(value, list) and set(map(type, value)) <= {str} else None


def released(
  row: dict[str, Any], where: str, report: Report = refuse
) -> Iterator[tuple[str, list[str], Any]]:
  """Yields (language, captions, `caption/tokenized` as it stands) of a line of the release."""
  for name, value in row.items():
    if name.startswith("image/"):
      continue
    if not languages.is_known(name):
      report("unknown_language", where, files.unknown_language(name))
      continue
    captions = texts(value.get("caption")) if isinstance(value, dict) else None
    if captions is None:
      report("missing_field", where, f"'{name}' must be an object whose 'caption' is a list of texts")
      continue
    yield name, captions, value.get("caption/tokenized")


def annotations(source: Input) -> tuple[dict[str, list[str]], int]:
  """Returns image key -> captions, in the order of `images`, or of the annotations where there is no `images`.

  The second is how many annotations have the `id` of an earlier one, as in some published files: it decides nothing.
  UsageError if a member is missing or of the wrong type, an image stands twice, or a caption is of none of the images.
  """
  document = source.document()
  captions: dict[str, list[str]] = {}
  for where, image in _objects(document.get("images", []), f"{source.name}, images"):
    key = _id(image, "id", where)
    if key in captions:
      raise UsageError(f"{where}: id {shown(key)} is given twice; keep one")
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
  """Yields (position from 0, image key, caption) of a list of results; UsageError as `annotations`."""
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
  # True is an int to Python, but no image.
  if not isinstance(value, int | str) or isinstance(value, bool) or value == "":
    raise UsageError(f"{where}: '{member}' is missing or neither a whole number nor a text")
  return str(value)
