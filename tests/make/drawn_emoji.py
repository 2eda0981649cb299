"""A small source of names and pictures, so that no test needs a font, CLDR or the network."""

import pytest
from PIL import Image, ImageDraw

from xmcap import languages
from xmcap.corpora.emoji import cldr
from xmcap.corpora.emoji import sources as emoji_sources

AND = cldr.ListPattern("{0} and {1}", "{0}, {1}", "{0}, {1}", "{0}, and {1}")
COMMA = cldr.ListPattern("{0}, {1}", "{0}, {1}", "{0}, {1}", "{0}, {1}")


class DrawnPictures:
  """Blocks of colour in places that the code point decides, unlike one another; 1F315 has no picture."""

  def draw(self, emoji):
    number = ord(emoji) - 0x1F300
    if number == 21:
      return None
    picture = Image.new("RGBA", (40, 30))
    draw = ImageDraw.Draw(picture)
    for place in range(5):
      colour = ((number * 97 + place * 53) % 256, (number * 31 + place * 101) % 256, (number * 71) % 256, 255)
      draw.rectangle((place * 8, (number * 7 + place * 11) % 15, place * 8 + 7, 29), fill=colour)
    return picture


def _shared(language, emoji):
  number = ord(emoji) - 0x1F300
  return [f"{language} even"] * (number % 2 == 0) + [f"{language} first"] * (number < 2)


@pytest.fixture
def source():
  """24 emoji named in every language, but 1F302 in no Maori, 1F303 in no Quechua, and 1F304 in no German."""
  names = {
    language: {chr(0x1F300 + number): f"{language} thing {number}" for number in range(24)}
    for language in languages.LANGUAGES
  }
  del names["mi"]["\U0001f302"], names["quz"]["\U0001f303"], names["de"]["\U0001f304"]
  # All even ones share a keyword, and 1F300 and 1F301 another; each also has one of its own.
  keywords = {
    language: {emoji: [f"{language} own {ord(emoji):x}", *_shared(language, emoji)] for emoji in of_language}
    for language, of_language in names.items()
  }
  standard = {language: AND for language in languages.LANGUAGES} | {"mi": COMMA}
  plain = {language: COMMA for language in languages.LANGUAGES if language not in ("mi", "quz")}
  return emoji_sources.EmojiSource("drawn", cldr.Cldr(names, keywords, standard, plain), DrawnPictures())
