"""Writes a page on which people rate captions: a self-contained HTML file, and its key, which names the systems.

Neither the page nor its source reveals which system wrote a caption: items have opaque ids, and only the key
(`rating_join.join`) maps an id to its systems.
"""

import hashlib
import os
import pathlib
import string
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from xmcap import wording
from xmcap.errors import UsageError
from xmcap.files import files, outputs
from xmcap.human import page_texts, rating_join, rating_protocols
from xmcap.human.rating_items import RatingItem
from xmcap.human.rating_protocols import PROTOCOLS, RatingProtocol
from xmcap.pages.report import elements, pictures
from xmcap.reading.references import References


def key_path(path: str | os.PathLike) -> pathlib.Path:
  """Returns the path of the key of a page: `NAME.key.jsonl` beside `NAME.html`."""
  path = pathlib.Path(path)
  return path.with_name(f"{path.name.removesuffix('.html')}.key.jsonl")


def write_rating_page(
  path: str | os.PathLike,
  protocol: RatingProtocol,
  items: Sequence[RatingItem],
  images_dir: str | os.PathLike | None = None,
  references: References | None = None,
  rater: str = "",
  link: bool = False,
) -> None:
  """Writes a rating page and, beside it, its key. The same input gives the same bytes.

  Args:
    protocol, items: as for `rating_items.draw_items`.
    images_dir: folder with `KEY.jpg` or `KEY.png` for each image, else UsageError; None: the page shows the keys, for
      raters who have the pictures elsewhere.
    references: human captions, which the rater can unfold.
    rater: suggested name of the rater.
    link: whether the page links to the pictures by relative paths instead of embedding them.
  """
  asked = [item for item in items if item.asked]
  keys = list(dict.fromkeys(item.key for item in asked))
  sources = _picture_sources(keys, images_dir, pathlib.Path(path).parent if link else None)
  data = _page_data(protocol, asked, keys, sources, references or {}, rater)
  languages = list(data["languages"])
  # A page in one language starts in that language.
  language = page_texts.language_for(languages[0]) if len(languages) == 1 else page_texts.ENGLISH
  title = rating_protocols.translated(protocol, language).title
  text = fill_page("rating_page", language, title, data, link, scripts=["rating_show.js"])
  with outputs.together(key_path(path), folder=False):
    rating_join.write_rows(key_path(path), rating_join.key_rows(protocol, items))
    files.write_text(path, text)


def fill_page(
  name: str,
  language: str,
  title: str,
  data: Mapping[str, Any],
  link: bool,
  style: str = "",
  scripts: Sequence[str] = (),
) -> str:
  """Returns a page of this package in a language: its template `NAME.html` with the data for its script.

  The script is `NAME.js`, and after it `scripts`. `link` allows pictures that lie beside the page, instead of those
  that it holds. `style` follows the style sheet of the rating page.
  """
  css, template, *parts = (
    elements.resource(file, "xmcap.human")
    for file in ("rating_page.css", f"{name}.html", "page.js", f"{name}.js", *scripts)
  )
  allowed = "'self' file:" if link else "data:"
  script = "\n".join([elements.resource("shared.js"), *parts])
  head = elements.page_head(title, css + style, script, allowed, language=language)
  element = elements.script_json("data", data)
  return head + string.Template(template).substitute(
    no_script=elements.escape(page_texts.catalogue(language)["common"]["no_script"]),
    data=element,
    script=elements.inline("script", script),
  )


def _picture_sources(
  keys: Sequence[str], images_dir: str | os.PathLike | None, link_from: pathlib.Path | None
) -> list[str]:
  """Returns the `src` of each picture; [] without a folder."""
  if images_dir is None:
    return []
  paths = pictures.find_all(images_dir, keys)
  if link_from is None:
    sources = {key: pictures.data_uri(path) for key, path in paths.items()}
  else:
    links = {
      key: os.path.relpath(path, link_from) for key, path in paths.items() if pictures.is_linkable(path)
    }
    sources = {key: urllib.parse.quote(link) for key, link in links.items()}
  missing = [key for key in keys if not sources.get(key)]
  if missing:
    there = next((paths[key] for key in missing if key in paths), None)
    of_one = "" if there is None or link_from else f"; {there}: {pictures.problem(there.read_bytes())}"
    raise UsageError(
      f"{images_dir}: {len(missing):,} of {len(keys):,} pictures are missing or cannot be "
      f"{'shown by a browser' if link_from else 'read'} ({wording.first_few(missing)}); add them as KEY.jpg or KEY.png"
      f"{of_one}"
    )
  return [sources[key] or "" for key in keys]


def _page_data(
  protocol: RatingProtocol,
  items: Sequence[RatingItem],
  keys: Sequence[str],
  sources: Sequence[str],
  references: Mapping[str, Mapping[str, Sequence[str]]],
  rater: str,
) -> dict[str, Any]:
  """Returns the data for the script; each picture is included once, however many items show it."""
  places = {key: place for place, key in enumerate(keys)}
  languages = sorted({item.language for item in items})
  return {
    "page": hashlib.sha256("".join(item.id for item in items).encode()).hexdigest()[:12],
    # A user's rubric may be in any language.
    "is_own": protocol.name in PROTOCOLS,
    "texts": {
      language: {
        **page_texts.of_page(language, "rate"),
        "protocol": msgspec.to_builtins(rating_protocols.translated(protocol, language)),
      }
      for language in dict.fromkeys(map(page_texts.language_for, [page_texts.ENGLISH, *languages]))
    },
    "rater": rater,
    "languages": {
      code: {**elements.language(code), "page": page_texts.language_for(code)} for code in languages
    },
    "pictures": sources,
    # Without pictures the rater needs the keys to find them.
    "keys": [] if sources else keys,
    "items": [
      {
        "id": item.id,
        "language": item.language,
        "picture": places[item.key],
        "captions": item.captions,
        "references": references.get(item.key, {}).get(item.language, []),
      }
      for item in items
    ],
  }
