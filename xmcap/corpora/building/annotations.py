"""`annotations.jsonl`: tags and sentences of a corpus with the words and parts of speech of its release.

A line is about one image, whether its pixels were found or not:

  {"image/key": "COCO_val2014_000000000042", "split": "val", "tags": {"zh": ["狗"]}, "sentences": [
    {"language": "zh", "source": "human", "text": "一只狗", "words": ["一", "只", "狗"], "parts": ["m", "q", "n"]}]}

`words` and `parts` are as long as each other, and empty where the release does not segment the sentence. Records keep
captions and tags; this keeps what labels and statistics need beside them.
"""

import os
import pathlib
from collections.abc import Iterable, Iterator

import msgspec

from xmcap.errors import UsageError
from xmcap.files import files
from xmcap.reading.inputs import Input

NAME = "annotations.jsonl"


class Sentence(msgspec.Struct, omit_defaults=True):
  """A sentence about an image; `source` as in `records.SOURCES`, `parts` of speech one a word, "" where unknown."""

  language: str
  source: str
  text: str
  words: list[str] = []
  parts: list[str] = []


class Annotated(msgspec.Struct):
  """An image: its split, tags by language, and sentences, of each language and source in their order."""

  key: str = msgspec.field(name="image/key")
  split: str
  tags: dict[str, list[str]] = {}
  sentences: list[Sentence] = []


def write(folder: pathlib.Path, images: Iterable[Annotated]) -> None:
  """Writes the file into a folder."""
  with files.whole(folder / NAME) as lines:
    for image in images:
      lines.write(msgspec.json.encode(image) + b"\n")


def read(path: str | os.PathLike) -> Iterator[Annotated]:
  """Yields the images of a file; UsageError where it is absent or a line is of another form."""
  decoder = msgspec.json.Decoder(Annotated)
  with Input(path) as source:
    for number, line in source.raw_lines():
      try:
        image = decoder.decode(line)
      except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}, line {number}: {error}: build the corpus again") from None
      if any(len(sentence.words) != len(sentence.parts) for sentence in image.sentences):
        raise UsageError(f"{path}, line {number}: not one part of speech a word: build the corpus again")
      yield image
