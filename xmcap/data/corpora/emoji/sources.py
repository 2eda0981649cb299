"""Where the names and pictures of emoji come from: three ways, tried in order.

1. `installed`: the Debian packages `unicode-cldr-core` and `fonts-noto-color-emoji`, if they are installed.
2. `debian`: the same packages, fetched without root (`apt-get download`, `dpkg -x`) into a cache.
3. `npm`: the npm packages `cldr-annotations-full`, `cldr-misc-full` (names, list patterns) and
   `emoji-datasource-google` (Noto's pictures at 64 pixels), fetched with `npm pack` into a cache.

The pictures of way 3 are smaller and of another release of Noto, so its corpus differs from that of ways 1
and 2: in its pixels, and in some of the emoji that are told apart by them. Their
scores are not comparable.
"""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Sequence

from xmcap.data.corpora.emoji import cldr
from xmcap.data.corpora.emoji import pictures as emoji_pictures
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.storage.files import make_folder
from xmcap.terminal import shown

WAYS = ("installed", "debian", "npm")

_DEBIAN_PACKAGES = ("unicode-cldr-core", "fonts-noto-color-emoji")
_CLDR = pathlib.Path("usr/share/unicode/cldr/common")
_FONT = pathlib.Path("usr/share/fonts/truetype/noto/NotoColorEmoji.ttf")
# CLDR 41 and Emoji 14, the versions in Debian 12, so that the ways agree on the names.
_NPM_PACKAGES = {
  "cldr-annotations-full": "41.0.0",
  "cldr-misc-full": "41.0.0",
  "emoji-datasource-google": "14.0.0",
}
_TIMEOUT_SECONDS = 600


@dataclasses.dataclass(frozen=True)
class Source:
  """Names and pictures, and by which of `WAYS` they were found."""

  way: str
  cldr: cldr.Cldr
  pictures: emoji_pictures.Pictures


def find(way: str = "auto", cache: str | os.PathLike | None = None, root: str | os.PathLike = "/") -> Source:
  """Finds names and pictures.

  Args:
    way: one of `WAYS`, or `auto`: each in turn until one works.
    cache: folder for what is fetched; None: `xmcap/emoji36` in the user's cache folder.
    root: the file system in which installed packages are looked for.

  Raises:
    UsageError: the way is unknown.
    XmcapError: no way works; the message names all of them, and why each failed.
  """
  if way not in (*WAYS, "auto"):
    raise UsageError(f"unknown source '{way}': choose auto, {', '.join(WAYS)}")
  if cache is None:
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "xmcap" / "emoji36"
  cache = pathlib.Path(cache)
  ways = {
    "installed": lambda: _debian_tree(pathlib.Path(root)),
    "debian": lambda: _debian(cache),
    "npm": lambda: _npm(cache),
  }
  failures = []
  for name in WAYS if way == "auto" else (way,):
    try:
      return Source(name, *ways[name]())
    except XmcapError as error:
      failures.append(f"{name}: {error}")
  raise XmcapError(
    f"no names and pictures of emoji ({'; '.join(failures)}). Do one of these: (1) as root, `apt-get install "
    f"{' '.join(_DEBIAN_PACKAGES)}`; (2) make `apt-get download` and `dpkg` work, no root needed; (3) make "
    f"`npm pack` of {', '.join(_NPM_PACKAGES)} work"
  )


def _debian_tree(root: pathlib.Path) -> tuple[cldr.Cldr, emoji_pictures.Pictures]:
  for path in (root / _CLDR / "annotations", root / _FONT):
    if not path.exists():
      raise XmcapError(f"{path} is absent")
  return cldr.read_xml(root / _CLDR), emoji_pictures.FontPictures(root / _FONT)


def _debian(cache: pathlib.Path) -> tuple[cldr.Cldr, emoji_pictures.Pictures]:
  tree = cache / "debian"
  if not tree.is_dir():
    with _whole(tree) as partial:
      _run(["apt-get", "download", *_DEBIAN_PACKAGES], partial)
      for package in _DEBIAN_PACKAGES:
        archive = _only(partial, f"{package}_*.deb")
        _run(["dpkg", "-x", str(archive), str(partial)], partial)
        archive.unlink()
      # Nine tenths of CLDR are of no use here.
      for folder in (partial / _CLDR).iterdir():
        if folder.is_dir() and folder.name not in ("annotations", "main"):
          shutil.rmtree(folder)
  return _debian_tree(tree)


def _npm(cache: pathlib.Path) -> tuple[cldr.Cldr, emoji_pictures.Pictures]:
  tree = cache / "npm"
  if not tree.is_dir():
    with _whole(tree) as partial:
      for package, version in _NPM_PACKAGES.items():
        _run(["npm", "pack", "--silent", f"{package}@{version}"], partial)
        archive = _only(partial, f"{package}-*.tgz")
        _extract(archive, partial / package)
        archive.unlink()
  folder = tree / "emoji-datasource-google" / "img" / "google" / "64"
  return cldr.read_json(tree), emoji_pictures.FilePictures(folder)


def _extract(archive: pathlib.Path, folder: pathlib.Path) -> None:
  """Extracts `package/**` of an npm archive, less the sheets and other sizes of emoji-datasource-google."""
  try:
    with tarfile.open(archive) as tar:
      for member in tar:
        inside = member.name.removeprefix("package/")
        if member.isfile() and not inside.startswith("img/") or inside.startswith("img/google/64/"):
          member.name = inside
          tar.extract(member, folder, filter="data")
  except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
    raise XmcapError(f"cannot extract {archive.name}: {one_line(error)}") from None


@contextlib.contextmanager
def _whole(tree: pathlib.Path) -> Iterator[pathlib.Path]:
  """A folder beside `tree` to fetch into, renamed to `tree` when all went well, else removed."""
  make_folder(tree.parent)
  partial = pathlib.Path(tempfile.mkdtemp(prefix=f".{tree.name}.", dir=tree.parent))
  try:
    yield partial
    os.rename(partial, tree)
  except OSError as error:
    # Another process may have fetched the same meanwhile.
    if not tree.is_dir():
      raise XmcapError(f"cannot write {tree}: {error.strerror}") from None
  finally:
    shutil.rmtree(partial, ignore_errors=True)


def _run(command: Sequence[str], folder: pathlib.Path) -> None:
  try:
    subprocess.run(
      command,
      cwd=folder,
      check=True,
      capture_output=True,
      text=True,
      timeout=_TIMEOUT_SECONDS,
      stdin=subprocess.DEVNULL,
    )
  except FileNotFoundError:
    raise XmcapError(f"the command {command[0]} is absent") from None
  except subprocess.TimeoutExpired:
    raise XmcapError(f"`{command[0]} {command[1]}` took over {_TIMEOUT_SECONDS} s") from None
  except subprocess.CalledProcessError as error:
    lines = [line for line in error.stderr.splitlines() if line.strip() and "warn" not in line.lower()]
    reason = shown(lines[0]) if lines else f"exit status {error.returncode}"
    raise XmcapError(f"`{command[0]} {command[1]}` failed: {reason}") from None


def _only(folder: pathlib.Path, pattern: str) -> pathlib.Path:
  found = sorted(folder.glob(pattern))
  if len(found) != 1:
    raise XmcapError(f"expected one file {pattern}, found {len(found)}")
  return found[0]
