"""A release of captions for the benchmarks: XM3600's size and layout, in real words of its 36 languages.

XM3600 itself is behind a download. Here captions are made of the names that native speakers gave to emoji
(Unicode CLDR): an image has a topic of a few names; its references and the prediction draw from them, and from
all names, so that scores are neither 0 nor 10.
"""

import json
import pathlib
import random
import tempfile

from xmcap import languages
from xmcap.data.corpora import emoji_sources

_NAMES = 1_500
_WORDS = 9  # about what XM3600's captions have


def release(images: int = 3_600) -> tuple[pathlib.Path, pathlib.Path]:
  """Returns the paths of references (2 a language) and predictions, made once in the temporary folder."""
  out = pathlib.Path(tempfile.gettempdir()) / f"xmcap-benchmark-captions-{images}"
  references, predictions = out / "captions.jsonl", out / "predictions.jsonl"
  if not predictions.exists():
    out.mkdir(exist_ok=True)
    _write(references, predictions, images)
  return references, predictions


def _write(references: pathlib.Path, predictions: pathlib.Path, images: int) -> None:
  names = emoji_sources.find().cldr.names
  emoji = sorted(set.intersection(*(set(names[code]) for code in languages.LANGUAGES)))[:_NAMES]
  rng = random.Random(0)
  weights = [1 / (rank + 3) for rank in range(len(emoji))]
  lines = []
  with open(references, "w", encoding="utf-8") as file:
    for number in range(images):
      topic = rng.choices(emoji, weights, k=6)
      row = {"image/key": f"{number:016x}", "image/locale": list(languages.LANGUAGES)[number % 36]}
      for code, language in languages.LANGUAGES.items():
        texts = [_caption(rng, topic, emoji, weights, names[code], language.spaces) for _ in range(3)]
        lines.append({"image/key": row["image/key"], "language": code, "caption": texts.pop()})
        row[code] = {
          "caption": texts,
          "caption/tokenized": texts,
          "caption/tokenized/lowercase": [text.lower() for text in texts],
        }
      file.write(json.dumps(row, ensure_ascii=False) + "\n")
  partial = predictions.with_suffix(".partial")
  partial.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")
  partial.replace(predictions)


def _caption(rng, topic, emoji, weights, names, spaces: bool) -> str:
  length, parts = 0, []
  while length < _WORDS:
    name = names[rng.choice(topic) if rng.random() < 0.6 else rng.choices(emoji, weights)[0]]
    parts.append(name)
    length += len(name.split()) if spaces else 2
  text = (" " if spaces else "").join(parts)
  return f"{text[:1].upper()}{text[1:]}."
