"""A contact sheet: one HTML file that loads nothing, with examples as the model sees them (show.py)."""

import base64
import html
import io
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image

from xmcap import languages
from xmcap.data.checking.show import Example, Piece, ShownCaption
from xmcap.storage import files

_PIXELATED_BELOW = 160  # smaller pictures are enlarged, and their pixels are to be seen
_SOURCES = {"human": "human", "mt": "machine"}
_TITLES = {"byte": "a byte: the vocabulary has no piece", "unknown": "unknown to the vocabulary"}
_LEGEND = (
  ("prompt", "<th>", "prompt: the language asked for"),
  ("text", "▁piece", "piece of the target; ▁ is a space"),
  ("byte", "<0xE0>", "byte of a character without a piece"),
  ("unknown", "<unk>", "unknown to the vocabulary"),
  ("end", "end", "the end is learned"),
  ("cut", "cut", "cut at the target length; what follows is lost, and no end is learned"),
)

_STYLE = """
main { max-width: 1500px; }
.facts { display: flex; flex-wrap: wrap; gap: 10px 36px; margin: 22px 0 0; }
.facts dt { color: var(--soft); font-size: 0.8rem; }
.facts dd { font-weight: 600; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.facts dd.warn { color: var(--mark-0); }
.legend { margin: 24px 0 0; padding: 0; list-style: none; font-size: 0.84rem; color: var(--soft); gap: 8px 22px; }
.legend li { display: flex; gap: 8px; align-items: baseline; }
.legend .piece { flex: none; }
.cards { margin-top: 28px; display: grid; gap: 20px; align-items: start;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 620px), 1fr)); }
.card { padding: 18px; display: grid; grid-template-columns: 212px minmax(0, 1fr); gap: 18px 22px; }
.card h2 { font-size: 0.86rem; font-weight: 620; letter-spacing: 0; overflow-wrap: anywhere; margin-bottom: 8px;
  font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.side { position: sticky; top: 16px; align-self: start; }
.seen { display: block; width: 100%; height: auto; border-radius: 8px; background: var(--hover);
  box-shadow: 0 0 0 1px var(--line); }
.small .seen { image-rendering: pixelated; }
.published { display: flex; gap: 10px; align-items: center; margin-top: 10px; font-size: 0.78rem; line-height: 1.4;
  color: var(--soft); }
.published img { max-width: 72px; max-height: 72px; border-radius: 5px; box-shadow: 0 0 0 1px var(--line); }
.tags { margin-top: 8px; font-size: 0.78rem; color: var(--soft); overflow-wrap: anywhere; }
.captions { list-style: none; margin: 0; padding: 0; display: grid; gap: 15px; align-content: start; }
.captions > li + li { border-top: 1px solid var(--line); padding-top: 14px; }
.of { display: flex; flex-wrap: wrap; gap: 2px 10px; align-items: baseline; font-size: 0.8rem; color: var(--soft); }
.of .language { color: var(--ink); font-weight: 620; }
.of .length { margin-inline-start: auto; font-variant-numeric: tabular-nums; }
.of .length.over { color: var(--mark-0); font-weight: 620; }
.words { margin-top: 4px; overflow-wrap: anywhere; line-height: 1.45; }
.pieces { display: flex; flex-wrap: wrap; gap: 4px; margin-top: 7px; }
.piece { font: 0.78rem/1.35 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", "Noto Sans", sans-serif;
  padding: 2px 6px; border-radius: 5px; border: 1px solid var(--line); background: var(--hover); white-space: pre-wrap;
  overflow-wrap: anywhere; min-width: 0; }
.piece.prompt { background: var(--accent-soft); color: var(--accent); border-color: transparent; font-weight: 600; }
.piece.byte { color: var(--soft); border-style: dashed; background: none; }
.piece.unknown { background: var(--warn-soft); color: var(--warn); border-color: var(--warn-line); font-weight: 600; }
.piece.end { background: none; color: var(--good); border-color: currentcolor; }
.piece.cut { background: var(--mark-0); color: var(--sheet); border-color: transparent; font-weight: 600; }
.piece.lost { opacity: 0.85; background: none; text-decoration: line-through; color: var(--soft); }
.space { opacity: 0.45; }
.none { color: var(--soft); font-size: 0.9rem; }
.more { font-size: 0.78rem; color: var(--soft); margin-top: 14px; }
@media (max-width: 560px) {
  .card { grid-template-columns: minmax(0, 1fr); padding: 14px; }
  .side { position: static; }
  .small .seen, .seen { max-width: 260px; }
}
"""


def write_sheet(
  path: str | os.PathLike, shown: Sequence[Example], title: str, facts: Mapping[str, str], target_length: int
) -> None:
  """Writes a contact sheet. The same input gives the same bytes.

  Args:
    path: the file to write.
    shown: what is on it.
    title: its heading.
    facts: name -> value, said at its top.
    target_length: T, pieces of a target.

  Raises:
    XmcapError: the file cannot be written.
  """
  # Imported here: data stands beside scoring, and takes its page's colours and type.
  from xmcap.scoring.report import elements

  captions = [caption for example in shown for caption in example.captions]
  cut = sum(bool(caption.lost) for caption in captions)
  odd = sum(piece.kind == "unknown" for caption in captions for piece in caption.pieces)
  facts = {
    **facts,
    "Cut on this sheet": f"{cut:,} of {len(captions):,} captions",
    "Unknown pieces": f"{odd:,}",
  }
  warned = {"Cut on this sheet": cut, "Unknown pieces": odd}
  items = "".join(
    f'<div><dt>{_escape(name)}</dt><dd class="{"warn" if warned.get(name) else "fact"}">{_escape(value)}</dd></div>'
    for name, value in facts.items()
  )
  legend = "".join(
    f"<li>{_chip(Piece(text, kind))}<span>{_escape(words)}</span></li>" for kind, text, words in _LEGEND
  )
  count = f"{len(shown):,} picture{'' if len(shown) == 1 else 's'}, {len(captions):,} captions"
  head = elements.page_head(title, elements.resource("base.css") + _STYLE, images="data:")
  page = f"""{head}<main id="top">
<header class="page-head"><h1>{_escape(title)}</h1>
<p class="lede">{count}, as the model sees them</p>
<dl class="facts">{items}</dl>
<ul class="legend" aria-label="What the marks mean">{legend}</ul></header>
<div class="cards">
{"".join(_card(example, target_length) for example in shown)}</div>
</main>
</body>
</html>
"""
  files.write_text(pathlib.Path(path), page.encode("utf-8", "replace").decode())


def _card(example: Example, target_length: int) -> str:
  height, width = example.pixels.shape[:2]
  small = " small" if max(height, width) < _PIXELATED_BELOW else ""
  key = _escape(example.key)
  locale = f", taken for {_escape(example.locale)}" if example.locale else ""
  tags = f'<p class="tags">Tags: {_escape(", ".join(example.tags))}</p>' if example.tags else ""
  captions = "".join(_caption(caption, target_length) for caption in example.captions)
  if not captions:
    captions = '<li class="none">No caption in these languages: the picture counts nothing in training.</li>'
  stored = f"{example.size[0]:,} × {example.size[1]:,},<br>{example.num_bytes / 1e3:,.1f} kB{locale}"
  seen, published = _uri(example.pixels, "PNG"), _uri(example.published, "JPEG")
  more = f'<p class="more">{example.others:,} more captions in the record</p>' if example.others else ""
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
<p class="words" {spoken}>{_escape(caption.text)}</p>
<div class="pieces" {spoken}>{pieces}</div>
</li>
"""


def _chip(piece: Piece) -> str:
  if piece.kind == "end":
    return '<bdi class="piece end">end</bdi>'
  text = _escape(piece.text)
  if piece.kind in ("text", "lost"):
    text = text.replace("▁", '<span class="space">▁</span>')
  title = f' title="{_TITLES[piece.kind]}"' if piece.kind in _TITLES else ""
  return f'<bdi class="piece {piece.kind}"{title}>{text}</bdi>'


def _escape(text: str) -> str:
  """Text as HTML, also inside quotes; characters that a page may not hold become U+FFFD."""
  kept = "".join(char if char >= " " or char in "\t\n" else "\ufffd" for char in text)
  return html.escape(kept)


def _uri(pixels: np.ndarray, kind: str) -> str:
  buffer = io.BytesIO()
  Image.fromarray(pixels).save(buffer, kind, **({"quality": 85} if kind == "JPEG" else {"optimize": True}))
  return f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
