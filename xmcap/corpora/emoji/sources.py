"""Sources of the names and images of emoji, tried in this order.

1. `installed`: the Debian packages `unicode-cldr-core` and `fonts-noto-color-emoji`, if they are installed.
2. `debian`: the same packages, downloaded without root (`apt-get download`, `dpkg -x`) into a cache.
3. `npm`: the npm packages `cldr-annotations-full`, `cldr-misc-full` (names, list patterns) and
   `emoji-datasource-google` (Noto's images at 64 pixels), downloaded with `npm pack` into a cache.

`find_artists` has names in 101 languages, and images by three artists, from npm packages.

The images of source 3 are smaller and from another release of Noto. So its corpus has other pixels than that of
sources 1 and 2, and some other emoji, because the choice depends on the images. Their scores are not comparable.
"""

import dataclasses
import functools
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from PIL import Image

from xmcap import languages
from xmcap.corpora.emoji import cldr
from xmcap.corpora.emoji import images as emoji_images
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.files.files import cache_folder, make_folder
from xmcap.terminal import shown

WAYS = ("installed", "debian", "npm")

ARTISTS = ("noto", "twemoji", "openmoji")
"""Google's Noto Color Emoji, Twitter's Twemoji, and OpenMoji."""

_DEBIAN_PACKAGES = ("unicode-cldr-core", "fonts-noto-color-emoji")
_CLDR = pathlib.Path("usr/share/unicode/cldr/common")
_FONT = pathlib.Path("usr/share/fonts/truetype/noto/NotoColorEmoji.ttf")
# CLDR 41 and Emoji 14, the versions in Debian 12, so that all sources have the same names.
_NPM_PACKAGES = {
  "cldr-annotations-full": "41.0.0",
  "cldr-misc-full": "41.0.0",
  "emoji-datasource-google": "14.0.0",
}
_ARTISTS_PACKAGES = {
  "cldr-annotations-full": "48.2.0",
  "cldr-misc-full": "48.2.0",
  "emoji-datasource-google": "14.0.0",
  "emoji-datasource-twitter": "14.0.0",
  "openmoji": "14.0.0",
}
_GOOGLE, _TWITTER, _OPENMOJI = "img/google/64/", "img/twitter/64/", "color/svg/"
_PICTURES = ("img/", "black/", "color/", "font/", "src/")  # folders of the npm packages with images
_TIMEOUT_SECONDS = 600


@dataclasses.dataclass(frozen=True)
class EmojiSource:
  """Names and images.

  Attributes:
    way: the entry of `WAYS` that gave them.
    cldr: names, keywords and list patterns.
    images: the images; of several artists, the first one's of emoji that all have.
    artists: artist -> images, if there are several.
  """

  way: str
  cldr: cldr.Cldr
  images: emoji_images.EmojiImages
  artists: Mapping[str, emoji_images.EmojiImages] = dataclasses.field(default_factory=dict)


class Common:
  """The first artist's images, restricted to emoji that all artists have."""

  def __init__(self, images: Iterable[emoji_images.EmojiImages]):
    self._first, *self._others = images

  def draw(self, emoji: str) -> Image.Image | None:
    """Returns the image of an emoji; None if any artist lacks it."""
    if any(other.draw(emoji) is None for other in self._others):
      return None
    return self._first.draw(emoji)


def find(
  way: str = "auto", cache: str | os.PathLike | None = None, root: str | os.PathLike = "/"
) -> EmojiSource:
  """Finds names and images.

  Args:
    way: one of `WAYS`, or `auto`: each in turn until one works.
    cache: folder for downloads; None: `xmcap/emoji36` in the user's cache folder.
    root: root of the file system to search for installed packages.

  Raises:
    UsageError: the source is unknown.
    XmcapError: no source works; the message lists all of them, and why each failed.
  """
  if way not in (*WAYS, "auto"):
    raise UsageError(f"unknown source '{way}': choose auto, {', '.join(WAYS)}")
  cache = pathlib.Path(cache or cache_folder("emoji36"))
  failures = []
  for name in WAYS if way == "auto" else (way,):
    try:
      if name == "installed":
        return _read_debian(name, pathlib.Path(root))
      if name == "debian":
        return _read_debian(name, _fetched(cache / name, _fetch_debian))
      tree = _fetched(cache / name, functools.partial(_fetch_npm, _NPM_PACKAGES, (_GOOGLE,)))
      images = emoji_images.FileImages(tree / "emoji-datasource-google" / _GOOGLE)
      return EmojiSource(name, cldr.read_json(tree), images)
    except XmcapError as error:
      failures.append(f"{name}: {error}")
  raise XmcapError(
    f"no names and pictures of emoji ({'; '.join(failures)}). Do one of these: (1) as root, `apt-get install "
    f"{' '.join(_DEBIAN_PACKAGES)}`; (2) make `apt-get download` and `dpkg` work, no root needed; (3) make "
    f"`npm pack` of {', '.join(_NPM_PACKAGES)} work"
  )


def find_artists(cache: str | os.PathLike | None = None) -> EmojiSource:
  """Returns names in the languages of `languages.WIDE`, and the images of each of `ARTISTS`.

  They are downloaded if they are not cached; XmcapError if npm is missing or fails.

  Args:
    cache: folder for downloads; None: `xmcap/emoji100` in the user's cache folder.
  """
  tree = _fetched(
    pathlib.Path(cache or cache_folder("emoji100")) / "npm",
    functools.partial(_fetch_npm, _ARTISTS_PACKAGES, (_GOOGLE, _TWITTER, _OPENMOJI)),
  )
  artists = {
    "noto": emoji_images.FileImages(tree / "emoji-datasource-google" / _GOOGLE),
    "twemoji": emoji_images.FileImages(tree / "emoji-datasource-twitter" / _TWITTER),
    "openmoji": emoji_images.SvgImages(tree / "openmoji" / _OPENMOJI),
  }
  return EmojiSource("npm", cldr.read_json(tree, languages.WIDE), Common(artists.values()), artists)


def _read_debian(way: str, root: pathlib.Path) -> EmojiSource:
  for path in (root / _CLDR / "annotations", root / _FONT):
    if not path.exists():
      raise XmcapError(f"{path} is missing")
  return EmojiSource(way, cldr.read_xml(root / _CLDR), emoji_images.FontImages(root / _FONT))


def _fetch_debian(folder: pathlib.Path) -> None:
  _run(["apt-get", "download", *_DEBIAN_PACKAGES], folder)
  for archive in list(folder.glob("*.deb")):
    _run(["dpkg", "-x", str(archive), str(folder)], folder)
    archive.unlink()
  # Nine tenths of CLDR are not needed.
  for path in (folder / _CLDR).iterdir():
    if path.is_dir() and path.name not in ("annotations", "main"):
      shutil.rmtree(path)


def _fetch_npm(packages: Mapping[str, str], images: tuple[str, ...], folder: pathlib.Path) -> None:
  """Downloads npm packages (name -> version), each into its own folder; keeps only images in the folders `images`.

  XmcapError if npm is missing or fails.
  """
  for package, version in packages.items():
    _run(["npm", "pack", "--silent", f"{package}@{version}"], folder)
    for archive in list(folder.glob("*.tgz")):
      try:
        with tarfile.open(archive) as tar:
          tar.extractall(folder / package, filter=functools.partial(_npm_member, images))
      except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise XmcapError(f"cannot extract {archive.name}: {one_line(error)}") from None
      archive.unlink()


def _npm_member(images: tuple[str, ...], member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
  """A filter for `tarfile`: strips `package/`, and drops sheets, sizes and kinds of images that are not needed."""
  name = member.name.removeprefix("package/")
  if name.startswith(_PICTURES) and not name.startswith(images):
    return None
  return tarfile.data_filter(member.replace(name=name), folder)


def _fetched(tree: pathlib.Path, fetch: Callable[[pathlib.Path], None]) -> pathlib.Path:
  """Returns the folder `tree`; if it does not exist, `fetch` fills it atomically."""
  if tree.is_dir():
    return tree
  make_folder(tree.parent)
  partial = pathlib.Path(tempfile.mkdtemp(prefix=f".{tree.name}.", dir=tree.parent))
  try:
    fetch(partial)
    os.rename(partial, tree)
  except OSError as error:
    # Another process may have fetched the same in the meantime.
    if not tree.is_dir():
      raise XmcapError(f"cannot write {tree}: {error.strerror}") from None
  finally:
    shutil.rmtree(partial, ignore_errors=True)
  return tree


def _run(command: Sequence[str], folder: pathlib.Path) -> None:
  called = f"`{command[0]} {command[1]}`"
  try:
    done = subprocess.run(
      command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, stdin=subprocess.DEVNULL
    )
  except FileNotFoundError:
    raise XmcapError(f"the command {command[0]} is missing") from None
  except subprocess.TimeoutExpired:
    raise XmcapError(f"{called} took over {_TIMEOUT_SECONDS} s") from None
  if done.returncode:
    lines = [line for line in done.stderr.splitlines() if line.strip() and "warn" not in line.lower()]
    raise XmcapError(f"{called} failed: {shown(lines[0]) if lines else f'exit status {done.returncode}'}")
