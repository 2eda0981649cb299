"""Checks of a corpus and its vocabulary that read a little of each: what a run would otherwise meet hours later."""

import dataclasses
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmcap import languages as languages_lib
from xmcap.data import images, records
from xmcap.data.vocabulary import MT5_SIZE, ROW_MULTIPLE, UNK_ID, Vocabulary, language_piece
from xmcap.errors import UsageError
from xmcap.terminal import shown

# Evenly spaced pictures read at first, and then where languages are still missing.
_SAMPLE, _LARGER_SAMPLE = 256, 4096
_CHUNK = 64


@dataclasses.dataclass(frozen=True)
class Split:
  """What was found in a split.

  Attributes:
    pictures: in the split.
    looked_at: records read and checked, the first and the last among them.
    captions: language -> its captions in those records.
    missing: languages of the stream with no caption there.
  """

  pictures: int
  looked_at: int
  captions: Mapping[str, Sequence[str]]
  missing: tuple[str, ...]


def read_split(stream: Any) -> Split:
  """Reads a sample of a stream's split, the first and the last record among them; these two are decoded as well.

  Raises:
    XmcapError: a record or a picture is damaged; names it.
  """
  source = stream.source
  wanted = tuple(getattr(stream, "languages", ()))
  captions: dict[str, list[str]] = {}
  seen: set[int] = set()
  for size in (_SAMPLE, _LARGER_SAMPLE):
    sample = np.unique(np.linspace(0, len(source) - 1, min(len(source), size)).astype(np.int64))
    new = [int(index) for index in sample if int(index) not in seen]
    seen.update(new)
    for start in range(0, len(new), _CHUNK):
      found = source.read(new[start : start + _CHUNK])
      for index, record in zip(new[start : start + _CHUNK], found, strict=True):
        records.check(record)
        if index in (0, len(source) - 1):
          images.load(record.image, record.key, stream.image_size)
        for caption in record.captions:
          captions.setdefault(caption.language, []).append(caption.text)
    if all(language in captions for language in wanted):
      break
  missing = tuple(language for language in wanted if language not in captions)
  return Split(len(source), len(seen), captions, missing)


def check_rows(vocabulary: Vocabulary, rows: int) -> None:
  """Raises UsageError where a vocabulary is not of the size that a model was made for.

  A model has a row for each piece, rounded up to a multiple of 128. Too few pieces are as wrong as too many: text would
  be read, in ids that mean something else to the model.
  """
  if vocabulary.rows == rows:
    return
  how = (
    f"do not fit the model's {rows:,} rows"
    if vocabulary.size > rows
    else f"leave many of {rows:,} rows unused"
  )
  mt5 = ", mT5's model of 250,100 pieces" if rows == -(-MT5_SIZE // ROW_MULTIPLE) * ROW_MULTIPLE else ""
  raise UsageError(
    f"{vocabulary.path}: {vocabulary.size:,} pieces {how} (T5Config.vocab_size): "
    f"give the vocabulary that the model is for{mt5}, --gin.VOCABULARY=PATH, or change the model"
  )


def check_prompts(vocabulary: Vocabulary, languages: Sequence[str]) -> None:
  """Checks that each language has a prompt of its own.

  That is its LangId piece, such as `<th>`. Only mT5's own model may go without: there it is the code as text.

  Args:
    vocabulary: its special ids were checked when it was opened.
    languages: codes.

  Raises:
    UsageError: names the languages that have no prompt, or share one.
  """
  without = [language for language in languages if not vocabulary.has_language_piece(language)]
  if without and (len(without) < len(languages) or vocabulary.size != MT5_SIZE):
    raise UsageError(
      f"{vocabulary.path}: no LangId piece such as {language_piece(without[0])} for {' '.join(without)} among its "
      f"{vocabulary.size:,} pieces: give mT5's model ({MT5_SIZE:,} pieces, prompted by the code as text), or one that "
      "`xmcap.data.vocabulary.train_vocabulary` wrote"
    )
  owners: dict[tuple[int, ...], str] = {}
  for language in languages:
    prompt = tuple(vocabulary.prompt(language))
    if not prompt or UNK_ID in prompt:
      raise UsageError(
        f"{vocabulary.path}: the prompt of '{language}' is unknown to it: give another vocabulary"
      )
    other = owners.setdefault(prompt, language)
    if other != language:
      raise UsageError(
        f"{vocabulary.path}: '{other}' and '{language}' have the same prompt: give another one"
      )


def check_vocabulary(
  vocabulary: Vocabulary, languages: Sequence[str], captions: Mapping[str, Sequence[str]]
) -> None:
  """Checks that each language has a prompt of its own, and that text in it survives encoding and decoding.

  What SentencePiece's `nmt_nfkc` changes on purpose (compatibility characters, invisible ones, white space) does
  not count.

  Args:
    vocabulary, languages: see `check_prompts`.
    captions: language -> captions, of which the first is tried; a language's own name where there are none.

  Raises:
    UsageError: names the language and what came back.
  """
  check_prompts(vocabulary, languages)
  for language in languages:
    text = next(iter(captions.get(language, ())), languages_lib.get(language).native_name)
    back = vocabulary.decode(vocabulary.encode(text))
    if _plain(back) != _plain(text):
      raise UsageError(
        f"{vocabulary.path}: '{shown(text)}' ({language}) comes back as '{shown(back)}': "
        f"give a vocabulary that knows '{language}'"
      )


def cut_share(vocabulary: Vocabulary, captions: Mapping[str, Sequence[str]], target_length: int) -> float:
  """The share of captions that have more than `target_length` pieces, their end included."""
  texts = [text for of_language in captions.values() for text in of_language[:_CHUNK]]
  longer = sum(len(ids) + 1 > target_length for ids in vocabulary.encode_all(texts))
  return longer / max(len(texts), 1)


def _plain(text: str) -> str:
  return "".join(
    char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char)[0] not in "CZ"
  )
