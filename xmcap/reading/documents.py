"""JSON files of one object: COCO's annotations and the like, rows in a member, tables of pandas, {id: captions}.

COCO: annotations are `{"images": [{"id": ...}, ...], "annotations": [{"image_id": ..., "caption": ...}, ...]}`, results
`[{"image_id": ..., "caption": ...}, ...]` (https://cocodataset.org/#format-data). Neither names a language. The key of
an image is its id as a string, so the ids 7, 7.0 and "7" are the same image.
Karpathy: `{"images": [{"cocoid": ..., "split": ..., "sentences": [{"raw": ...}, ...]}, ...]}`.
MSR-VTT: `{"videos": [{"video_id": ..., "split": ...}, ...], "sentences": [{"video_id": ..., "caption": ...}, ...]}`.
COCO-CN: captions with their scores, `{"overall": {...}, "imgToEval": {ID: {"caption": [{"caption": ...}], ...}}}`.
pandas: the orients of `DataFrame.to_json`, and columns as lists.
"""

import dataclasses
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

from xmcap import wording
from xmcap.errors import UsageError
from xmcap.reading import layouts, programs
from xmcap.reading.columns import FIELDS, FILE_NAMES, OF_KEYS
from xmcap.terminal import shown

Numbered = Iterator[tuple[int | str, dict[str, Any]]]

_FIRST_MEMBER = re.compile(r'\s*\{\s*"((?:[^"\\]|\\.)*)"\s*:\s*(\S?)')
_COCO = ("images", "annotations", "id", "image_id")
_MSR_VTT = ("videos", "sentences", "video_id", "video_id")


@dataclasses.dataclass
class Document:
  """Rows of a JSON object.

  Attributes:
    place: how messages name a row by its number.
    rows: (number, row) of each.
    notes: what was recognised and counted.
    images: keys of the images that the file lists, also those without captions, in its order -> its file name,
      "" if there is none; None: the file does not list images.
    splits: key -> split of the images, where the file has them.
  """

  place: str
  rows: Numbered
  notes: list[str] = dataclasses.field(default_factory=list)
  images: dict[str, str] | None = None
  splits: dict[str, str] = dataclasses.field(default_factory=dict)


def is_object(head: bytes) -> bool:
  """Whether the first bytes of a file show one JSON object of captions, rather than a row in each line."""
  first = _FIRST_MEMBER.match(head.decode("utf-8", "replace"))
  if first is None:
    return False
  line, _, rest = head.strip().partition(b"\n")
  try:
    row = json.loads(line)
  except (ValueError, RecursionError):
    # It goes on: below, or behind the first bytes.
    is_row = first[1] in FIELDS and first[2] not in "{["
    return line.strip() == b"{" or not (is_row or b'"image/key"' in head)
  return not rest.strip() and isinstance(row, dict) and not _is_row(row)


def tables(document: dict[str, Any]) -> tuple[str, str, str, str]:
  """Returns the members with the images and with their captions, and the fields of the key in either."""
  return _MSR_VTT if "videos" in document else _COCO


def of(document: Any, name: str) -> Document:
  """Returns the rows of the JSON value of a file, called `name` in messages.

  UsageError, here or while the rows are read, if it has no known structure.
  """
  if isinstance(document, list):
    return Document("results[{}]", _objects(document, f"{name}, results"))
  if not isinstance(document, dict):
    raise UsageError(f"{name}: must be an object or a list of objects, as COCO's annotations and results are")
  inner = next(iter(document.values())) if len(document) == 1 else None
  if isinstance(inner, dict) and FIELDS.isdisjoint({*document, *inner}):
    document = inner
  for read in (_annotations, _karpathy, _with_scores, _split, _member, _columns, _captions_by_id):
    if (rows := read(document, name)) is not None:
      return rows
  if _is_row(document):
    return Document("row {}", iter([(1, document)]))
  raise UsageError(
    f"{name}: JSON of no known layout, with the members '{shown(', '.join(document))}'; give JSONL of image/key, "
    "language and caption, COCO's JSON, or {id: caption} (of pandas: orient='records')"
  )


def _is_row(value: dict[str, Any]) -> bool:
  """Whether an object is one row by the names of its fields, rather than a table of columns."""
  if "image/key" in value or programs.find(value) is not None:
    return True
  has_rows = any(isinstance(member, dict) or _are_objects(member) for member in value.values())
  is_table = all(isinstance(column, dict) for column in value.values()) or _are_columns(value)
  if is_table or {"columns", "data"} <= value.keys():
    return False
  return not OF_KEYS.isdisjoint(value) or not (has_rows or FIELDS.isdisjoint(value))


def _annotations(document: dict[str, Any], name: str) -> Document | None:
  """Captions beside a list of their images: COCO's, also without that list, and MSR-VTT's."""
  of_images, of_captions, of_image, of_caption = tables(document)
  if of_captions not in document:
    return None
  images: dict[str, dict[str, Any]] = {}
  twice = 0
  for number, image in _objects(document.get(of_images, []), f"{name}, {of_images}"):
    where = f"{name}, {of_images}[{number}]"
    key = layouts.id_of(image, of_image, where)
    twice += key in images
    if images.setdefault(key, image) != image:
      raise UsageError(f"{where}: {of_image} {shown(key)} occurs twice; keep one")
  annotations = _objects(document[of_captions], f"{name}, {of_captions}")
  result = Document(f"{of_captions}[{{}}]", annotations, ["MSR-VTT's file"] if of_images == "videos" else [])
  if of_images in document:
    result.images = {key: file_name(image) for key, image in images.items()}
    splits = {key: image["split"] for key, image in images.items() if isinstance(image.get("split"), str)}
    result.splits = splits if len(splits) == len(images) else {}
  if twice:
    result.notes.append(f"{wording.count(twice, 'image')} listed twice in the same words; counted once")
  result.rows = _of_images(annotations, of_caption, f"{name}, {of_captions}", result)
  return result


def _of_images(rows: Numbered, field: str, where: str, document: Document) -> Numbered:
  """Yields annotations, all of images that are listed, and then notes those that repeat the `id` of an earlier one."""
  ids: list[str] = []
  for number, row in rows:
    if "id" in row:
      ids.append(repr(row["id"]))
    key = row.get(field)
    key = str(key) if type(key) is int else layouts.id_of(row, field, f"{where}[{number}]")
    if document.images is not None and key not in document.images:
      raise UsageError(f"{where}[{number}]: {field} {shown(key)} is not among the images; add or remove it")
    yield number, row
  if repeated := len(ids) - len(set(ids)):
    have = "has" if repeated == 1 else "have"
    document.notes.append(
      f"{repeated:,} of the annotations {have} the id of an earlier one; all captions count"
    )


def _karpathy(document: dict[str, Any], name: str) -> Document | None:
  images = document.get("images") or []
  if not _are_objects(images) or "sentences" not in images[0]:
    return None
  member = "cocoid" if "cocoid" in images[0] else "filename"
  names, splits, rows = {}, {}, []
  for number, image in _objects(images, f"{name}, images"):
    where = f"{name}, images[{number}]"
    key = layouts.id_of(image, member, where)
    if key in names:
      raise UsageError(f"{where}: {member} {shown(key)} occurs twice; keep one")
    names[key], splits[key] = file_name(image), layouts.text(image, "split", where)
    sentences = _objects(image.get("sentences"), f"{where}, sentences")
    raw = [layouts.text(sentence, "raw", f"{where}, sentences[{place}]") for place, sentence in sentences]
    rows.append((number, {"image_id": key, "caption": raw}))
  return Document(
    "images[{}]", iter(rows), [f"Karpathy's file: the key of an image is its {member}"], names, splits
  )


def _with_scores(document: dict[str, Any], name: str) -> Document | None:
  """Captions among the scores of each image, as the outputs of COCO-CN's authors."""
  images = document.get("imgToEval")
  if not isinstance(images, dict) or not all(
    isinstance(row, dict) and "caption" in row for row in images.values()
  ):
    return None
  rows = []
  for key, row in images.items():
    items = row["caption"] if isinstance(row["caption"], list) else [row["caption"]]
    texts = layouts.texts([item.get("caption") if isinstance(item, dict) else item for item in items])
    if texts is None:
      raise UsageError(
        f"{name}, imgToEval '{shown(key)}': 'caption' must be a text, or a list of objects with one"
      )
    rows.append((shown(key), {"id": key, "caption": texts}))
  return Document(
    "imgToEval '{}'", iter(rows), ["the captions stand among the scores of 'imgToEval', which are not read"]
  )


def _split(document: dict[str, Any], name: str) -> Document | None:
  """pandas' orient `split`."""
  columns, cells = document.get("columns"), document.get("data")
  if not isinstance(columns, list) or not isinstance(cells, list) or len({*map(str, columns)}) < len(columns):
    return None
  if not all(isinstance(row, list) and len(row) == len(columns) for row in cells):
    raise UsageError(f"{name}: each row of 'data' must have a value for each of the 'columns'")
  rows = (dict(zip(map(str, columns), row, strict=True)) for row in cells)
  return Document("data[{}]", iter(enumerate(rows)), ["pandas' orient 'split'"])


def _member(document: dict[str, Any], name: str) -> Document | None:
  """Rows in the only member that is a list of objects, also pandas' orient `table`."""
  lists = [member for member, value in document.items() if _are_objects(value)]
  if not lists or all(itertools.starmap(_are_captions, document.items())):
    return None
  if len(lists) > 1:
    raise UsageError(
      f"{name}: rows in several members, '{shown(', '.join(lists))}'; give one of them as a file"
    )
  rows = _objects(document[lists[0]], f"{name}, {lists[0]}")
  return Document(f"{shown(lists[0])}[{{}}]", rows, [f"the rows are those of '{shown(lists[0])}'"])


def _columns(document: dict[str, Any], name: str) -> Document | None:
  """pandas' orients `columns` and `index`, and columns as lists."""
  values = list(document.values())
  if _are_columns(document):
    if len({*map(len, values)}) > 1:
      raise UsageError(
        f"{name}: the lists '{shown(', '.join(document))}' differ in length; give a list of objects"
      )
    rows = (dict(zip(document, cells, strict=True)) for cells in zip(*values, strict=True))
    return Document("row {}", iter(enumerate(rows)), ["the columns are lists"])
  if not values or not all(isinstance(value, dict) for value in values):
    return None
  if FIELDS.isdisjoint(document):
    return Document("'{}'", ((shown(key), {"id": key, **row}) for key, row in document.items()))
  index = list(values[0])
  if any(column.keys() != values[0].keys() for column in values):
    raise UsageError(f"{name}: pandas' columns with different rows; write it with to_json(orient='records')")
  # A running number is no key.
  keyed = OF_KEYS.isdisjoint(document) and index != list(map(str, range(len(index))))
  columns = {**({"id": {row: row for row in index}} if keyed else {}), **document}
  rows = ((shown(row), {field: column[row] for field, column in columns.items()}) for row in index)
  return Document("row '{}'", rows, ["pandas' orient 'columns'"])


def _captions_by_id(document: dict[str, Any], name: str) -> Document | None:
  """{id: caption}, {id: [captions]}, and pycocoevalcap's {id: [{"caption": ...}]}."""
  del name
  if not FIELDS.isdisjoint(document) or not all(itertools.starmap(_are_captions, document.items())):
    return None
  return Document(
    "'{}'", ((shown(key), {"id": key, "caption": _texts(value)}) for key, value in document.items())
  )


def _are_captions(key: str, value: Any) -> bool:
  """Whether the value of a key is captions, or a failed request in place of one."""
  if isinstance(value, list):
    return all(isinstance(item, str) or _is_caption(item, key) for item in value)
  return isinstance(value, str | None) or (isinstance(value, dict) and "error" in value)


def _is_caption(item: Any, key: str) -> bool:
  """Whether an object is a caption: pycocoevalcap's, or an annotation of COCO's under its own image."""
  if not isinstance(item, dict) or "caption" not in item:
    return False
  others = {"id", "image_id"} if str(item.get("image_id")) == key else {"id"}
  return OF_KEYS.isdisjoint(item.keys() - others)


def _texts(value: Any) -> Any:
  """Returns the captions of a list of these; other values as they are."""
  if not isinstance(value, list):
    return value
  return [item["caption"] if isinstance(item, dict) else item for item in value]


def _are_objects(value: Any) -> bool:
  return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _are_columns(document: dict[str, Any]) -> bool:
  has_key = not OF_KEYS.isdisjoint(document)
  return has_key and len(document) > 1 and all(isinstance(value, list) for value in document.values())


def file_name(image: dict[str, Any]) -> str:
  """Returns the file name of an image; "" if there is none."""
  return next((name for field in FILE_NAMES if isinstance(name := image.get(field), str)), "")


def _objects(values: Any, where: str) -> Numbered:
  if not isinstance(values, list):
    raise UsageError(f"{where}: must be a list of objects, as in COCO's JSON")
  for number, value in enumerate(values):
    if not isinstance(value, dict):
      raise UsageError(f"{where}[{number}]: must be an object")
    yield number, value
