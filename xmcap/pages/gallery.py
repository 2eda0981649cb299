"""A page of pictures with their captions in each language, which loads nothing and needs no script."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from xmcap import languages
from xmcap.pages.report import elements, pictures

MOST = 2_000
"""Pictures of a page, some 40 MB; a browser takes seconds to show more."""
_SIDE, _QUALITY = 320, 80


def lines(
  title: str, count: str, captions: Iterable[tuple[str, Mapping[str, str]]], read: Callable[[str], bytes]
) -> Iterator[str]:
  """Yields the page in pieces, a card for each image (key, {language: caption}).

  Args:
    title: of the page.
    count: a line under the title.
    captions: plain text, in the order of the cards.
    read: returns the bytes of a key's file, from which a small JPEG is made.
  """
  cards = (_card(key, of_image, read) for key, of_image in captions)
  page = elements.card_page(title, "gallery.css", elements.escape(count), "", cards)
  # The name of a file may hold bytes that are no text, which a page cannot.
  return (part.encode("utf-8", "replace").decode() for part in page)


def _card(key: str, of_image: Mapping[str, str], read: Callable[[str], bytes]) -> str:
  picture = pictures.thumbnail(lambda: read(key), _SIDE, _QUALITY)
  source = elements.picture_uri(picture) if picture else None
  image = f'<img src="{source}" alt="{elements.escape(key)}" loading="lazy">' if source else ""
  rows = "".join(_row(*row) for row in of_image.items())
  return f"""<article class="sheet card">{image}
<h2>{elements.escape(key)}</h2>
<table><tbody>{rows}</tbody></table></article>
"""


def _row(code: str, caption: str) -> str:
  language = languages.get(code)
  name = elements.tag("th", elements.escape(language.english_name), scope="row")
  return elements.tag(
    "tr", name + elements.tag("td", elements.escape(caption), lang=code, dir=language.direction)
  )
