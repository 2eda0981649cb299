"""A small release and predictions for it, in the layouts that are read."""

import json
import pathlib
import random

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


def release(references: dict) -> str:
  """Returns references as lines of XM3600's release."""
  return "".join(
    json.dumps({"image/key": key} | {code: {"caption": texts} for code, texts in of_image.items()}) + "\n"
    for key, of_image in references.items()
  )


def plain(captions: dict) -> str:
  """Returns references (lists of texts) or predictions (texts) as plain lines."""
  return "".join(
    json.dumps({"image/key": key, "language": code, "caption": caption}) + "\n"
    for key, of_image in captions.items()
    for code, caption in of_image.items()
  )


def annotations(references: dict, language: str) -> str:
  """Returns the references of a language as COCO's annotations."""
  return json.dumps(
    {
      "images": [{"id": key} for key in references],
      "annotations": [
        {"image_id": key, "caption": text}
        for key, of_image in references.items()
        for text in of_image[language]
      ],
    }
  )


def results(predictions: dict, language: str) -> str:
  """Returns the predictions of a language as COCO's results."""
  return json.dumps(
    [{"image_id": key, "caption": of_image[language]} for key, of_image in predictions.items()]
  )


def write(folder: pathlib.Path, images: int) -> tuple[pathlib.Path, pathlib.Path]:
  """Writes references in the release's layout and predictions; returns the two files."""
  references, predictions = captions(images)
  files = folder / "captions.jsonl", folder / "given.jsonl"
  files[0].write_text(release(references))
  files[1].write_text(plain(predictions))
  return files
