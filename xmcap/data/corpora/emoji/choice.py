"""Which emoji the corpus shows: spread over the list, and told apart by eye and by name."""

import dataclasses
import re

import numpy as np
from PIL import Image

from xmcap import languages
from xmcap.data.corpora.emoji import pictures as emoji_pictures
from xmcap.data.corpora.emoji import sources as emoji_sources
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
_OPTIONAL = ("mi", "quz")  # languages in which an emoji may go without a name


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


def choose(source: emoji_sources.Source, count: int) -> list[Emoji]:
  """The first `count` emoji of a fixed order; those of a smaller count are among those of a larger one.

  The order spreads over the list of emoji by code point (steps of the golden ratio), so that food, animals,
  faces and things all occur. Left out are emoji that lack a name in any language but Maori and Quechua, have
  the name of one chosen before in any language, or look like it when small.

  Raises:
    UsageError: fewer than `count` emoji can be told apart.
  """
  candidates = _candidates(source.cldr.names)
  order = np.argsort(np.arange(1, len(candidates) + 1) * _GOLDEN_RATIO % 1, kind="stable")
  taken: dict[str, set[str]] = {language: set() for language in languages.LANGUAGES}
  thumbnails: list[np.ndarray] = []
  chosen: list[Emoji] = []
  for index in order:
    if len(chosen) == count:
      break
    character, names = candidates[index]
    if any(name.casefold() in taken[language] for language, name in names.items()):
      continue
    picture = source.pictures.draw(character)
    if picture is None:
      continue
    small = emoji_pictures.thumbnail(picture)
    if any(np.sqrt(np.mean((small - other) ** 2)) < _MIN_DISTANCE for other in thumbnails):
      continue
    for language, name in names.items():
      taken[language].add(name.casefold())
    thumbnails.append(small)
    chosen.append(Emoji(character, names, picture))
  if len(chosen) < count:
    raise UsageError(
      f"num_emoji={count}: only {len(chosen)} emoji can be told apart; ask for that many or fewer"
    )
  return chosen


def _candidates(names: dict[str, dict[str, str]]) -> list[tuple[str, dict[str, str]]]:
  """(emoji, language -> name) in the order of the code points."""
  found = []
  for character in sorted(names["en"]):
    if not _PICTOGRAPH.fullmatch(character):
      continue
    own = {
      language: names[language][character] for language in languages.LANGUAGES if character in names[language]
    }
    named = all(language in own for language in languages.LANGUAGES if language not in _OPTIONAL)
    if named and not any(_LIST_MARKS.search(name) for name in own.values()):
      found.append((character, own))
  return found
