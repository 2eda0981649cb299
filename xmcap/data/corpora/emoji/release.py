"""Writing the release layout of XM3600: `captions.jsonl`, a line an image, and `images/KEY.png`."""

import json
import os
import pathlib
import shutil
from collections.abc import Iterable
from typing import Any

from xmcap.data.records import Record
from xmcap.storage import files


def as_line(record: Record) -> bytes:
  """The line of captions.jsonl about a picture, with its end."""
  line: dict[str, Any] = {"image/key": record.key, "image/locale": record.locale}
  for caption in record.captions:
    line.setdefault(caption.language, {"caption": []})["caption"].append(caption.text)
  return f"{json.dumps(line, ensure_ascii=False)}\n".encode()


def write_release(directory: str | os.PathLike, records: Iterable[Record]) -> None:
  """Writes a release of PNG pictures into a folder of its own, replacing what was there.

  The folder appears under its name only when it is whole. Each language is `{"caption": [...]}`; the lists of
  tokenised captions that XM3600 also has are left out, since any tokeniser can make them.

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
