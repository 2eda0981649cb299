"""Writing the release layout of XM3600: `captions.jsonl`, a line an image, and `images/KEY.png`."""

import dataclasses
import json
import os
import pathlib
import shutil
from collections.abc import Iterable, Mapping, Sequence

from xmcap.storage import files


@dataclasses.dataclass(frozen=True)
class ReleaseImage:
  """One image of a release: key, PNG bytes, and language -> references (no entry where there are none)."""

  key: str
  image: bytes
  references: Mapping[str, Sequence[str]]
  locale: str = ""


def write_release(directory: str | os.PathLike, images: Iterable[ReleaseImage]) -> int:
  """Writes a release into a folder of its own, replacing what was there; returns the number of images.

  The folder appears under its name only when it is whole. Each language is `{"caption": [...]}`; the lists of
  tokenised captions that XM3600 also has are left out, since any tokeniser can make them.

  Raises:
    XmcapError: the disk is full or cannot be written.
  """
  directory = pathlib.Path(directory)
  partial = directory.with_name(f".{directory.name}.incomplete")
  count = 0
  try:
    shutil.rmtree(partial, ignore_errors=True)
    files.make_folder(partial / "images")
    with files.output(partial / "captions.jsonl") as lines:
      for image in images:
        files.write_bytes(partial / "images" / f"{image.key}.png", image.image)
        line = {"image/key": image.key, "image/locale": image.locale}
        line.update({language: {"caption": list(texts)} for language, texts in image.references.items()})
        lines.write(f"{json.dumps(line, ensure_ascii=False)}\n".encode())
        count += 1
    shutil.rmtree(directory, ignore_errors=True)
    os.replace(partial, directory)
  except OSError as error:
    raise files.cannot_write(directory, error) from None
  finally:
    shutil.rmtree(partial, ignore_errors=True)
  return count
