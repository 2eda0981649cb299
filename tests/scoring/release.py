"""Drawn references and predictions for them."""

import pathlib
import random

from tests.make import files

WORDS = {
  "en": ["a", "dog", "two", "cats", "run", "by", "the", "red", "house", "near", "water"],
  "ja": ["犬が走る", "猫", "赤い", "家", "水", "の", "そば"],
  "th": ["สุนัข", "แมว", "วิ่ง", "บ้าน", "สีแดง", "น้ำ"],
  "zh": ["一只狗", "两只猫", "跑", "红色", "房子", "水边"],
}


def captions(images: int, seed: int = 0) -> tuple[dict, dict]:
  """Returns references, three an image and language, and predictions."""
  draw = random.Random(seed)

  def caption(code):
    return " ".join(draw.choices(WORDS[code], k=draw.randint(2, 9)))

  keys = [f"{draw.getrandbits(64):016x}" for _ in range(images)]
  references = {key: {code: [caption(code) for _ in range(3)] for code in WORDS} for key in keys}
  return references, {key: {code: caption(code) for code in WORDS} for key in keys}


def write(folder: pathlib.Path, images: int) -> tuple[pathlib.Path, pathlib.Path]:
  """Writes references in the release's layout and predictions; returns the two files."""
  references, predictions = captions(images)
  path = files.release(folder / "captions.jsonl", references)
  return path, files.captions(folder / "given.jsonl", predictions)
