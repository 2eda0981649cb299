"""Files of document frequencies, so that scores of different corpora can be weighed alike.

Gzip-compressed JSONL: a line a language, `{"language", "tokenizer", "images", "vocabulary", "orders"}`; an order
holds `prefix`, `word` and `frequency`, lists as in `DocumentFrequency`.
"""

import gzip
import io
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from xmcap.errors import UsageError
from xmcap.scoring import files, layouts, tokenizers
from xmcap.scoring.inputs import MAX_UNPACKED, Input
from xmcap.scoring.metrics.document_frequency import DocumentFrequency
from xmcap.terminal import shown

_MOST_IMAGES = 1 << 40
_ORDERS = 4  # of n-grams, from 1 word to 4: as many as `DocumentFrequency.of` counts


def write(path: str | os.PathLike, frequencies: Mapping[str, DocumentFrequency], tokenizer: str) -> None:
  """Writes the document frequencies of languages, found with a tokeniser of the given name."""
  buffer = io.BytesIO()
  # No time and no name in the header: the same frequencies are the same bytes.
  with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as packed:
    for language, held in frequencies.items():
      line = {
        "language": language,
        "tokenizer": _version(tokenizer, language),
        "images": held.num_images,
        "vocabulary": held.vocabulary,
        "orders": [
          {"prefix": prefix.tolist(), "word": word.tolist(), "frequency": frequency.tolist()}
          for prefix, word, frequency in zip(held.prefix, held.word, held.frequency, strict=True)
        ],
      }
      packed.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
  files.write_binary(path, lambda file: file.write(buffer.getvalue()))


def read(path: str | os.PathLike, tokenizer: str) -> dict[str, DocumentFrequency]:
  """Reads document frequencies for use with a tokeniser.

  Raises:
    UsageError: the file cannot be read, holds something else, or its words were found by another tokeniser.
  """
  frequencies = {}
  with Input(path, max_line=MAX_UNPACKED) as source:
    for number, row in source.rows():
      where = f"{path}, line {number}"
      language, version = layouts.text(row, "language", where), layouts.text(row, "tokenizer", where)
      files.check_language(language, where)
      if language in frequencies:
        raise UsageError(f"{where}: a second line of {language}; make the file with xmcap score --save_df")
      wanted = _version(tokenizer, language)
      if version != wanted:
        raise UsageError(
          f"{where}: words of {language} were found by {shown(version)}, and would now be by {wanted}; "
          "make the file again"
        )
      try:
        frequencies[language] = _parse(row)
      except (KeyError, TypeError, ValueError, OverflowError):
        raise UsageError(f"{where}: damaged; make the file again with xmcap score --save_df") from None
  if not frequencies:
    raise UsageError(f"{path}: no language in it; make it with xmcap score --save_df")
  return frequencies


def _parse(row: dict[str, Any]) -> DocumentFrequency:
  """Returns the frequencies of a line; ValueError, KeyError or TypeError if it does not hold them."""
  vocabulary, images = row["vocabulary"], row["images"]
  if not isinstance(images, int) or not 1 <= images <= _MOST_IMAGES:
    raise ValueError("images")
  if layouts.texts(vocabulary) is None or sorted(set(vocabulary)) != vocabulary:
    raise ValueError("vocabulary")
  orders, before = [], 1
  for order in row["orders"]:
    prefix, word, frequency = (
      np.array(order[name], np.int64).reshape(-1) for name in ("prefix", "word", "frequency")
    )
    keys = prefix * len(vocabulary) + word
    if not (len(prefix) == len(word) == len(frequency)) or (np.diff(keys) <= 0).any():
      raise ValueError("order")
    limits = (prefix, 0, before - 1), (word, 0, len(vocabulary) - 1), (frequency, 1, images)
    for values, low, high in limits:
      if len(values) and (values.min() < low or values.max() > high):
        raise ValueError("range")
    orders.append((prefix, word, frequency))
    before = len(prefix)
  if len(orders) != _ORDERS:
    raise ValueError("orders")
  return DocumentFrequency(images, tuple(vocabulary), *zip(*orders, strict=True))


def _version(tokenizer: str, language: str) -> str:
  return f"{tokenizer}-{tokenizers.get(tokenizer, language).version}"
