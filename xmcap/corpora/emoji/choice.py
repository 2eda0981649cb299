"""Chooses the emoji of a corpus: varied, and distinguishable by image and by name."""

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from xmcap import languages
from xmcap.corpora.emoji import images as emoji_images
from xmcap.errors import UsageError

# Unicode blocks of pictographs: symbols and pictographs, emoticons, transport, supplement, extended A. Letters, arrows,
# flags and keycaps are in other blocks.
_BLOCKS = (
  "\U0001f300-\U0001f5ff\U0001f600-\U0001f64f\U0001f680-\U0001f6ff\U0001f900-\U0001f9ff\U0001fa70-\U0001faff"
)
# Excluded from these: skin tones and hair, media player buttons and arrows, religious symbols and clocks, prohibition
# and information signs.
_LEFT_OUT = (
  "\U0001f3fb-\U0001f3ff\U0001f500-\U0001f53d\U0001f540-\U0001f567"
  "\U0001f6ad-\U0001f6b3\U0001f6b7-\U0001f6c5\U0001f9b0-\U0001f9b3"
)
_PICTOGRAPH = re.compile(f"(?![{_LEFT_OUT}])[{_BLOCKS}]")
# A name that is itself a list would make the number of things in a caption unclear.
_LIST_MARKS = re.compile('[,،、，;؛:：()"“”]')
OPTIONAL = ("mi", "quz")
"""Languages of the 36 in which an emoji may lack a name or keywords."""
_GOLDEN_RATIO = (5**0.5 - 1) / 2
# RMS difference of two thumbnails in [0, 1] below which they look alike; found by inspecting pairs.
_MIN_DISTANCE = 0.17

Names = Mapping[str, Mapping[str, str]]
"""Language -> emoji -> name."""


@dataclasses.dataclass(frozen=True)
class Emoji:
  """One class of the corpus: its code point, language -> name, and an RGBA image, cropped to the visible part."""

  character: str
  names: dict[str, str]
  picture: Image.Image

  @property
  def tag(self) -> str:
    """The name of the class in `tags`: the English name."""
    return self.names["en"]


def choose(
  names: Names,
  images: emoji_images.EmojiImages,
  count: int,
  optional: Collection[str] = (),
  preferred: Collection[str] = (),
) -> list[Emoji]:
  """Returns the first `count` emoji of a fixed order, so a smaller choice is a prefix of a larger one.

  The order takes golden-ratio steps through the code points, so that food, animals, faces and things all occur;
  `preferred` emoji come before all others. It skips emoji that lack a name in a language that is not `optional`, that
  share a name with an earlier emoji in any language, or whose small image looks like an earlier one. UsageError if
  there are fewer than `count` such emoji.
  """
  candidate_names = candidates(names, optional)
  order = np.argsort(np.arange(1, len(candidate_names) + 1) * _GOLDEN_RATIO % 1, kind="stable").tolist()
  order.sort(key=lambda index: candidate_names[index][0] not in preferred)
  taken: dict[str, set[str]] = {language: set() for language in names}
  thumbnails: list[np.ndarray] = []
  chosen: list[Emoji] = []
  for index in order:
    if len(chosen) == count:
      break
    character, own = candidate_names[index]
    if any(name.casefold() in taken[language] for language, name in own.items()):
      continue
    image = images.draw(character)
    if image is None:
      continue
    small = emoji_images.thumbnail(image)
    if any(np.sqrt(np.mean((small - other) ** 2)) < _MIN_DISTANCE for other in thumbnails):
      continue
    for language, name in own.items():
      taken[language].add(name.casefold())
    thumbnails.append(small)
    chosen.append(Emoji(character, own, image))
  if len(chosen) < count:
    raise UsageError(
      f"num_emoji={count}: there are only {len(chosen)} distinguishable emoji; ask for at most that many"
    )
  return chosen


def described(chosen: Sequence[Emoji]) -> list[dict[str, Any]]:
  """Returns for each emoji its character, its tag, and the languages of the 36 in which it lacks a name."""
  return [
    {
      "character": emoji.character,
      "tag": emoji.tag,
      "lacks": [language for language in languages.LANGUAGES if language not in emoji.names],
    }
    for emoji in chosen
  ]


def candidates(names: Names, optional: Collection[str]) -> list[tuple[str, dict[str, str]]]:
  """Returns (emoji, language -> name) of what `choose` chooses from, in the order of the code points."""
  named_emoji = []
  for character in sorted(names["en"]):
    if not _PICTOGRAPH.fullmatch(character):
      continue
    own = {
      language: of_language[character] for language, of_language in names.items() if character in of_language
    }
    named = all(language in own for language in names if language not in optional)
    if named and not any(_LIST_MARKS.search(name) for name in own.values()):
      named_emoji.append((character, own))
  return named_emoji
