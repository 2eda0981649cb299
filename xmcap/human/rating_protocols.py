"""What a rating page shows and asks: one rubric a protocol, as data; those that come with xmcap, and a user's own file.

`sxs` is the side-by-side comparison of section 3.3 of Thapliyal et al., "Crossmodal-3600" (EMNLP 2022), in seven
points, `sxs5` that of section 3.4 of its draft, in five; `xm3600_quality` has the levels and rules of its Appendix B.
`thumb` is THumB 1.0 of Kasai et al., "Transparent Human Evaluation for Image Captioning" (NAACL 2022), section 2.2 and
Table 6. `coco_cn_captions` and `coco_cn_tags` are the user studies of Li et al., "COCO-CN for Cross-Lingual Image
Tagging, Captioning and Retrieval" (2019), Tables 5, 6 and 9. Values are in `rating_protocols.json`, words in the
catalogue of `page_texts`. Words and examples are this project's; scales and rules are the papers', and what these leave
open, such as the meaning of a 2, is left open.

A user's rubric is a JSON file, one object with the fields of `RatingProtocol`, such as

  {"name": "style", "title": "Style", "task": "Rate the captions.", "criteria": [
    {"name": "tone", "heading": "Tone", "question": "Is it friendly?", "choices": [[1, "no"], [2, "yes"]]}]}
"""

import functools
import json
import os
import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from xmcap.errors import UsageError
from xmcap.human import fields, page_texts
from xmcap.pages.report import elements
from xmcap.reading import jsonl
from xmcap.reading.inputs import Input
from xmcap.terminal import shown

_LARGEST = 1e6
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}", re.ASCII)
# The other fields of files of ratings.
RESERVED = frozenset({
  "item", "protocol", "rater", "checks", "taken_back", "language", "system", "systems", "caption", "tag", "left",
  "right", "key",
})  # fmt: skip
_COLUMNS = frozenset({"language", "system", "pictures", "ratings"})
DEVIATION = "_sd"
"""Follows the name of a criterion in the name of the column of its deviation."""


class Criterion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """A question about a caption, a tag or a pair.

  Attributes:
    name: its field in files of ratings.
    choices: value and meaning, at most ten; xmcap's own are the lowest first, so that a level has one key on all pages.
    first_key: the number key of the first choice; the next ones follow.
    default: the value if a rater leaves the question out; None: it must be answered.
  """

  name: str
  heading: str
  question: str
  choices: tuple[tuple[int | float, str], ...]
  first_key: int = 1
  default: int | float | None = None


class RatingProtocol(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """A rubric.

  Attributes:
    title, task: what raters read first; `advice` and `rules` (heading and text) stay in reach.
    shows: `pair`: two captions side by side; `captions`, `tags`: all of a picture together.
    captions: the headings of what is shown: two for `pair`, else one.
    total: name of a criterion -> its weight in the total that the page shows; {}: it shows none.
    sentences: whether English captions are shown as sentences (`scoring.tokenizers.sentence`).
  """

  name: str
  title: str
  task: str
  criteria: tuple[Criterion, ...]
  shows: Literal["pair", "captions", "tags"] = "captions"
  advice: tuple[str, ...] = ()
  rules: tuple[tuple[str, str], ...] = ()
  captions: tuple[str, ...] = ("Caption",)
  total: dict[str, float] = {}
  sentences: bool = False

  @property
  def names(self) -> tuple[str, ...]:
    """The names of the criteria."""
    return tuple(criterion.name for criterion in self.criteria)


def parse(content: Any, where: str | os.PathLike) -> RatingProtocol:
  """Returns the rubric of a JSON value; UsageError that names the place if it is none."""
  hint = "give name, title, task and criteria, as docs/human.md shows"
  protocol = jsonl.convert(content, RatingProtocol, where, "not a rubric", hint)

  def refuse(reason: str) -> UsageError:
    return UsageError(f"{where}: {reason}")

  if not _NAME.fullmatch(protocol.name):
    raise refuse(f"the name '{shown(protocol.name)}' must be letters, digits and _, and begin with a letter")
  headings = 2 if protocol.shows == "pair" else 1
  if len(protocol.captions) != headings:
    raise refuse(f"'captions' has {len(protocol.captions)} headings; '{protocol.shows}' needs {headings}")
  for name in protocol.names:
    if not _NAME.fullmatch(name) or name in RESERVED:
      raise refuse(
        f"criterion '{shown(name)}': the name must be letters, digits and _, and none of the file's fields"
      )
  check_names(protocol.names, where)
  for criterion in protocol.criteria:
    values = [value for value, _ in criterion.choices]
    label = f"criterion '{criterion.name}'"
    if len(values) < 2 or len(set(values)) < len(values) or not all(map(_is_small, values)):
      raise refuse(f"{label}: give two or more choices with different values, none above {_LARGEST:g}")
    if not 0 <= criterion.first_key <= 10 - len(values):
      raise refuse(
        f"{label}: {len(values)} choices from key {criterion.first_key} on do not fit the keys 0 to 9"
      )
    if criterion.default is not None and criterion.default not in values:
      raise refuse(f"{label}: the default {criterion.default:g} is none of its choices")
  if not any(criterion.default is None for criterion in protocol.criteria):
    raise refuse("one criterion or more must have no default, or nobody could tell what was rated")
  for name, weight in protocol.total.items():
    if name not in protocol.names or not _is_small(weight):
      raise refuse(f"'total' has '{shown(name)}', which is no criterion, or its weight is above {_LARGEST:g}")
  return protocol


def check_names(names: Sequence[str], where: str | os.PathLike) -> None:
  """Raises UsageError for criteria whose columns, with that of a deviation for each, have one name for two."""
  columns: dict[str, str] = {name: f"the column '{name}'" for name in _COLUMNS}
  for name in names:
    for column in (fields.folded(name), fields.folded(name) + DEVIATION):
      if column in columns:
        raise UsageError(
          f"{where}: criterion '{shown(name)}': its name clashes with {columns[column]}; rename it"
        )
      columns[column] = f"criterion '{shown(name)}'"


def _is_small(value: float) -> bool:
  return abs(value) <= _LARGEST


def get(name: str) -> RatingProtocol:
  """Returns a protocol by its name, or the rubric in a JSON file; UsageError if there is neither."""
  if name in PROTOCOLS:
    return PROTOCOLS[name]
  if not os.path.exists(name):
    raise UsageError(
      f"protocol '{shown(name)}': there are {', '.join(PROTOCOLS)}, or give the JSON file of a rubric"
    )
  with Input(name) as source:
    protocol = parse(source.document(), name)
  if protocol.shows == "pair":
    raise UsageError(f"{name}: a rubric shows 'captions' or 'tags'; to compare pairs there is --protocol=sxs")
  if protocol.name in PROTOCOLS:
    raise UsageError(f"{name}: '{protocol.name}' is a protocol of xmcap's own; name the rubric otherwise")
  return protocol


def translated(protocol: RatingProtocol, language: str) -> RatingProtocol:
  """Returns a protocol of xmcap's own in one of `page_texts.LANGUAGES`; a user's as it is."""
  return _own(language)[protocol.name] if protocol.name in PROTOCOLS else protocol


@functools.cache
def _own(language: str) -> dict[str, RatingProtocol]:
  contents = json.loads(elements.resource("rating_protocols.json", "xmcap.human"))
  texts = page_texts.catalogue(language)["protocols"]
  protocols = {}
  for name, content in contents.items():
    other = content.get("like", name)
    values = content.get("values")
    worded = _with_texts(contents[other], texts[other], values)
    protocols[name] = parse({"name": name, **worded}, f"texts/{language}.json")
  return protocols


def _with_texts(
  content: dict[str, Any], texts: dict[str, Any], values: Sequence[float] | None
) -> dict[str, Any]:
  """Returns a protocol with its texts; of the choices only those of `values`, if there are any."""
  criteria = []
  for criterion in content["criteria"]:
    words = texts["criteria"][criterion["name"]]
    choices = zip(criterion["choices"], words["choices"], strict=True)
    chosen = [choice for choice in choices if values is None or choice[0] in values]
    criteria.append({**criterion, **words, "choices": chosen})
  return {**content, **texts, "criteria": criteria}


PROTOCOLS = _own(page_texts.ENGLISH)
"""Name -> protocol, in English."""
