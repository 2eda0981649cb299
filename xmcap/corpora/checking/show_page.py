"""Writes a contact sheet: one self-contained HTML file of examples as the model sees them (show.py)."""

import io
import os
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image

from xmcap import languages
from xmcap.corpora.checking.show import Piece, ShownCaption, ShownImage
from xmcap.files import files
from xmcap.pages.report import elements  # the colours and type of the report
from xmcap.pages.report.elements import escape

_PIXELATED_BELOW = 160  # smaller images are enlarged with visible pixels
_SOURCES = {"human": "human", "mt": "machine", "translated": "translated by people"}
_TITLES = {"byte": "a byte: the vocabulary has no piece for this", "unknown": "unknown to the vocabulary"}
_LEGEND = (
  ("prompt", "<th>", "prompt: the requested language"),
  ("text", "▁piece", "piece of the target; ▁ is a space"),
  ("byte", "<0xE0>", "byte of a character without a piece"),
  ("unknown", "<unk>", "unknown to the vocabulary"),
  ("end", "end", "end of sequence, which the model learns"),
  ("cut", "cut", "truncated at the target length; the rest is lost, and no end is learned"),
)


def write_sheet(
  path: str | os.PathLike,
  shown: Sequence[ShownImage],
  title: str,
  facts: Mapping[str, str],
  target_length: int,
) -> None:
  """Writes a contact sheet of images, with facts (name -> value) at the top; the same input gives the same bytes.

  `target_length` is T, in pieces. Raises XmcapError if the file cannot be written.
  """
  captions = [caption for picture in shown for caption in picture.captions]
  cut = sum(bool(caption.lost) for caption in captions)
  odd = sum(piece.kind == "unknown" for caption in captions for piece in caption.pieces)
  facts = {
    **facts,
    "Truncated on this sheet": f"{cut:,} of {len(captions):,} captions",
    "Unknown pieces": f"{odd:,}",
  }
  warned = {"Truncated on this sheet": cut, "Unknown pieces": odd}
  items = "".join(
    f'<div><dt>{escape(name)}</dt><dd class="{"warn" if warned.get(name) else "fact"}">{escape(value)}</dd></div>'
    for name, value in facts.items()
  )
  legend = "".join(
    f"<li>{_chip(Piece(text, kind))}<span>{escape(words)}</span></li>" for kind, text, words in _LEGEND
  )
  count = f"{len(shown):,} picture{'' if len(shown) == 1 else 's'}, {len(captions):,} captions"
  page = elements.card_page(
    title,
    "sheet.css",
    f"{count}, as the model sees them",
    f'<dl class="facts">{items}</dl>\n<ul class="legend" aria-label="Legend">{legend}</ul>',
    (_card(picture, target_length) for picture in shown),
  )
  files.write_lines(path, (part.encode("utf-8", "replace").decode() for part in page))


def _card(picture: ShownImage, target_length: int) -> str:
  record = picture.record
  height, width = picture.pixels.shape[:2]
  small = " small" if max(height, width) < _PIXELATED_BELOW else ""
  key = escape(record.key)
  locale = f", region {escape(record.locale)}" if record.locale else ""
  tags = f'<p class="tags">Tags: {escape(", ".join(record.tags))}</p>' if record.tags else ""
  tags += "".join(
    f'<p class="tags">Tags, {languages.get(language).english_name}: <span lang="{language}">'
    f"{escape(', '.join(of_language))}</span></p>"
    for language, of_language in record.tags_by_language.items()
  )
  captions = "".join(_caption(caption, target_length) for caption in picture.captions)
  if not captions:
    captions = '<li class="none">No caption in these languages: the picture has no weight in training.</li>'
  stored = f"{picture.size[0]:,} × {picture.size[1]:,},<br>{len(record.image) / 1e3:,.1f} kB{locale}"
  seen, published = _uri(picture.pixels, "PNG"), _uri(picture.published, "JPEG")
  more = f'<p class="more">{picture.others:,} more captions in the record</p>' if picture.others else ""
  return f"""<article class="sheet card{small}">
<div class="side"><h2>{key}</h2>
<img class="seen" width="{width}" height="{height}" src="{seen}" alt="{key} as the model sees it">
<div class="published"><img src="{published}" alt="{key} as stored">
<span>stored: {stored}</span></div>{tags}</div>
<div><ul class="captions">{captions}</ul>{more}</div>
</article>
"""


def _caption(caption: ShownCaption, target_length: int) -> str:
  language = languages.get(caption.language)
  prompt = "".join(map(_chip, caption.prompt))
  pieces = "".join(map(_chip, caption.pieces))
  total = len(caption.pieces) + len(caption.lost)
  if caption.lost:
    pieces += _chip(Piece("cut", "cut")) + "".join(
      _chip(Piece(piece.text, "lost")) for piece in caption.lost if piece.kind != "end"
    )
  over = " over" if caption.lost else ""
  spoken = f'lang="{caption.language}" dir="{language.direction}"'
  return f"""<li>
<div class="of"><span dir="ltr">{prompt}</span><span class="language">{language.english_name}</span>
<span>{_SOURCES.get(caption.source, caption.source)}</span>
<span class="length{over}">{total:,} of {target_length:,} pieces</span></div>
<p class="words" {spoken}>{escape(caption.text)}</p>
<div class="pieces" {spoken}>{pieces}</div>
</li>
"""


def _chip(piece: Piece) -> str:
  if piece.kind == "end":
    return '<bdi class="piece end">end</bdi>'
  text = escape(piece.text)
  if piece.kind in ("text", "lost"):
    text = text.replace("▁", '<span class="space">▁</span>')
  title = f' title="{_TITLES[piece.kind]}"' if piece.kind in _TITLES else ""
  return f'<bdi class="piece {piece.kind}"{title}>{text}</bdi>'


def _uri(pixels: np.ndarray, kind: str) -> str:
  buffer = io.BytesIO()
  Image.fromarray(pixels).save(buffer, kind, **({"quality": 85} if kind == "JPEG" else {"optimize": True}))
  return elements.picture_uri(buffer.getvalue(), kind.lower())
