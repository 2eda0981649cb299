"""Downloads the public parts of releases on request; resumes a download that was interrupted.

No hashes are published for them, so the SHA-256 of each download is shown for comparison.
"""

import hashlib
import http.client
import os
import pathlib
import time
import urllib.error
import urllib.request

from xmcap.errors import UsageError, XmcapError
from xmcap.files import files
from xmcap.progress import Progress, Say
from xmcap.terminal import shown

_TIMEOUT_SECONDS = 60
_TRIES = 5
_PIECE = 1 << 20


def fetch(url: str, folder: pathlib.Path, say: Say) -> None:
  """Downloads a file into a folder under its own name; until it is complete, the name ends in `.part`.

  `say` receives lines with sizes, rates and hashes.

  Raises:
    UsageError: the URL does not exist, or the folder cannot be made.
    XmcapError: the connection or the disk fails; the next call resumes the download.
  """
  if not url.startswith(("https://", "http://")):
    raise UsageError(f"{url}: not an http or https URL")
  files.make_folder(folder)
  path = folder / url.rpartition("/")[2]
  part = path.with_name(f"{path.name}.part")
  for attempt in range(1, _TRIES + 1):
    try:
      if _fetch_rest(url, part, say):
        break
      reason = "the connection was closed"
    except urllib.error.HTTPError as error:
      reason = f"{error.code} {shown(error.reason)}"
      if error.code == 416 and part.exists():
        # There is nothing after the bytes we have: the file is complete, or it is another file.
        break
      if error.code < 500 and error.code not in (408, 429):
        raise UsageError(f"{url}: {reason}; fetch {path.name} by hand") from None
    except (
      OSError,
      http.client.HTTPException,
    ) as error:  # of the connection; those of the file are XmcapErrors
      reason = shown(getattr(error, "reason", error) or type(error).__name__)
    if attempt < _TRIES:
      say(f"{path.name}: {reason}; retrying in {2**attempt} s")
      time.sleep(2**attempt)
  else:
    raise XmcapError(f"cannot fetch {url}: {reason}; start again to resume")
  with open(part, "rb") as file:
    digest = hashlib.file_digest(file, "sha256").hexdigest()
  say(f"{path.name}: {part.stat().st_size:,} bytes, SHA-256 {digest}")
  os.replace(part, path)


def _fetch_rest(url: str, part: pathlib.Path, say: Say) -> bool:
  """Downloads the bytes that `part` lacks; returns whether the file is complete."""
  name, have = part.stem, part.stat().st_size if part.exists() else 0
  request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
  with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
    if have and answer.status != 206:
      have = 0  # the server sends the whole file again
    length = answer.headers.get("Content-Length", "")
    total = have + int(length) if length.isascii() and length.isdecimal() and len(length) < 16 else None
    say(f"{name}: {total:,} bytes from {url}" if total else f"{name}: from {url}")
    progress = Progress(say, name, total or 0, "bytes")
    progress(have)
    with files.output(part, append=bool(have)) as file:
      while piece := answer.read(_PIECE):
        file.write(piece)
        have += len(piece)
        if total:
          progress(have)
  return total is None or have == total
