"""Names of emoji in 101 languages, and pictures of the emoji by three artists, from npm packages."""

import dataclasses
import functools
import os
import pathlib

from PIL import Image

from xmcap import languages
from xmcap.corpora.emoji import cldr, sources
from xmcap.corpora.emoji import pictures as emoji_pictures
from xmcap.files.files import cache_folder

ARTISTS = ("noto", "twemoji", "openmoji")
"""Google's Noto Color Emoji, Twitter's Twemoji, and OpenMoji."""

_PACKAGES = {
  "cldr-annotations-full": "48.2.0",
  "cldr-misc-full": "48.2.0",
  "emoji-datasource-google": "14.0.0",
  "emoji-datasource-twitter": "14.0.0",
  "openmoji": "14.0.0",
}
_GOOGLE, _TWITTER, _OPENMOJI = "img/google/64/", "img/twitter/64/", "color/svg/"


@dataclasses.dataclass(frozen=True)
class Artists:
  """CLDR data in the languages of `languages.WIDE`, and the pictures of each of `ARTISTS`."""

  cldr: cldr.Cldr
  pictures: dict[str, emoji_pictures.EmojiImages]


class Common:
  """The first artist's pictures, restricted to emoji that all artists have."""

  def __init__(self, artists: Artists):
    self._first, *self._others = artists.pictures.values()

  def draw(self, emoji: str) -> Image.Image | None:
    """Returns the picture of an emoji; None if any artist lacks it."""
    if any(other.draw(emoji) is None for other in self._others):
      return None
    return self._first.draw(emoji)


def find(cache: str | os.PathLike | None = None) -> Artists:
  """Returns names and pictures, and downloads them if they are not cached; XmcapError if npm is missing or fails.

  Args:
    cache: folder for downloads; None: `xmcap/emoji100` in the user's cache folder.
  """
  tree = sources.fetched(
    pathlib.Path(cache or cache_folder("emoji100")) / "npm",
    functools.partial(sources.fetch_npm, _PACKAGES, (_GOOGLE, _TWITTER, _OPENMOJI)),
  )
  drawn = (
    emoji_pictures.FilePictures(tree / "emoji-datasource-google" / _GOOGLE),
    emoji_pictures.FilePictures(tree / "emoji-datasource-twitter" / _TWITTER),
    emoji_pictures.SvgPictures(tree / "openmoji" / _OPENMOJI),
  )
  return Artists(cldr.read_json(tree, languages.WIDE), dict(zip(ARTISTS, drawn, strict=True)))
