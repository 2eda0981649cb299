"""Reads labels for tagging, a folder for each language, as `xmcap data tags` writes them.

FOLDER/labels.txt    the labels, one per line
FOLDER/SPLIT.jsonl   the labels of each image: {"image/key": ..., "language": ..., "tags": [...]}
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.files import addresses, files
from xmcap.files.bucket_paths import epath
from xmcap.reading import label_words, tag_files

FOLDER = "labels"
"""Folder, in that of a trained tagger, with the labels of each language."""

_NAMES = "labels.txt"
_HINT = "`xmcap data tags` makes it"


@dataclasses.dataclass(frozen=True)
class ImageLabels:
  """The labels of the images of a split.

  Attributes:
    columns: image key -> int32 [n], its labels, numbered over all languages one after the other; perhaps none.
    known: language code -> keys of the images that its file lists.
    unknown: image key -> number of its tags that are not among the labels.
  """

  columns: dict[str, np.ndarray]
  known: dict[str, frozenset[str]]
  unknown: dict[str, int]


def read_names(folders: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
  """Reads `labels.txt` of each language: code -> labels. UsageError if one is missing, empty or repeats a label."""
  if not isinstance(folders, Mapping) or not folders:
    raise UsageError(
      f"labels are {folders!r}: give a folder for each language, as in {{'zh': 'data/labels_zh'}}"
    )
  return {
    languages.get(language).code: tuple(_read(folder, _NAMES, tag_files.read_vocabulary))
    for language, folder in folders.items()
  }


def write_names(folder: epath.Path, names: Mapping[str, tuple[str, ...]]) -> None:
  """Writes `FOLDER/CODE/labels.txt` of each language, here or in a bucket; those that are the same stay as they are."""
  for language, of_language in names.items():
    path = folder / language / _NAMES
    data = "".join(f"{name}\n" for name in of_language).encode()
    if not path.exists() or path.read_bytes() != data:
      files.write_anywhere(path, data)


def read_pictures(
  folders: Mapping[str, str], names: Mapping[str, tuple[str, ...]], splits: Iterable[str]
) -> ImageLabels:
  """Reads the labels of the images of some splits, in all languages of `names` (see `read_names`).

  Raises:
    UsageError: a file is missing or malformed, is in another language, or has none of the labels.
  """
  columns: dict[str, list[int]] = {}
  unknown: collections.Counter[str] = collections.Counter()
  listed: dict[str, frozenset[str]] = {}
  start = 0
  for folder, (language, of_language) in zip(folders.values(), names.items(), strict=True):
    places = {label_words.word(name): start + number for number, name in enumerate(of_language)}
    start += len(of_language)
    tags = {}
    for split in splits:
      by_language = _read(folder, f"{split}.jsonl", tag_files.read)
      if language not in by_language:
        raise UsageError(
          f"{addresses.join(folder, f'{split}.jsonl')}: has tags in {', '.join(by_language)}, not in '{language}': "
          "name the folder of each language"
        )
      tags |= {key: list(map(label_words.word, of_image)) for key, of_image in by_language[language].items()}
    if not any(tag in places for of_image in tags.values() for tag in of_image):
      raise UsageError(
        f"{folder}: no picture of {' '.join(splits)} has a label of labels.txt: make the labels again"
      )
    listed[language] = frozenset(tags)
    for key, of_image in tags.items():
      indices = [places[tag] for tag in of_image if tag in places]
      columns.setdefault(key, []).extend(indices)
      if len(indices) < len(of_image):
        unknown[key] += len(of_image) - len(indices)
  as_arrays = {key: np.array(numbers, np.int32) for key, numbers in columns.items()}
  return ImageLabels(as_arrays, listed, dict(unknown))


def _read(folder, name, read):
  path = addresses.join(folder, name)
  if not addresses.is_file(path):
    raise UsageError(f"{path}: no such file: {_HINT}")
  with addresses.local_copy(path) as copy:
    return read(copy)
