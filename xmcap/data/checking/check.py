"""The check of a built corpus: every record read, every picture decoded, every caption looked at.

`preflight.py` looks at a little of a corpus before a run; this looks at all of it, on all cores, and
lists its finds. A record that a run could not use is an error; an odd caption is a warning, for of many millions of
machine translations some are odd.
"""

import collections
import dataclasses
import functools
import hashlib
import io
import json
import os
import pathlib
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

import numpy as np
from PIL import Image

from xmcap import languages
from xmcap.data import images, records, workers
from xmcap.data.checking.findings import ERRORS, Find, SplitFindings
from xmcap.data.records import Caption, Record, RecordSource
from xmcap.errors import UsageError, XmcapError
from xmcap.storage import addresses, files, outputs

MAX_CHARACTERS = 500
"""A longer caption is over the limit; XM3600's longest has some 300."""

_CHUNK = 256  # records checked at a time by one process
_READ_AT_ONCE = 64
_MIN_LETTERS = 6  # the script of shorter captions, such as "DVD", is not judged
_MAX_SHOWN = 160
_DECODED_WRONGLY = "\ufffd"

Texts = dict[str, list[tuple[int, str, str]]]
"""Language -> (index, key, text) of each caption."""

Problem = tuple[str, str, str]
"""Kind of a find, its description, a language or ""."""


def check(
  directory: str | os.PathLike,
  *,
  out: str | os.PathLike | None = None,
  splits: Sequence[str] = (),
  max_characters: int = MAX_CHARACTERS,
  processes: int | None = None,
  progress: Callable[[str, int, int], None] | None = None,
) -> list[SplitFindings]:
  """Checks the splits of a corpus.

  Args:
    directory: of the records.
    out: local folder for `check.json`, the findings, and `check.jsonl`, a line a find; None: the corpus's own.
    splits: names, or parts such as `train[:1000]`; all of them if empty.
    max_characters: longer captions are counted.
    processes: None: one a core.
    progress: called with a split, the records so far, and all of its records.
  """
  if out is None and addresses.is_remote(directory):
    raise UsageError(f"{directory} is not on this machine: say where the report goes with --out=DIR")
  out = pathlib.Path(out or directory)
  names = list(splits) or records.splits(directory)
  if not names:
    raise UsageError(f"{directory} is no corpus (dataset_info.json is absent): `xmcap data build` makes one")
  if max_characters < 1:
    raise UsageError(f"max_characters={max_characters}: give a limit of at least 1")
  sources = [RecordSource(directory, name) for name in names]
  has_tags = addresses.is_file(addresses.join(directory, "tags.txt"))
  tags = frozenset(records.read_tags(directory)) if has_tags else None
  files.make_folder(out)
  found = []
  with outputs.together(out):
    with files.whole(out / "check.jsonl") as lines:
      for source in sources:
        done = functools.partial(progress, source.split) if progress else None
        options = {"chunk": _CHUNK, "processes": processes, "progress": done}
        chunks = workers.map_records(_check_records, source, tags, max_characters, **options)
        found.append(_collected(source, chunks, lines))
    about = {
      "directory": str(directory),
      "bad": sum(split.bad for split in found),
      "splits": [split.as_json() for split in found],
    }
    files.write_text(out / "check.json", json.dumps(about, ensure_ascii=False, indent=1) + "\n")
  return found


@dataclasses.dataclass
class _Checked:
  """The results for some records; `sides` are those of their pictures, `hashes` 64 bits of each key, 0 for none."""

  finds: list[Find] = dataclasses.field(default_factory=list)
  hashes: list[int] = dataclasses.field(default_factory=list)
  captions: int = 0
  bytes: int = 0
  formats: collections.Counter = dataclasses.field(default_factory=collections.Counter)
  sides: list[int] = dataclasses.field(default_factory=list)


def _collected(source: RecordSource, chunks: Iterator[_Checked], lines: BinaryIO) -> SplitFindings:
  """Adds the chunks of a split up, and writes their finds."""
  found = SplitFindings(source.split)
  hashes = []

  def add(finds: list[Find]) -> None:
    found.bad += len({find.index for find in finds if find.kind in ERRORS})
    for find in finds:
      found.add(find)
      lines.write(f"{json.dumps(dataclasses.asdict(find), ensure_ascii=False)}\n".encode())

  for chunk in chunks:
    add(chunk.finds)
    found.pictures += len(chunk.hashes)
    found.captions += chunk.captions
    found.bytes += chunk.bytes
    found.formats += chunk.formats
    if sides := [*chunk.sides, *filter(None, found.sides)]:
      found.sides = min(sides), max(sides)
    hashes.append(np.array(chunk.hashes, np.uint64))
  add(list(_repeated_keys(source, np.concatenate(hashes))))
  return found


def _check_records(
  source: RecordSource, indices: range, tags: frozenset[str] | None, max_characters: int
) -> _Checked:
  """Checks the records at some indices, in any process."""
  checked = _Checked()
  texts: Texts = {}
  for start in range(0, len(indices), _READ_AT_ONCE):
    for index, record in _read(source, indices[start : start + _READ_AT_ONCE]):
      if isinstance(record, XmcapError):
        checked.finds.append(Find(source.split, index, "", "damaged", str(record)))
        checked.hashes.append(0)
        continue
      checked.hashes.append(_hash(record.key))
      checked.captions += len(record.captions)
      checked.bytes += len(record.image)
      problems = [
        *_in_record(record),
        *_in_picture(record, checked),
        *(("unknown_tag", tag, "") for tag in record.tags if tags is not None and tag not in tags),
        *_in_captions(record.captions, max_characters),
      ]
      checked.finds += [
        Find(source.split, index, record.key, kind, _short(what), language)
        for kind, what, language in problems
      ]
      for language, text in dict.fromkeys((caption.language, caption.text) for caption in record.captions):
        if text.strip() and language in languages.LANGUAGES:
          texts.setdefault(language, []).append((index, record.key, text))
  checked.finds += _wrong_scripts(texts, source.split)
  checked.finds.sort(key=lambda find: find.index)
  return checked


def _read(source: RecordSource, indices: Sequence[int]) -> Iterator[tuple[int, Record | XmcapError]]:
  """Reads records; one that is damaged costs none of the others."""
  try:
    yield from zip(indices, source.read(indices), strict=True)
  except XmcapError as error:
    if len(indices) == 1:
      yield indices[0], error
      return
    for index in indices:
      yield from _read(source, [index])


def _in_record(record: Record) -> Iterator[Problem]:
  # Empty captions have a kind of their own.
  kept = [caption for caption in record.captions if caption.text.strip()]
  try:
    records.check(dataclasses.replace(record, captions=kept))
  except XmcapError as error:
    yield "invalid", str(error), ""


def _in_picture(record: Record, checked: _Checked) -> Iterator[Problem]:
  try:
    height, width, _ = images.decode(record.image, record.key).shape
  except XmcapError as error:
    yield "broken_picture", str(error), ""
    return
  with Image.open(io.BytesIO(record.image)) as image:
    checked.formats[image.format] += 1
  checked.sides += [height, width]


def _in_captions(captions: Sequence[Caption], max_characters: int) -> Iterator[Problem]:
  if not captions:
    yield "no_captions", "none in any language", ""
  seen: set[tuple[str, str]] = set()
  for caption in captions:
    language, text = caption.language, caption.text
    if not text.strip():
      yield "empty_caption", repr(text), language
      continue
    if odd := _odd_character(text):
      yield "control_characters", f"{ascii(odd)} in {text}", language
    if not any(unicodedata.category(char)[0] not in "CZ" for char in text):
      yield "empty_caption", ascii(text), language
    if len(text) > max_characters:
      yield "long_caption", f"{len(text):,} characters: {text}", language
    if (language, text) in seen:
      yield "repeated_caption", text, language
    seen.add((language, text))


def _odd_character(text: str) -> str:
  """The first control or private character of a text, or the one that a wrong decoding leaves; "" if none."""
  if text.isprintable() and _DECODED_WRONGLY not in text:
    return ""
  return next(
    (char for char in text if char == _DECODED_WRONGLY or unicodedata.category(char) in ("Cc", "Cs", "Co")),
    "",
  )


def _wrong_scripts(texts: Texts, split: str) -> Iterator[Find]:
  from xmcap.scoring.health import scripts  # only the check needs it

  for language, held in texts.items():
    letters, own = scripts.count_letters([text for _, _, text in held], language)
    for place in np.flatnonzero((letters >= _MIN_LETTERS) & (2 * own < letters)).tolist():
      index, key, text = held[place]
      what = f"{own[place]} of {letters[place]} letters are {'/'.join(scripts.scripts_of(language))}: {text}"
      yield Find(split, index, key, "wrong_script", _short(what), language)


def _short(text: str) -> str:
  return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def _hash(key: str) -> int:
  return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).digest(), "little") | 1


def _repeated_keys(source: RecordSource, hashes: np.ndarray) -> Iterator[Find]:
  """Finds keys that come again; the records of equal hashes are read to compare them."""
  order = np.argsort(hashes, kind="stable")
  ordered = hashes[order]
  again = order[1:][(ordered[1:] == ordered[:-1]) & (ordered[1:] != 0)]
  for index in np.sort(again).tolist():
    first = int(order[np.searchsorted(ordered, hashes[index])])
    key = source[index].key
    if source[first].key == key:
      yield Find(source.split, index, key, "repeated_key", f"record {first:,} has it already")
