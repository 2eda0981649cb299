"""Writes XM3600's release layout: `captions.jsonl`, with one line per image, and `images/KEY.png`."""

import json
import os
import pathlib
import shutil
from collections.abc import Iterable
from typing import Any

from xmcap.data.records import Record
from xmcap.files import files


def as_line(record: Record) -> bytes:
  """Returns the line of captions.jsonl for an image, including the newline."""
  line: dict[str, Any] = {"image/key": record.key, "image/locale": record.locale}
  for caption in record.captions:
    line.setdefault(caption.language, {"caption": []})["caption"].append(caption.text)
  return f"{json.dumps(line, ensure_ascii=False)}\n".encode()


def write_release(directory: str | os.PathLike, records: Iterable[Record]) -> None:
  """Writes a release of PNG images into its own folder, replacing an old one.

  The folder gets its name only when it is complete. Each language is `{"caption": [...]}`, without XM3600's lists of
  tokenised captions, which any tokeniser can make.

  Raises:
    XmcapError: the disk is full or cannot be written.
  """
  directory = pathlib.Path(directory)
  partial = directory.with_name(f".{directory.name}.incomplete")
  try:
    shutil.rmtree(partial, ignore_errors=True)
    files.make_folder(partial / "images")
    with files.output(partial / "captions.jsonl") as lines:
      for record in records:
        files.write_bytes(partial / "images" / f"{record.key}.png", record.image)
        lines.write(as_line(record))
    shutil.rmtree(directory, ignore_errors=True)
    os.replace(partial, directory)
  except OSError as error:
    raise files.cannot_write(directory, error) from None
  finally:
    shutil.rmtree(partial, ignore_errors=True)
