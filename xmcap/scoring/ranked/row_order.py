"""Whether rows of embeddings are in the order of what they are scored with: what lies beside them, and chance."""

import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.reading import embedding_files, embedding_rows
from xmcap.scoring.reading.embedding_files import Read
from xmcap.scoring.reading.embedding_rows import Embeddings
from xmcap.terminal import shown

_TIMES = 4  # Rows in a wrong order are right by accident, and with them others of their picture or class.
_FEWEST = 25  # candidates


def is_near_chance(shares: Sequence[float], candidates: int) -> bool:
  """Whether all shares of right first candidates are at most four times chance; False for few candidates."""
  return candidates >= _FEWEST and max(shares) * candidates <= _TIMES


def read_pictures(path: str | os.PathLike, keys: Sequence[str]) -> tuple[Embeddings, list[str]]:
  """Opens the embeddings of pictures and returns notes; rows are matched by keys.txt if it lies beside pictures.npy.

  UsageError as `embedding_files`, or if keys.txt has some of the keys but not all.
  """
  path, stored = pathlib.Path(path), embedding_files.read(path)
  if path.name != embedding_files.PICTURES or not path.with_name(embedding_files.KEYS).is_file():
    return stored, []
  own, _ = embedding_files.map_pictures(path.parent)
  if own == tuple(keys) or set(own).isdisjoint(keys):
    return stored, []
  beside = path.with_name(embedding_files.KEYS)
  place = {key: row for row, key in enumerate(own)}
  if missing := [key for key in keys if key not in place]:
    raise UsageError(
      f"{beside}: lacks {files.count(len(missing), 'picture')} of the captions ({files.first_few(missing)}); embed them"
    )
  rows = np.array([place[key] for key in keys])
  return embedding_rows.taken(stored, rows), [
    f"pictures: rows matched by {beside.name}, whose order is another"
  ]


def match_texts(
  path: str | os.PathLike, texts: Mapping[str, Read], captions: Mapping[str, Sequence[str]]
) -> tuple[dict[str, Read], list[str]]:
  """Returns `texts` with the rows in the order of the captions, where CODE.jsonl beside CODE.npy names their captions.

  Also returns notes about rows that had another order. A line is {"caption": ...}, as `xmcap embed` writes.

  Raises:
    UsageError: a line has no caption, or a caption has no line.
  """
  folder, matched, moved = pathlib.Path(path), dict(texts), []
  beside = [
    (file.stem, file)
    for file in sorted(folder.glob("*.jsonl"))
    if any(file.with_suffix(suffix).is_file() for suffix in embedding_files.SUFFIXES)
  ]
  for code, file in files.by_code(beside, folder).items() if beside else ():
    if code not in captions or code not in texts:
      continue
    rows, count = _rows(file, captions[code])
    if len(rows) != count or (rows != np.arange(count)).any():
      matched[code] = lambda read=texts[code], rows=rows, count=count, file=file: _moved(
        read(), rows, count, file
      )
      moved.append(code)
  note = f"texts of {', '.join(moved)}: rows matched by the captions beside them, whose order is another"
  return matched, [note] if moved else []


def _rows(file: pathlib.Path, captions: Sequence[str]) -> tuple[np.ndarray, int]:
  """Returns the row of each caption, and the number of rows; of equal captions each its own as long as there are."""
  rows: dict[str, list[int]] = {}
  count = 0
  for number, line in files.read_jsonl(file):
    if not isinstance(text := line.get("caption"), str):
      raise UsageError(f'{file}, line {number}: must have "caption", the text that the row is of')
    rows.setdefault(text, []).append(count)
    count += 1
  if missing := [text for text in captions if text not in rows]:
    raise UsageError(
      f"{file}: lacks {files.count(len(missing), 'caption')} of {len(captions):,}, first '{shown(missing[0])}'; embed "
      "the captions that are scored"
    )
  left = {text: iter(of_text) for text, of_text in rows.items()}
  return np.array([next(left[text], rows[text][-1]) for text in captions]), count


def _moved(embedded: Embeddings, rows: np.ndarray, count: int, file: pathlib.Path) -> Embeddings:
  if len(embedded.shape) != 2 or len(embedded) != count:
    raise UsageError(
      f"{file}: {files.count(count, 'caption')} for shape {list(embedded.shape)}; write one for each row"
    )
  return embedding_rows.taken(embedded, rows)


def others(images: np.ndarray, written: np.ndarray | None) -> Iterator[tuple[str, np.ndarray]]:
  """Yields usual orders in which captions that are listed picture by picture may have been embedded.

  Args:
    images: int64 [T], the picture of each caption, ascending.
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
