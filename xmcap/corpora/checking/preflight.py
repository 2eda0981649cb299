"""Quick checks of a corpus and its vocabulary on a sample, for faults that a run would only hit hours later."""

import dataclasses
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from xmcap import languages as languages_lib
from xmcap.data import images, records
from xmcap.data.mixture import StreamPart, parts_of
from xmcap.data.vocabulary import Vocabulary, check_prompts
from xmcap.errors import UsageError
from xmcap.terminal import shown

# Evenly spaced records to read, and the number if languages are still missing.
_SAMPLE, _LARGER_SAMPLE = 256, 4096
_COUNTED = 64  # captions per language whose pieces are counted


@dataclasses.dataclass(frozen=True)
class SplitSample:
  """A sample of a split.

  Attributes:
    images: number of records in the split.
    looked_at: number of records in the sample.
    captions: language of the stream -> captions of the sample.
    missing: languages of the stream without captions in the sample; of several corpora, in that of any.
  """

  images: int
  looked_at: int
  captions: Mapping[str, Sequence[str]]
  missing: tuple[str, ...]


def read_split(stream: Any) -> SplitSample:
  """Reads a sample of a stream's split, including the first and the last record, and decodes the images of these two.

  Of several corpora, it does so for each. XmcapError names a damaged record or image.
  """
  captions: dict[str, list[str]] = {}
  is_stored = bool(getattr(stream, "features", ""))
  parts = [_read_part(part, captions, None if is_stored else stream.image_size) for part in parts_of(stream)]
  missing = tuple(dict.fromkeys(language for _, of_part in parts for language in of_part))
  return SplitSample(len(stream.source), sum(looked for looked, _ in parts), captions, missing)


def _read_part(
  part: StreamPart, captions: dict[str, list[str]], image_size: int | None
) -> tuple[int, list[str]]:
  """Adds the captions of a sample; returns the number of its records, and the languages without a caption.

  No image is decoded if `image_size` is None.
  """
  source, missing = part.source, list(part.weights)
  seen: set[int] = set()
  languages: set[str] = set()
  for size in (_SAMPLE, _LARGER_SAMPLE):
    new = [index for index in records.spread(source, size).tolist() if index not in seen]
    seen.update(new)
    for index, record in zip(new, source.iterate(new), strict=True):
      records.check(record)
      if index in (0, len(source) - 1) and image_size is not None:
        images.load(record.image, record.key, image_size)
      for caption in part.captions(record):
        captions.setdefault(caption.language, []).append(caption.text)
        languages.add(caption.language)
    missing = [language for language in part.weights if language not in languages]
    if not missing:
      break
  return len(seen), missing


def check_vocabulary(
  vocabulary: Vocabulary, languages: Sequence[str], captions: Mapping[str, Sequence[str]]
) -> None:
  """Checks that each language has its own prompt, and that text in it survives encoding and decoding.

  The text is the language's first caption, or the language's native name. Intended changes by SentencePiece's
  `nmt_nfkc` (compatibility characters, invisible characters, white space) do not count, nor do unknown words of a
  vocabulary of words.
  """
  check_prompts(vocabulary, languages)
  if vocabulary.reads_words:
    return
  for language in languages:
    text = next(iter(captions.get(language, ())), languages_lib.get(language).native_name)
    back = vocabulary.decode(vocabulary.encode(text))
    if _plain(back) != _plain(text):
      raise UsageError(
        f"{vocabulary.path}: '{shown(text)}' ({language}) decodes to '{shown(back)}': "
        f"give a vocabulary that supports '{language}'"
      )


def cut_share(vocabulary: Vocabulary, captions: Mapping[str, Sequence[str]], target_length: int) -> float:
  """Returns the share of captions with more than `target_length` pieces, including EOS."""
  texts = [text for of_language in captions.values() for text in of_language[:_COUNTED]]
  longer = sum(len(ids) + 1 > target_length for ids in vocabulary.encode_all(texts))
  return longer / max(len(texts), 1)


def _plain(text: str) -> str:
  normal = unicodedata.normalize("NFKC", text)
  return "".join(char for char in normal if unicodedata.category(char)[0] not in "CZ")
