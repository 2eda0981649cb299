"""Files of text, and archives, as tests write and read them.

Functions that write make the folders above a file, and return its path.
"""

import csv as csv_module
import io
import json as json_module
import pathlib
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

Captions = Mapping[object, Mapping[str, object]]
"""Image key -> language -> a caption, or a list of captions."""


def text(path, content: str | bytes = "") -> pathlib.Path:
  path = pathlib.Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_bytes(content.encode() if isinstance(content, str) else content)
  return path


def lines(path, *values: object) -> pathlib.Path:
  """Writes a line for each value."""
  return text(path, "".join(f"{value}\n" for value in values))


def json(path, value: object) -> pathlib.Path:
  return text(path, json_module.dumps(value, ensure_ascii=False))


def jsonl(path, *rows: object) -> pathlib.Path:
  """Writes a line of JSON for each row."""
  return lines(path, *(json_module.dumps(row, ensure_ascii=False) for row in rows))


def rows(path) -> list[Any]:
  """Reads a value from each line of JSON."""
  lines = pathlib.Path(path).read_text(encoding="utf-8").split("\n")
  return [json_module.loads(line) for line in lines if line]


def write(path, content) -> pathlib.Path:
  """Writes text or bytes as they are, lists to .jsonl as JSON lines, and everything else as JSON."""
  if isinstance(content, str | bytes):
    return text(path, content)
  return jsonl(path, *content) if pathlib.Path(path).suffix == ".jsonl" else json(path, content)


def csv(path, *rows: Iterable[object], delimiter: str = ",") -> pathlib.Path:
  """Writes CSV with LF; the first row is the header."""
  table = io.StringIO()
  csv_module.writer(table, delimiter=delimiter, lineterminator="\n").writerows(rows)
  return text(path, table.getvalue())


def captions(path, of_images: Captions) -> pathlib.Path:
  """Writes a line for each image and language, as predictions are."""
  return jsonl(
    path,
    *(
      {"image/key": key, "language": language, "caption": value}
      for key, of_image in of_images.items()
      for language, value in of_image.items()
    ),
  )


def release(path, of_images: Captions, **fields: object) -> pathlib.Path:
  """Writes a line for each image, in the layout of XM3600's captions.jsonl; values are lists of captions.

  Args:
    fields: further fields of every line, such as `locale="de"` for "image/locale".
  """
  more = {f"image/{name}": value for name, value in fields.items()}
  return jsonl(
    path,
    *(
      {"image/key": key, **more, **{language: {"caption": texts} for language, texts in of_image.items()}}
      for key, of_image in of_images.items()
    ),
  )


def coco(path, texts: Mapping[object, Iterable[str]]) -> pathlib.Path:
  """Writes COCO's annotations: image -> captions."""
  annotations = [
    {"image_id": image, "caption": caption} for image, of_image in texts.items() for caption in of_image
  ]
  return json(path, {"images": [{"id": image} for image in texts], "annotations": annotations})


def coco_results(path, texts: Mapping[object, str]) -> pathlib.Path:
  """Writes COCO's results: image -> caption."""
  return json(path, [{"image_id": image, "caption": caption} for image, caption in texts.items()])


def zipped(path, members: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> pathlib.Path:
  """Writes a zip archive; members: name -> content."""
  with zipfile.ZipFile(path, "w", method) as archive:
    for name, content in members.items():
      archive.writestr(zipfile.ZipInfo(name), content, method)
  return pathlib.Path(path)


def tarred(path, *entries: tuple[str, bytes] | tarfile.TarInfo, mode="w", **options) -> pathlib.Path:
  """Writes a tar archive; entries: (name, content), or the header of a link or device; options are `tarfile.open`'s."""
  with tarfile.open(path, mode, **options) as archive:
    for entry in entries:
      if isinstance(entry, tarfile.TarInfo):
        archive.addfile(entry)
      else:
        header = tarfile.TarInfo(entry[0])
        header.size = len(entry[1])
        archive.addfile(header, io.BytesIO(entry[1]))
  return pathlib.Path(path)
