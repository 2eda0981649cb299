"""Which annotator describes which pictures, and what of it is done.

A picture may be described by several people: its replication. In Crossmodal-3600 it is two in most languages, one in
Bengali, and between one and two in Maori (Thapliyal et al., EMNLP 2022, section 2.3 and Table 1).
"""

import dataclasses
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from xmcap import languages, wording
from xmcap.errors import UsageError
from xmcap.files import files, keys, outputs
from xmcap.human import fields
from xmcap.human.annotations import Annotation
from xmcap.human.fields import ALL
from xmcap.human.sheets import Findings, Sheet, SheetColumn
from xmcap.reading import jsonl
from xmcap.terminal import shown

FILE = "assignment.jsonl"
"""The name, in the output folder, of the file that says who describes which pictures."""


_TAKEN = {ALL, FILE, "annotate.html", "pictures"}  # names of rows, files and folders of the results
_DEVICES = {
  "con",
  "prn",
  "aux",
  "nul",
  *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10)),
}  # Windows


class Assigned(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
  """A picture that an annotator is to describe."""

  key: str = msgspec.field(name="image/key")
  language: str
  annotator: str


def assign(images: Sequence[str], annotators: Sequence[str], replication: int) -> dict[str, list[str]]:
  """Gives each picture to `replication` annotators.

  Their numbers of pictures differ by at most one. Who shares a picture, and the order of each annotator's pictures,
  are drawn by hashes, so that the same names and pictures give the same assignment.

  Returns:
    Annotator -> keys of pictures.

  Raises:
    UsageError: too few annotators or too many, or a name that is no name of a folder, or is given twice.
  """
  wrong = [name for name in annotators if not keys.is_key(name) or name.endswith(".")]
  if wrong:
    raise UsageError(
      f"--annotators: '{shown(wrong[0])}' cannot name a folder; use letters, digits and, after the first, '_', '.', '-'"
    )
  folded = {name: fields.folded(name) for name in annotators}
  taken = [name for name in annotators if folded[name] in _TAKEN or folded[name].split(".")[0] in _DEVICES]
  if taken:
    raise UsageError(
      f"--annotators: '{taken[0]}' is the name of something else here; name the person otherwise"
    )
  twice = [name for name, times in Counter(folded[name] for name in annotators).items() if times > 1]
  if twice:
    raise UsageError(
      f"--annotators: '{shown(twice[0])}' is named twice; give each annotator a name of their own"
    )
  if len(annotators) < replication:
    raise UsageError(
      f"--replication={replication} needs as many --annotators, who are {len(annotators)}; name more, or lower it"
    )
  if len(annotators) > len(images) * replication:
    raise UsageError(
      f"--annotators: {len(annotators):,} are too many for {wording.count(len(images), 'picture')} and "
      f"--replication={replication}; name fewer"
    )
  assigned: dict[str, list[str]] = {name: [] for name in annotators}
  for image in sorted(images, key=_hash):
    least = sorted(annotators, key=lambda name: (len(assigned[name]), _hash(image, name)))
    for name in least[:replication]:
      assigned[name].append(image)
  return {name: sorted(own, key=lambda image: _hash(name, image)) for name, own in assigned.items()}


def earlier(out: str | os.PathLike) -> list[str]:
  """Returns the annotators of the assignment that is already in an output folder; UsageError as `read`."""
  path = os.path.join(out, FILE)
  names = {assigned.annotator: None for assigned in read([path])} if os.path.exists(path) else {}
  return list(filter(keys.is_key, names))


def write(path: str | os.PathLike, language: str, assigned: Mapping[str, Sequence[str]]) -> None:
  """Writes an assignment, a line a picture and annotator; XmcapError if it cannot be written."""
  rows = (
    {"image/key": key, "language": language, "annotator": name} for name in assigned for key in assigned[name]
  )
  files.write_lines(path, (json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def read(paths: Iterable[str | os.PathLike]) -> list[Assigned]:
  """Reads assignments, such as one a language; UsageError names file and line."""
  assignments: dict[Assigned, None] = {}
  for path in paths:
    outputs.settle(os.path.dirname(path) or ".")
    for number, row in jsonl.read(path):
      where = f"{path}, line {number}"
      try:
        assigned = msgspec.convert(row, Assigned)
      except msgspec.ValidationError as error:
        raise UsageError(
          f"{where}: no assignment ({shown(error)}); give the file that xmcap human annotate wrote"
        ) from None
      languages.check(assigned.language, where)
      assignments[assigned] = None
    if not assignments:
      raise UsageError(f"{path}: no assignment in it; give the file that xmcap human annotate wrote")
  return list(assignments)


@dataclasses.dataclass(frozen=True)
class Done:
  """What of an annotator's pictures, or of all in a language, is done.

  Attributes:
    assigned: pictures; None without an assignment.
    described, skipped: of all the annotator's pictures.
    missing: pictures that were assigned, and neither described nor skipped; None without an assignment.
    others: pictures that were not assigned, and described or skipped; None without an assignment.
  """

  language: str
  annotator: str
  assigned: int | None
  described: int
  skipped: int
  missing: int | None
  others: int | None


@dataclasses.dataclass(frozen=True)
class CoverageFindings(Findings):
  """What is done, by language, then annotator, then all."""

  done: tuple[Done, ...]
  stem = "coverage"

  def sheets(self) -> list[Sheet]:
    """Returns the sheet of what is done."""
    counts = ("assigned", "described", "skipped", "missing", "others")
    columns = [
      *map(SheetColumn, ("language", "annotator")),
      *(SheetColumn(name, format=",") for name in counts),
    ]
    return [Sheet.of_objects("coverage", "Pictures of each annotator", columns, self.done)]

  def as_json(self) -> dict[str, Any]:
    """Returns the fields; nothing is resampled."""
    return {"done": self.done, "notes": self.notes}


def coverage(annotations: Iterable[Annotation], assigned: Iterable[Assigned]) -> CoverageFindings:
  """Returns what is done; a note says which assigned pictures lack captions, because they are missing or skipped."""
  assigned_places = {(assignment.language, assignment.annotator, assignment.key) for assignment in assigned}
  described, skipped = set(), set()
  for annotation in annotations:
    place = (annotation.language, annotation.annotator, annotation.key)
    if annotation.described:
      described.add(place)
    elif annotation.skipped:
      skipped.add(place)
  done, notes = [], []
  # Language -> annotator -> pictures that were assigned, described and skipped.
  people: dict[str, dict[str, tuple[set[str], set[str], set[str]]]] = {}
  for kind, places in enumerate((assigned_places, described, skipped)):
    for language, name, key in places:
      people.setdefault(language, {}).setdefault(name, (set(), set(), set()))[kind].add(key)
  for code in languages.ordered(people):
    rows = [(name, [people[code][name]]) for name in sorted(people[code])]
    rows += [(ALL, list(people[code].values()))] if len(rows) > 1 else []
    for name, of_people in rows:
      told, left = (sum(len(pictures[kind]) for pictures in of_people) for kind in (1, 2))
      share = sum(len(own) for own, _, _ in of_people)
      missing = sum(len(own - described - skipped) for own, described, skipped in of_people)
      others = sum(len((described | skipped) - own) for own, described, skipped in of_people)
      counts = (share, missing, others) if assigned_places else (None, None, None)
      done.append(Done(code, name, counts[0], told, left, *counts[1:]))
    planned, sentences = (
      Counter(key for pictures in people[code].values() for key in pictures[kind]) for kind in (0, 1)
    )
    none = sum(not sentences[key] for key in planned)
    fewer = sum(0 < sentences[key] < planned[key] for key in planned)
    if none or fewer:
      images = wording.count(len(planned), "assigned picture")
      notes.append(f"{code}: of {images} {none:,} have no caption, and {fewer:,} fewer than assigned")
  return CoverageFindings(tuple(done), notes=notes)


def _hash(*parts: str) -> str:
  return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
