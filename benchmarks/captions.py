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
from xmcap.corpora.emoji import sources as emoji_sources

_NAMES = 1_500
# Mean words a caption in XM3600, or characters where there are no spaces, in the order of the codes: Table 1 of
# Thapliyal et al. (2022).
_LENGTHS = (
  7.7, 11.3, 6.5, 8.7, 11.2, 7.7, 9.4, 9.8, 12.7, 7.5, 12.2, 12.3, 11.9, 13.4, 9.0, 8.5, 14.3, 12.1,
  26.0, 7.0, 11.7, 8.0, 9.6, 8.3, 10.8, 5.0, 15.6, 9.9, 8.1, 10.7, 7.1, 47.9, 9.4, 10.0, 18.0, 23.0,
)  # fmt: skip


def release(images: int = 3_600) -> tuple[pathlib.Path, pathlib.Path]:
  """Returns the paths of references (2 a language) and predictions, made once in the temporary folder."""
  out = pathlib.Path(tempfile.gettempdir()) / f"xmcap-benchmark-release-{images}"
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
      for (code, language), size in zip(languages.LANGUAGES.items(), _LENGTHS, strict=True):
        texts = [_caption(rng, topic, emoji, weights, names[code], language.spaces, size) for _ in range(3)]
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


def _caption(rng, topic, emoji, weights, names, spaces: bool, length: float) -> str:
  text, size = "", 0
  # The last name takes a caption past its mark, so the mark stands before the length wanted.
  mark = rng.gauss(length, length / 4) - (1.4 if spaces else 7)
  while size < mark or not text:
    name = names[rng.choice(topic) if rng.random() < 0.6 else rng.choices(emoji, weights)[0]]
    text += f" {name}" if text and spaces else name
    size += len(name.split()) if spaces else len(name)
  return f"{text[:1].upper()}{text[1:]}."
