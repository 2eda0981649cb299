"""Layouts of rows of captions: where key, languages and captions stand. `columns` finds them by the names of fields.

Release: one line per image with `image/key`, `image/locale` (optional) and, for each language code, an object with the
list `caption`, and the list `caption/tokenized` with the same captions split into words by the release.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.reading import literals

Report = Callable[[str, str, str], object]
"""Called with kind, place and message of a problem in a line; if it returns, that part of the line is skipped."""

LINE_KEY = "KEY#N"
"""The field of the key in lines of text that begin with it."""

_REJECTED = frozenset({"is_rejected", "is_precanned", "rejected", "precanned"})
"""Flags of captions that do not count. VizWiz's API leaves out the first two (vizwiz_api/vizwiz.py)."""

_WITHOUT_COMMAS = re.compile(r"""['"]\s+['"]""")  # how NumPy prints a list of texts
_STRINGS = frozenset({str})


@dataclasses.dataclass(frozen=True)
class Layout:
  """Where rows have the key of their image and its captions.

  Attributes:
    key: the field of the key; "" if rows have none.
    captions: the fields of the captions, and the language of each; "": that of the row.
    notes: whose layout it is and what is read; () for the layouts that the documentation asks for.
    tokenized, locale: the fields of the captions in words, and of the region.
    language: the field of the language, which rows need not have.
    file_name: the field of the image's name beside the key; "" if rows have none.
    repeats: whether each row of an image has all of its captions.
    get_key, get_captions: read the value from a row and its place; None: it stands in the field as it is.
  """

  key: str
  captions: tuple[tuple[str, str], ...] = (("caption", ""),)
  notes: tuple[str, ...] = ()
  tokenized: str = "caption/tokenized"
  locale: str = "image/locale"
  language: str = "language"
  file_name: str = ""
  repeats: bool = False
  get_key: Callable[[dict[str, Any], str], Any] | None = None
  get_captions: Callable[[dict[str, Any], str], Any] | None = None


def key_of(row: dict[str, Any], layout: Layout, where: Callable[[int | str], str], number: int | str) -> str:
  """Returns the key of the image of a row; UsageError if it has none, with the place that `where` gives its number."""
  value = layout.get_key(row, where(number)) if layout.get_key else row.get(layout.key)
  if type(value) is int:
    return str(value)
  return value if isinstance(value, str) and value else id_of({layout.key: value}, layout.key, where(number))


def is_rejected(row: Mapping[str, Any]) -> bool:
  """Whether a row has a flag that its caption does not count."""
  return not _REJECTED.isdisjoint(row) and any(
    str(row.get(flag)).strip().lower() in ("true", "1", "1.0", "yes") for flag in _REJECTED
  )


def refuse(kind: str, where: str, problem: str) -> NoReturn:
  """The strict `Report`: raises a UsageError."""
  del kind
  raise UsageError(f"{where}: {problem}")


def text(row: dict[str, Any], member: str, where: str, hint: str = "") -> str:
  """Returns a field that must be a string; UsageError if it is not."""
  value = row.get(member)
  if not isinstance(value, str):
    raise UsageError(f"{where}: '{member}' is missing or not a string{hint}")
  return value


def texts(value: Any) -> list[str] | None:
  """Returns `value` if it is a list of strings, else None."""
  return value if isinstance(value, list) and _STRINGS.issuperset(map(type, value)) else None


def released(
  row: dict[str, Any], where: str, report: Report = refuse
) -> Iterator[tuple[str, list[str], Any]]:
  """Yields (language, captions, unchecked `caption/tokenized`) of a line of the release."""
  for name, value in row.items():
    if name.startswith("image/"):
      continue
    if not languages.is_known(name):
      report("unknown_language", where, languages.unknown(name))
      continue
    captions = texts(value.get("caption")) if isinstance(value, dict) else None
    if captions is None:
      report("missing_field", where, f"'{name}' must be an object whose 'caption' is a list of strings")
      continue
    yield name, captions, value.get("caption/tokenized")


def listed(value: Any, where: str) -> Any:
  """Returns the list of texts that a cell holds as Python or JSON writes it, such as `['a dog', 'the dog']`.

  Other values are returned as they are. UsageError for a list without commas, as NumPy prints it.
  """
  text = value.strip() if isinstance(value, str) and value[:1] == "[" else ""
  if not text.endswith("]") or len(text) > literals.MOST_PYTHON:
    return value
  for parse in (literals.of_json, literals.of_python):
    try:
      captions = texts(parse(text))
    except ValueError:
      continue
    if captions and parse is literals.of_python and _WITHOUT_COMMAS.search(text):
      raise UsageError(
        f"{where}: a list without commas, as NumPy prints it; write it as ['a dog', 'the dog']"
      )
    return captions or value
  return value


def id_of(item: dict[str, Any], member: str, where: str) -> str:
  """Returns an id as a string; UsageError if it is neither a whole number nor a string."""
  id = plain_id(item.get(member))
  if not id:
    raise UsageError(f"{where}: '{member}' is missing or neither a whole number nor a string")
  return id


def plain_id(value: Any) -> str | None:
  """Returns an id as a string, 5 and 5.0 as `5`; None if it is no id."""
  if isinstance(value, float) and value.is_integer():
    value = int(value)  # as pandas writes whole numbers beside missing ones
  # In Python True is an int, but it is not a valid id.
  is_id = isinstance(value, int | str) and not isinstance(value, bool)
  return str(value) if is_id else None
