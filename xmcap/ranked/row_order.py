"""Whether rows of embeddings are in the order of what they are scored with: what lies beside them, and chance."""

import itertools
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.reading import embedding_files, jsonl
from xmcap.terminal import shown

_TIMES = 4  # Rows in a wrong order are right by accident, and with them others of their image or class.
_FEWEST = 25  # candidates


def is_near_chance(shares: Sequence[float], candidates: int) -> bool:
  """Whether all shares of right first candidates are at most four times chance; False for few candidates."""
  return candidates >= _FEWEST and max(shares) * candidates <= _TIMES


def check_beside(
  images: str | os.PathLike,
  texts: str | os.PathLike,
  keys: Sequence[str],
  captions: Mapping[str, Sequence[str]],
) -> None:
  """Compares keys and captions, by language, with what `xmcap embed` writes beside the rows of embeddings.

  That is keys.txt beside pictures.npy, and CODE.jsonl with lines {"caption": ...} beside CODE.npy.

  Raises:
    UsageError: a row is of another image or caption.
  """
  path, folder = pathlib.Path(images), pathlib.Path(texts)
  own = embedding_files.keys_beside(path)
  if not set(own).isdisjoint(keys):
    _check(path.with_name(embedding_files.KEYS), own, keys)
  for array in folder.glob("*.npy"):
    language, lines = languages.canonical(array.stem) or "", array.with_suffix(".jsonl")
    if language in captions and lines.is_file():
      _check(lines, [row.get("caption") for _, row in jsonl.read(lines)], captions[language])


def _check(path: pathlib.Path, own: Sequence[object], expected: Sequence[str]) -> None:
  for line, (text, scored) in enumerate(itertools.zip_longest(own, expected, fillvalue="nothing"), 1):
    if text != scored:
      raise UsageError(
        f"{path}, line {line:,}: the row is of '{shown(str(text))}', but '{shown(str(scored))}' is scored there: embed "
        "pictures and captions in the order of --captions, the captions picture by picture"
      )


def others(images: np.ndarray, written: np.ndarray | None) -> Iterator[tuple[str, np.ndarray]]:
  """Yields usual orders in which captions that are listed image by image may have been embedded.

  Args:
    images: int64 [T], the image of each caption, ascending.
    written: int64 [T], the place of each caption in the file, if that has another order.

  Yields:
    The name of an order, and the row of each caption in it, int64 [T].
  """
  if written is not None:
    yield "of the file's annotations", written
  within = np.arange(len(images)) - np.searchsorted(images, images)
  if within.any():
    yield "'all first captions first'", np.argsort(np.lexsort((images, within)))


def notes(doubts: Mapping[str, Sequence[str]]) -> list[str]:
  """Returns notes about languages with R@1 near chance, by the order in which it is not; "" for none."""
  return [
    f"R@1 text to image is near chance, but not with the texts in the order {order}: sort them picture by picture "
    f"({'; '.join(of_order)})"
    if order
    else f"R@1 is near chance, text to image and image to text ({'; '.join(of_order)}): rows are in another order than "
    "pictures and captions, or the model does not read the language"
    for order, of_order in doubts.items()
  ]
