"""Reads and checks THumB 1.0 ratings.

Source: Kasai et al., "Transparent Human Evaluation for Image Captioning" (NAACL 2022). A caption gets precision and
recall from 1 to 5, and three penalties (fluency, inclusive language, conciseness), stored as numbers of 0 or less. Its
total is the mean of precision and recall plus the penalties.
"""

import dataclasses
import os
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from xmcap import languages, wording
from xmcap.arguments import checked
from xmcap.errors import UsageError
from xmcap.human import fields
from xmcap.reading import joining
from xmcap.reading import references as references_lib
from xmcap.reading.inputs import Input
from xmcap.terminal import shown

MEASURES = {
  "P": "precision", "R": "recall", "Fl": "fluency", "Con": "conciseness", "Inc": "inclusive language",
}  # fmt: skip
"""The rated measures; the last three are penalties."""

_TOTAL = "human_score"
_LOWEST, _HIGHEST = 1, 5
_TOLERANCE = 1e-6
_MOST_VALUES = 100  # of a measure; its histogram has a row for each
# A first line with the field `seg_id`; inside a string its quotes would be escaped.
_FIRST = re.compile(rb'\s*\{[^\n]*?(?<!\\)"seg_id"\s*:')


@dataclasses.dataclass(frozen=True)
class RatedCaption:
  """A caption with its ratings: annotator ("" if unknown) -> values in the order of `MEASURES`."""

  text: str
  ratings: dict[str, tuple[float, ...]]


@dataclasses.dataclass(frozen=True)
class ThumbRatings:
  """The rated captions of several systems for the same images.

  Attributes:
    systems: S names, in the order of the file.
    keys: I image keys, in the order of the file.
    captions: (system, key) -> caption.
    measures: name of a measure, or `total` -> float64 [S, I], the mean over annotators. A penalty is 0 or less.
    language: code of the captions' language; "" if neither the file nor the caller gives it.
    left_out: number of captions in other languages in the file.
  """

  systems: tuple[str, ...]
  keys: tuple[str, ...]
  captions: Mapping[tuple[str, str], RatedCaption]
  measures: Mapping[str, np.ndarray]
  language: str = ""
  left_out: int = 0

  @property
  def annotators(self) -> tuple[str, ...]:
    """Sorted names of the annotators; one empty name if the file has none."""
    return tuple(sorted({name for caption in self.captions.values() for name in caption.ratings}))


def total(values: Any) -> Any:
  """Returns the total of ratings, numbers or arrays, in the order of `MEASURES`."""
  precision, recall, *penalties = values
  return (precision + recall) / 2 + sum(penalties)


@checked
def read(paths: joining.Paths, language: str | None = None) -> ThumbRatings:
  """Reads ratings from JSONL with SYS, seg_id, hyp, P, R, Fl, Con, Inc and optionally human_score and annotator.

  Several files, such as one of each annotator, are read as one.

  If lines have a `language`, only captions in the given language are kept; None: the file must have just one.

  Raises:
    UsageError: the file has no ratings; a line lacks a field, has a precision or recall off the scale, a penalty above
      0, a total that is not (P + R) / 2 + Fl + Con + Inc, a caption that differs from an earlier line of its system and
      image, or repeats one; only some lines name an annotator or a language; or a system lacks images.
  """
  captions: dict[tuple[str, str, str], RatedCaption] = {}
  seen: dict[Hashable, str] = {}
  levels: dict[str, set[float]] = {name: set() for name in MEASURES}
  optional: tuple[str, ...] = ()
  for where, row in fields.rows(paths, ("SYS", "seg_id", "hyp", *MEASURES)):
    system, key = (fields.text(row, name, where) for name in ("SYS", "seg_id"))
    text = fields.text(row, "hyp", where, blank=True)
    present = tuple(name for name in ("language", "annotator") if name in row)
    code = fields.text(row, "language", where) if "language" in present else ""
    annotator = fields.person(row, "annotator", where) if "annotator" in present else ""
    if code:
      languages.check(code, where)
    values = _values(row, where)
    for name, value in zip(MEASURES, values, strict=True):
      levels[name].add(value)
      if len(levels[name]) > _MOST_VALUES:
        raise UsageError(
          f"{where}: '{name}' has over {_MOST_VALUES} different values; rate on a scale of a few"
        )
    if not seen:
      optional = present
    if present != optional:
      odd = min(set(present) ^ set(optional))
      raise UsageError(f"{where}: some lines have '{odd}' and others do not; give it to all or none")
    label = f"caption of '{shown(system)}' for image '{shown(key)}'"
    fields.once(seen, (system, key, code, annotator), where, f"the {label} was rated")
    caption = captions.setdefault((system, key, code), RatedCaption(text, {}))
    if caption.text != text:
      raise UsageError(
        f"{where}: the {label} differs from an earlier line; a system has one caption per image"
      )
    caption.ratings[annotator] = values
  path = joining.named(joining.listed(paths))
  code = _language(path, {code for _, _, code in captions}, language)
  kept = {(system, key): caption for (system, key, own), caption in captions.items() if own == code}
  systems = tuple(dict.fromkeys(system for system, _ in kept))
  keys = tuple(dict.fromkeys(key for _, key in kept))
  for system in systems:
    missing = [key for key in keys if (system, key) not in kept]
    if missing:
      raise UsageError(
        f"{path}: '{shown(system)}' has no rating for {len(missing):,} of {len(keys):,} images "
        f"({wording.first_few(missing)}); rate the same images for every system"
      )
  means = [np.mean(list(kept[system, key].ratings.values()), axis=0) for system in systems for key in keys]
  values = np.array(means).T.reshape(len(MEASURES), len(systems), len(keys))
  measures = {**dict(zip(MEASURES, values, strict=True)), "total": total(values)}
  return ThumbRatings(systems, keys, kept, measures, code or language or "", len(captions) - len(kept))


@checked
def read_references(
  path: str | os.PathLike, keys: Sequence[str], language: str = "en"
) -> dict[str, list[str]]:
  """Reads references from JSONL with seg_id and refs, a list of strings, or from a file that `xmcap score` reads.

  Returns image key -> references in the language. Raises UsageError if a line lacks a field, has no reference or
  repeats an image, or if one of the images `keys` has no references.
  """
  references: dict[str, list[str]] = {}
  with Input(path) as source:
    if _FIRST.match(source.head):
      seen: dict[Hashable, str] = {}
      for line, row in source.rows():
        where = f"{source.name}, line {line}"
        key = fields.text(row, "seg_id", where)
        fields.once(seen, key, where, f"image '{shown(key)}' had references")
        references[key] = fields.texts(row, "refs", where)
    else:
      released = references_lib.read_references(source, [language], language)
      references = {key: by_language[language] for key, by_language in released.items() if by_language}
  missing = [key for key in keys if key not in references]
  if missing:
    raise UsageError(
      f"{path}: {len(missing):,} of {len(keys):,} rated images have no references ({wording.first_few(missing)}); "
      "add them"
    )
  return references


def _language(path: str | os.PathLike, codes: set[str], asked: str | None) -> str:
  """Returns the language of the lines to keep; "" if lines have none."""
  if codes == {""}:
    return ""
  listed = " ".join(sorted(codes))
  if asked is None and len(codes) > 1:
    raise UsageError(f"{path}: ratings of captions in {listed}; choose one with --language=CODE")
  if asked is not None and asked not in codes:
    raise UsageError(f"{path}: no ratings of captions in '{asked}'; there are: {listed}")
  return asked or codes.pop()


def _values(row: Mapping[str, Any], where: str) -> tuple[float, ...]:
  # `+ 0.0`: "no penalty" is often stored as -0.0.
  values = {name: fields.number(row, name, where) + 0.0 for name in MEASURES}
  for name, value in values.items():
    if name in ("P", "R") and not _LOWEST <= value <= _HIGHEST:
      raise UsageError(f"{where}: '{name}' is {value:g}; {MEASURES[name]} goes from {_LOWEST} to {_HIGHEST}")
    if name not in ("P", "R") and value > 0:
      raise UsageError(f"{where}: '{name}' is {value:g}; a penalty is 0 or less, such as {-value:g}")
  if _TOTAL in row:
    stated, computed = fields.number(row, _TOTAL, where), total(list(values.values()))
    if abs(stated - computed) > _TOLERANCE:
      raise UsageError(
        f"{where}: '{_TOTAL}' is {stated:g}, but (P + R) / 2 + Fl + Con + Inc is {computed:g}; correct one of them"
      )
  return tuple(values.values())
