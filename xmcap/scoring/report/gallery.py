"""The gallery of the report: pictures with references and prediction in a language of the reader's choice."""

import html
import json
import os
import pathlib
from collections.abc import Mapping

from xmcap import languages
from xmcap.scoring.predictions import Predictions
from xmcap.scoring.references import References
from xmcap.scoring.report import pictures
from xmcap.scoring.scores import Scores

MAX_PICTURES = 60


def gallery(
  scores: Mapping[str, Scores],
  references: References,
  predictions: Predictions,
  images_dir: str | os.PathLike | None,
) -> str:
  """Returns the section of the page: controls, a card a picture, and the captions as JSON for the script.

  At most `MAX_PICTURES` images, evenly spread over those that were scored, so that none is picked for its
  score. The cards show the first language without any script.
  """
  first = "en" if "en" in scores else next(iter(scores))
  scored = {key for of_language in scores.values() for key in of_language.keys}
  keys = _spread([key for key in references if key in scored])
  captions = _captions(set(keys), scores, references, predictions)
  cards, missing = [], []
  for key in keys:
    path = pictures.find(pathlib.Path(images_dir), key) if images_dir is not None else None
    uri = pictures.data_uri(path) if path is not None else None
    if images_dir is not None and uri is None:
      missing.append(key)
    cards.append(_card(key, uri, images_dir is not None, captions[key].get(first), first))
  notes = [f"{len(keys):,} of {len(scored):,} images, spread evenly over the file, whatever their score."]
  if missing:
    few = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
    notes.append(f"No readable picture in the folder for {len(missing):,} of them: {few}.")
  options = "".join(
    f'<option value="{code}"{" selected" if code == first else ""}>'
    f"{html.escape(languages.get(code).english_name)} ({code})</option>"
    for code in scores
  )
  data = {
    "languages": {
      code: {"dir": languages.get(code).direction, "name": languages.get(code).english_name}
      for code in scores
    },
    "pictures": {key: captions[key] for key in keys},
  }
  return f"""<section aria-labelledby="gallery-title">
<header class="section-head"><div><h2 id="gallery-title">Pictures</h2>
<p class="note">{html.escape(" ".join(notes))}</p></div>
<div class="controls">
<label>Language <select id="language">{options}</select></label>
<label>Order <select id="order"><option value="file">as in the file</option>
<option value="worst">lowest CIDEr-D first</option>
<option value="best">highest CIDEr-D first</option></select></label>
<label class="check"><input type="checkbox" id="wrong"> only those not exact</label>
</div></header>
<p id="shown" class="note" role="status" aria-live="polite"></p>
<div class="cards" id="cards">{"".join(cards)}</div>
<script type="application/json" id="gallery-data">{_script_json(data)}</script>
</section>"""


def _captions(
  keys: set[str], scores: Mapping[str, Scores], references: References, predictions: Predictions
) -> dict[str, dict[str, dict]]:
  captions: dict[str, dict[str, dict]] = {}
  for code, of_language in scores.items():
    statistics = of_language.statistics
    for i, key in enumerate(of_language.keys):
      if key not in keys:
        continue
      captions.setdefault(key, {})[code] = {
        "prediction": predictions[key][code],
        "references": references[key][code],
        "score": round(float(statistics["cider_d"][i, 0]), 3),
        "exact": bool(statistics["exact"][i, 0]),
      }
  return captions


def _spread(keys: list[str]) -> list[str]:
  if len(keys) <= MAX_PICTURES:
    return keys
  return [keys[i * len(keys) // MAX_PICTURES] for i in range(MAX_PICTURES)]


def _card(key: str, uri: str | None, wanted: bool, caption: dict | None, language: str) -> str:
  name = html.escape(key)
  if uri is not None:
    picture = f'<div class="picture"><img src="{uri}" alt="Picture {name}" loading="lazy"></div>'
  else:
    picture = '<div class="picture none">no readable picture</div>' if wanted else ""
  direction = languages.get(language).direction
  text = caption or {"prediction": "", "references": [], "score": 0.0, "exact": False}
  items = "".join(f"<li>{html.escape(reference)}</li>" for reference in text["references"])
  badge = "exact" if text["exact"] else f"{text['score']:.2f}"
  absent = "" if caption is None else " hidden"
  present = " hidden" if caption is None else ""
  prediction = html.escape(text["prediction"].strip()) or '<em class="empty">empty caption</em>'
  badge_class = "badge exact" if text["exact"] else "badge"
  return f"""<article class="card" data-key="{name}">{picture}
<div class="body"><div class="captions"{present}>
<p class="prediction" lang="{language}" dir="{direction}">{prediction}</p>
<ul class="references" lang="{language}" dir="{direction}" aria-label="References">{items}</ul></div>
<p class="absent note"{absent}>No reference in this language.</p>
<footer><code>{name}</code><span class="{badge_class}"{present}>{badge}</span></footer>
</div></article>"""


def _script_json(value: object) -> str:
  # Inside <script> only "<" can end the element or open a comment.
  return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
