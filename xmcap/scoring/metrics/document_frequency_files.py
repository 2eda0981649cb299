"""Files of document frequencies, so that scores on different corpora can use the same weights.

The format is gzip-compressed JSONL with one line per language: `{"language", "tokenizer", "images", "vocabulary",
"orders"}`. An order has the lists `prefix`, `word` and `frequency`, sorted by the first two. For each n-gram, `prefix`
is the index of its first n - 1 words in the previous order (0 in the first order), `word` the index of its last word in
the vocabulary, and `frequency` the number of images that have it.
"""

import gzip
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.files import files
from xmcap.reading import jsonl, layouts
from xmcap.reading.inputs import MAX_UNPACKED
from xmcap.scoring import tokenizers
from xmcap.scoring.metrics.document_frequency import ORDERS, DocumentFrequency
from xmcap.terminal import shown

_MOST_IMAGES = 1 << 40
_ORDER = ("prefix", "word", "frequency")


def write(
  path: str | os.PathLike, frequencies: Mapping[str, DocumentFrequency], tokenizer: str, normalize: str = ""
) -> None:
  """Writes the document frequencies of languages, counted with the named tokeniser and normalisation."""
  # Without time and name in the header, the same frequencies give the same bytes.
  with files.whole(path) as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as packed:
    for language, of_language in frequencies.items():
      line = {
        "language": language,
        "tokenizer": _version(tokenizer, language, normalize),
        "images": of_language.num_images,
        "vocabulary": of_language.vocabulary,
        "orders": _orders(of_language),
      }
      packed.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


def _orders(frequencies: DocumentFrequency) -> list[dict[str, list[int]]]:
  orders, places = [], {(): 0}
  for ngrams, frequency in zip(frequencies.ngrams, frequencies.frequency, strict=True):
    of_ngram = sorted(zip(map(tuple, ngrams.tolist()), frequency.tolist(), strict=True))
    orders.append(
      {
        "prefix": [places[ngram[:-1]] for ngram, _ in of_ngram],
        "word": [ngram[-1] for ngram, _ in of_ngram],
        "frequency": [count for _, count in of_ngram],
      }
    )
    places = {ngram: place for place, (ngram, _) in enumerate(of_ngram)}
  return orders


def read(path: str | os.PathLike, tokenizer: str, *, normalize: str = "") -> dict[str, DocumentFrequency]:
  """Reads document frequencies for use with a tokeniser and normalisation.

  Raises:
    UsageError: the file cannot be read, is malformed, or was made with another tokeniser or normalisation.
  """
  frequencies = {}
  for number, row in jsonl.read(path, max_line=MAX_UNPACKED):
    where = f"{path}, line {number}"
    language, version = layouts.text(row, "language", where), layouts.text(row, "tokenizer", where)
    languages.check(language, where)
    expected = _version(tokenizer, language, normalize)
    if version != expected:
      raise UsageError(
        f"{where}: {language} was tokenised with {shown(version)}, but {expected} is in use now; make the file again"
      )
    try:
      if language in frequencies:
        raise ValueError("a second line of the language")
      frequencies[language] = _parse(row)
    except (KeyError, TypeError, ValueError, OverflowError):
      raise UsageError(f"{where}: damaged; make the file again with xmcap score --save_df") from None
  if not frequencies:
    raise UsageError(f"{path}: contains no language; make it with xmcap score --save_df")
  return frequencies


def _parse(row: dict[str, Any]) -> DocumentFrequency:
  """Returns the frequencies of a line; ValueError, KeyError or TypeError if it is malformed."""
  vocabulary, images = row["vocabulary"], row["images"]
  if not isinstance(images, int) or not 1 <= images <= _MOST_IMAGES:
    raise ValueError("images")
  if layouts.texts(vocabulary) is None or sorted(set(vocabulary)) != vocabulary:
    raise ValueError("vocabulary")
  ngrams, frequencies = [np.zeros((1, 0), np.int64)], []
  for order in row["orders"]:
    prefix, word, frequency = (np.array(order[name], np.int64).reshape(-1) for name in _ORDER)
    limits = (prefix, 0, len(ngrams[-1])), (word, 0, len(vocabulary)), (frequency, 1, images + 1)
    is_within = all(((values >= low) & (values < end)).all() for values, low, end in limits)
    is_sorted = (np.diff(prefix * len(vocabulary) + word) > 0).all()
    if not (len(prefix) == len(word) == len(frequency) and is_within and is_sorted):
      raise ValueError("order")
    ngrams.append(np.column_stack([ngrams[-1][prefix], word]))
    frequencies.append(frequency)
  if len(frequencies) != ORDERS:
    raise ValueError("orders")
  return DocumentFrequency(images, tuple(vocabulary), tuple(ngrams[1:]), tuple(frequencies))


def _version(tokenizer: str, language: str, normalize: str) -> str:
  return f"{tokenizer}-{tokenizers.get(tokenizer, language, normalize).version}"
