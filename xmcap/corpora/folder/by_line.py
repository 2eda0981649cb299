"""Captions by line: texts without keys whose lines follow a list of pictures, as Multi30k, XTD10 and translations have.

`train.de` and `train.en` have a caption a line, and `train_images.txt` the name of the picture on that line.
"""

import itertools
import pathlib
import re
from collections.abc import Iterator, Sequence

from xmcap.corpora.folder import kinds
from xmcap.corpora.folder.table import Placed, SourceFile
from xmcap.errors import UsageError
from xmcap.reading import rows
from xmcap.reading.inputs import Input

_LINES = 5  # that show a list of pictures
_NUMBER_OF_CAPTION = re.compile(r"#\d+$")


def read(content: rows.Rows, file: SourceFile) -> Iterator[Placed]:
  """Yields the lines of a text with those of its list of pictures; UsageError without one of the same length."""
  pictures = _pictures_of(file.path, file.lists)
  if pictures is None:
    raise UsageError(
      f"{content.name}: captions without their pictures: write NAME.jpg, a tab and a caption on each line, or put a "
      "list of the pictures, a name a line, beside it, such as train_images.txt"
    )
  with Input(pictures) as source:
    names = ((number, _NUMBER_OF_CAPTION.sub("", line)) for number, line in source.lines())
    for (number, row), (line, image) in itertools.zip_longest(content.rows, names, fillvalue=(None, {})):
      if number != line:
        raise UsageError(
          f"{content.name} and {pictures}: line {number or line} has no partner in the other: give as many lines, in "
          "the same order"
        )
      yield Placed(f"{file.name}, line {number:,}", {"image": image, **row})


def is_list(path: pathlib.Path) -> bool:
  """Whether a file is a list of pictures."""
  if rows.split_name(path)[1] != ".txt":
    return False
  with Input(path) as source:
    begin = source.head.decode("utf-8", "replace").splitlines()[:_LINES]
  names = [_NUMBER_OF_CAPTION.sub("", line.strip()) for line in begin]
  return bool(names) and all(
    kinds.kind_of(name) == kinds.PICTURE_FILES and not re.search(r"[\t,|]", name) for name in names
  )


def _pictures_of(path: pathlib.Path, lists: Sequence[pathlib.Path]) -> pathlib.Path | None:
  """Returns the list of pictures of a text: of `lists`, or else those beside it, the one whose name shares most words.

  None if there is none, or several share as many.
  """
  lists = lists or list(filter(is_list, sorted(path.parent.glob("*.txt"))))
  shared = {list_: len(_words(path) & _words(list_)) for list_ in lists}
  best = [list_ for list_, count in shared.items() if count == max(shared.values())]
  return best[0] if len(best) == 1 else None


def _words(path: pathlib.Path) -> set[str]:
  return set(re.split(r"[_.-]", path.name)) - {"txt"}
