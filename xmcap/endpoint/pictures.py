"""Pictures as they are sent: the file's own JPEG where every server reads it, else one stated re-encoding."""

import base64
import dataclasses
import functools
import hashlib
import io

from PIL import Image

from xmcap.data import images

LONGEST_SIDE, MOST_BYTES, QUALITY = 1_536, 1 << 20, 90
ENCODING = f"jpeg:own<={LONGEST_SIDE}px,{MOST_BYTES >> 20}MiB|{QUALITY}"
"""What decides the bytes that are sent, for signatures."""

_JPEG = b"\xff\xd8\xff"


@dataclasses.dataclass(frozen=True)
class Picture:
  """A picture as it is sent.

  Attributes:
    key: its key.
    data: a JPEG, upright, of at most `LONGEST_SIDE` pixels a side.
    id: 32 hex digits of the hash of `data`. A server that is told only the id looks nowhere else, so that another
      picture under the same id would get this one's captions.
    own: whether `data` is the file's own.
  """

  key: str
  data: bytes
  id: str
  own: bool

  @functools.cached_property
  def url(self) -> str:
    """The picture as a data URL."""
    return "data:image/jpeg;base64," + base64.b64encode(self.data).decode()


def encode(data: bytes, key: str) -> Picture:
  """Decodes a file, so that no server is asked about half a picture, and returns what is sent.

  The file's own bytes are sent if it is an upright JPEG in RGB of at most `LONGEST_SIDE` pixels a side and
  `MOST_BYTES`; else a JPEG of quality 90, shrunk to that side by Lanczos.

  Raises:
    XmcapError: it is no picture, or a damaged one.
  """
  pixels = images.decode(data, key)
  own = data.startswith(_JPEG) and len(data) <= MOST_BYTES and max(pixels.shape) <= LONGEST_SIDE
  if own:
    with Image.open(io.BytesIO(data)) as image:
      own = image.mode == "RGB" and image.getexif().get(0x0112, 1) == 1
  if not own:
    image = Image.fromarray(pixels)
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=QUALITY)
    data = file.getvalue()
  return Picture(key, data, hashlib.blake2b(data, digest_size=16).hexdigest(), own)
