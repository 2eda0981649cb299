"""Which emoji the corpus shows: spread over the list, and told apart by eye and by name."""

import dataclasses
import re
from collections.abc import Collection, Mapping

import numpy as np
from PIL import Image

from xmcap.data.corpora.emoji import pictures as emoji_pictures
from xmcap.errors import UsageError

# Unicode blocks of pictographs: symbols and pictographs, emoticons, transport, supplement, extended A. Letters, arrows,
# flags and keycaps lie in other blocks.
_BLOCKS = (
  "\U0001f300-\U0001f5ff\U0001f600-\U0001f64f\U0001f680-\U0001f6ff\U0001f900-\U0001f9ff\U0001fa70-\U0001faff"
)
# Inside those: skin tones and hair, buttons and arrows of players, religious symbols and clocks, signs of
# prohibition and information.
_LEFT_OUT = (
  "\U0001f3fb-\U0001f3ff\U0001f500-\U0001f53d\U0001f540-\U0001f567"
  "\U0001f6ad-\U0001f6b3\U0001f6b7-\U0001f6c5\U0001f9b0-\U0001f9b3"
)
_PICTOGRAPH = re.compile(f"(?![{_LEFT_OUT}])[{_BLOCKS}]")
# A name that is itself a list would make the number of things in a caption unclear.
_LIST_MARKS = re.compile('[,،、，;؛:：()"“”]')
_GOLDEN_RATIO = (5**0.5 - 1) / 2
# Root mean square of two thumbnails in [0, 1] below which they look alike; found by looking at pairs.
_MIN_DISTANCE = 0.17

Names = Mapping[str, Mapping[str, str]]
"""Language -> emoji -> name."""


@dataclasses.dataclass(frozen=True)
class Emoji:
  """One class of the corpus: one code point, language -> name, and an RGBA picture, cropped to what is visible."""

  character: str
  names: dict[str, str]
  picture: Image.Image

  @property
  def tag(self) -> str:
    """The name of the class in `tags`: the English name."""
    return self.names["en"]


def choose(
  names: Names, pictures: emoji_pictures.Pictures, count: int, optional: Collection[str] = ()
) -> list[Emoji]:
  """The first `count` emoji of a fixed order; those of a smaller count are among those of a larger one.

  The order spreads over the list of emoji by code point (steps of the golden ratio), so that food, animals,
  faces and things all occur. Left out are emoji that lack a name in a language that is not `optional`, have the name
  of one chosen before in any language, or look like it when small.

  Args:
    names: language -> emoji -> name.
    pictures: of the emoji.
    count: how many.
    optional: languages in which an emoji may go without a name.

  Raises:
    UsageError: fewer than `count` emoji can be told apart.
  """
  candidates = _candidates(names, optional)
  order = np.argsort(np.arange(1, len(candidates) + 1) * _GOLDEN_RATIO % 1, kind="stable")
  taken: dict[str, set[str]] = {language: set() for language in names}
  thumbnails: list[np.ndarray] = []
  chosen: list[Emoji] = []
  for index in order:
    if len(chosen) == count:
      break
    character, own = candidates[index]
    if any(name.casefold() in taken[language] for language, name in own.items()):
      continue
    picture = pictures.draw(character)
    if picture is None:
      continue
    small = emoji_pictures.thumbnail(picture)
    if any(np.sqrt(np.mean((small - other) ** 2)) < _MIN_DISTANCE for other in thumbnails):
      continue
    for language, name in own.items():
      taken[language].add(name.casefold())
    thumbnails.append(small)
    chosen.append(Emoji(character, own, picture))
  if len(chosen) < count:
    raise UsageError(
      f"num_emoji={count}: only {len(chosen)} emoji can be told apart; ask for that many or fewer"
    )
  return chosen


def _candidates(names: Names, optional: Collection[str]) -> list[tuple[str, dict[str, str]]]:
  """(emoji, language -> name) in the order of the code points."""
  found = []
  for character in sorted(names["en"]):
    if not _PICTOGRAPH.fullmatch(character):
      continue
    own = {language: held[character] for language, held in names.items() if character in held}
    named = all(language in own for language in names if language not in optional)
    if named and not any(_LIST_MARKS.search(name) for name in own.values()):
      found.append((character, own))
  return found
