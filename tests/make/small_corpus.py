"""A corpus as COCO-35L's will lie: pictures of one colour, captions in the 35 trained languages, two splits."""

import json
import pathlib

import pytest

from tests.make import images
from xmcap.data import record_writer, records, vocabulary
from xmcap.languages import LANGUAGES, TRAINED

SIDE = 40
SMALLER = tuple(
  f"--gin.{binding}"
  for binding in (
    "ViTConfig.width=32", "ViTConfig.depth=1", "ViTConfig.mlp_dim=64", "T5Config.emb_dim=32", "T5Config.head_dim=16",
    "T5Config.num_decoder_layers=1", "T5Config.mlp_dim=32",
  )
)  # fmt: skip
"""Makes models/tiny.gin tinier still: it compiles in seconds."""
ONE_LENGTH = ("--gin.TARGET_LENGTH=16", "--gin.CaptionStream.target_lengths=()")
"""One length of captions, so that step and evaluation are compiled once."""


def record(index: int, languages=TRAINED, captions: int = 2) -> records.Record:
  """A picture of one colour; a caption is the language's own name and two numbers."""
  image = images.plain((9 * index % 256, 5 * index % 256, 255 - index % 256), (SIDE, SIDE))
  texts = [
    records.Caption(code, f"{LANGUAGES[code].native_name} {index} {number}", source="mt")
    for code in languages
    for number in range(captions)
  ]
  return records.Record(f"{index:012d}", image, texts)


def write(
  out: pathlib.Path,
  name: str = "coco35l",
  train=12,
  validation=6,
  languages=TRAINED,
  pieces=700,
  captions: int = 2,
) -> pathlib.Path:
  """Writes the records, `vocabulary.model`, and the validation pictures in the release layout of XM3600."""
  splits = {"train": range(train), "validation": range(train, train + validation)}
  written = [
    record_writer.write_split(
      out, split, [[record(i, languages, captions) for i in numbers]], list, dataset=name, processes=1
    )
    for split, numbers in splits.items()
    if numbers
  ]
  record_writer.write_metadata(out, written, dataset=name)
  text = out / "text.txt"
  text.write_text(
    "".join(f"{caption.text}\n" for index in range(12) for caption in record(index, LANGUAGES).captions),
    encoding="utf-8",
  )
  vocabulary.train_vocabulary(str(text), str(out / "vocabulary.model"), size=pieces)
  (out / "images").mkdir()
  with open(out / "captions.jsonl", "w", encoding="utf-8") as references:
    for index in splits["validation"]:
      one = record(index, languages, captions)
      (out / "images" / f"{one.key}.png").write_bytes(one.image)
      last = {caption.language: {"caption": [caption.text]} for caption in one.captions}
      references.write(json.dumps({"image/key": one.key, "image/locale": "", **last}) + "\n")
  return out


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
  """The corpus that no test changes."""
  return write(tmp_path_factory.mktemp("corpus"))
