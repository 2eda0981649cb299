"""A page on which people rate captions: one HTML file that loads nothing, and its key, which names the systems.

What a rater can see, in the page or in its source, says nothing of which system wrote a caption: items have
opaque ids, and only the key (`rating_join.join`) leads from an id to the systems.
"""

import hashlib
import html
import importlib.resources
import json
import os
import pathlib
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xmcap import languages as languages_lib
from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.human import rating_join
from xmcap.scoring.human.rating_items import Item, draw_items
from xmcap.scoring.human.rating_rubric import PROTOCOLS, Criterion, Protocol
from xmcap.scoring.predictions import Predictions
from xmcap.scoring.references import References
from xmcap.storage import outputs

_POLICY = "default-src 'none'; img-src {images}; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_FIRST_FEW = 3


def key_path(path: str | os.PathLike) -> pathlib.Path:
  """Returns where the key of a page goes: `NAME.key.jsonl` beside `NAME.html`."""
  path = pathlib.Path(path)
  return path.with_name(f"{path.name.removesuffix('.html')}.key.jsonl")


def write_rating_page(
  path: str | os.PathLike,
  protocol: str,
  systems: Mapping[str, Predictions],
  images_dir: str | os.PathLike | None = None,
  references: References | None = None,
  languages: Sequence[str] | None = None,
  limit: int | None = None,
  seed: int = 0,
  rater: str = "",
  link: bool = False,
) -> list[Item]:
  """Writes a rating page and, beside it, its key. The same input gives the same bytes.

  Args:
    path: the page, an HTML file.
    protocol: `sxs` or `thumb`.
    systems: name -> predictions; see `rating_items.draw_items` for these, `languages`, `limit` and `seed`.
    images_dir: folder with `KEY.jpg` or `KEY.png`, one for each image that is rated; None: the page shows the
      keys, for raters who have the pictures elsewhere.
    references: captions by people, which the rater can unfold; None: none.
    rater: the name that the page proposes; order and sides depend on it.
    link: whether the page points to the pictures by relative paths instead of holding them.

  Returns:
    What is rated, in the order of the page.

  Raises:
    UsageError: as `draw_items`; no such protocol; or a picture is missing or cannot be read.
    XmcapError: a file cannot be written.
  """
  if protocol not in PROTOCOLS:
    raise UsageError(f"protocol '{files.shown(protocol)}': there are {' and '.join(PROTOCOLS)}")
  items = draw_items(protocol, systems, languages, limit, seed, rater)
  keys = list(dict.fromkeys(item.key for item in items))
  pictures = _pictures(keys, images_dir, pathlib.Path(path).parent if link else None)
  page = _page(PROTOCOLS[protocol], _data(protocol, items, keys, pictures, references or {}, rater), link)
  with outputs.together(key_path(path), folder=False):
    rating_join.write_rows(key_path(path), rating_join.key_rows(protocol, items))
    files.write_text(path, page)
  return items


def _pictures(
  keys: Iterable[str], images_dir: str | os.PathLike | None, link_from: pathlib.Path | None
) -> list[str]:
  """Returns the `src` of each image's picture; nothing without a folder."""
  if images_dir is None:
    return []
  from xmcap.scoring.report import pictures

  sources, missing = [], []
  for key in keys:
    found = pictures.find(pathlib.Path(images_dir), key)
    source = found and (pictures.data_uri(found) if link_from is None else _relative(found, link_from))
    if source is None:
      missing.append(files.shown(key))
    sources.append(source)
  if missing:
    few = ", ".join(missing[:_FIRST_FEW]) + (", ..." if len(missing) > _FIRST_FEW else "")
    raise UsageError(
      f"{images_dir}: {len(missing):,} of {len(sources):,} pictures are missing or cannot be read ({few}); add them "
      "as KEY.jpg or KEY.png"
    )
  return sources


def _relative(picture: pathlib.Path, folder: pathlib.Path) -> str:
  return urllib.parse.quote(pathlib.PurePath(os.path.relpath(picture, folder)).as_posix())


def _data(
  protocol: str,
  items: Sequence[Item],
  keys: Sequence[str],
  pictures: Sequence[str],
  references: References,
  rater: str,
) -> dict[str, Any]:
  """Returns what the script needs; a picture is held once, whatever the number of its items."""
  places = {key: place for place, key in enumerate(keys)}
  codes = sorted({item.language for item in items})
  return {
    "page": hashlib.sha256("".join(item.id for item in items).encode()).hexdigest()[:12],
    "protocol": protocol,
    "rater": rater,
    "languages": {
      code: {"name": language.english_name, "dir": language.direction}
      for code in codes
      for language in (languages_lib.get(code),)
    },
    "pictures": pictures,
    # Without pictures the rater needs the keys to find them.
    "keys": [] if pictures else keys,
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


def _page(protocol: Protocol, data: Mapping[str, Any], link: bool) -> str:
  policy = _POLICY.format(images="'self' file:" if link else "data:")
  title = html.escape(protocol.title)
  captions = ("Left", "Right") if protocol.name == "sxs" else ("Caption",)
  return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{_resource("rating_page.css")}</style>
</head>
<body class="{protocol.name}">
<header class="bar">
<p class="brand">{title}</p>
<div class="progress"><progress id="progress" max="{len(data["items"])}" value="0" aria-label="Rated"></progress>
<span id="rated"></span></div>
<div class="actions"><button type="button" id="rater-shown" title="Change the rater"></button>
<button type="button" id="help">Help <kbd>?</kbd></button>
<button type="button" id="save" class="primary">Save <kbd>S</kbd></button></div>
</header>
<p id="trouble" class="trouble" role="alert" hidden></p>
<noscript><p class="trouble">This page needs JavaScript; allow it, then load the page again.</p></noscript>
{_start(protocol)}
<main id="rating" hidden>
<figure id="figure"><img id="picture" alt="The picture to which the captions belong" hidden>
<p id="no-picture" hidden>Picture <code id="picture-key"></code></p></figure>
<div class="work">
<h1 id="place" tabindex="-1"></h1>
<div class="captions">{"".join(_caption(name) for name in captions)}</div>
<p id="same" class="note" hidden>The two captions are the same.</p>
<details id="references" hidden><summary>Captions by people <kbd>R</kbd></summary><ul></ul></details>
{"".join(map(_criterion, protocol.criteria))}
{_total(protocol)}
<aside class="advice" aria-label="Advice"><ul>{_list(protocol.advice)}</ul></aside>
</div>
</main>
<nav id="nav" aria-label="Items" hidden>
<button type="button" id="back"><kbd>←</kbd> Back</button>
<p id="message" role="status" aria-live="polite"></p>
<button type="button" id="unrated">Next unrated <kbd>U</kbd></button>
<button type="button" id="next" class="primary">Next <kbd>Enter</kbd></button>
</nav>
{_help(protocol)}
<script type="application/json" id="data">{_script_json(data)}</script>
<script>{_resource("rating_page.js")}</script>
</body>
</html>
"""


def _start(protocol: Protocol) -> str:
  rubric = "".join(
    f"<div><dt>{html.escape(criterion.heading)}</dt><dd>{html.escape(criterion.question)}</dd></div>"
    for criterion in protocol.criteria
  )
  rubric = f"<dl>{rubric}</dl>" if len(protocol.criteria) > 1 else ""
  return f"""<section id="start" hidden aria-labelledby="start-title"><form id="start-form">
<h1 id="start-title">{html.escape(protocol.title)}</h1>
<p id="extent" class="note"></p>
<p>{html.escape(protocol.task)}</p>
{rubric}
<ul>{_list(protocol.advice)}</ul>
<p>Answers stay in this browser until you save them: <kbd>S</kbd> writes a file, which you then hand in. You can
stop at any time and go on later.</p>
<label for="rater">Your name or number</label>
<div class="name"><input id="rater" type="text" required maxlength="100" autocomplete="off" spellcheck="false">
<button class="primary">Start <kbd>Enter</kbd></button></div>
<p class="note">It goes into the file that you save, and answers are kept under it.</p>
</form></section>"""


def _caption(name: str) -> str:
  return f'<section class="caption" aria-label="{name}"><h2>{name}</h2><p></p></section>'


def _criterion(criterion: Criterion) -> str:
  choices = "".join(
    f'<button type="button" class="choice" aria-pressed="false" data-value="{value:g}" data-key="{key}">'
    f'<span class="value">{_shown(criterion, value, key)}</span> <span class="meaning">{html.escape(meaning)}</span>'
    "</button>"
    for key, (value, meaning) in enumerate(criterion.choices, criterion.first_key)
  )
  default = "" if criterion.default is None else f' data-default="{criterion.default:g}"'
  return (
    f'<fieldset class="criterion" data-name="{criterion.name}"{default}><legend>{html.escape(criterion.heading)}'
    f'</legend><p class="question">{html.escape(criterion.question)}</p>'
    f'<div class="choices">{choices}</div></fieldset>'
  )


def _shown(criterion: Criterion, value: float, key: int) -> str:
  if criterion.default is None:
    return str(key)
  return f"\u2212{-value:g}" if value else "0"


def _total(protocol: Protocol) -> str:
  if protocol.name != "thumb":
    return ""
  return '<p class="total">Total <output id="total"></output> <span class="note">(P + R) / 2, less penalties</span></p>'


def _help(protocol: Protocol) -> str:
  first = protocol.criteria[0]
  keys = [(f"{first.first_key} to {first.first_key + len(first.choices) - 1}", "rate")]
  if len(protocol.criteria) > 1:
    keys = [
      ("1 to 5", "precision, then recall; the mark moves on by itself"),
      ("0 to 5", "a penalty: 0 for none, 1 for 0.1, 5 for 0.5"),
      ("↑ ↓", "to another question of the item"),
    ]
  keys += [
    ("Enter", "to the next item, once this one is rated"),
    ("← →", "to the item before or after, rated or not"),
    ("U", "to the next item that is not rated"),
    ("Home End", "to the first or the last item"),
    ("Delete", "take back the rating of the item"),
    ("R", "show or hide captions by people, where there are any"),
    ("S", "save what is rated so far to a file"),
    ("?", "this help; Esc closes it"),
  ]
  rows = "".join(
    f"<div><dt>{' '.join(f'<kbd>{part}</kbd>' if part != 'to' else part for part in key.split())}</dt>"
    f"<dd>{text}</dd></div>"
    for key, text in keys
  )
  return f"""<dialog id="help-dialog" aria-labelledby="help-title"><h2 id="help-title">Keys</h2>
<dl>{rows}</dl>
<p class="note">{html.escape(protocol.task)}</p>
<form method="dialog"><button class="primary">Close</button></form></dialog>"""


def _list(texts: Iterable[str]) -> str:
  return "".join(f"<li>{html.escape(text)}</li>" for text in texts)


def _script_json(value: object) -> str:
  # Inside <script> only "<" can end the element or open a comment.
  return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _resource(name: str) -> str:
  return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
