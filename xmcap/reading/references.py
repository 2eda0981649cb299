"""Reference captions: the XM3600 release, COCO's or Karpathy's annotations, or rows of captions."""

import itertools
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xmcap import languages as languages_lib
from xmcap import wording
from xmcap.arguments import checked
from xmcap.errors import UsageError
from xmcap.reading import captions as captions_lib
from xmcap.reading import hub_folders, ids, joining, reference_rows, rows
from xmcap.reading.columns import ColumnNames
from xmcap.reading.inputs import Input, uncollected
from xmcap.reading.reference_rows import ReferenceMapping, References
from xmcap.terminal import shown

__all__ = ["ReferenceMapping", "References", "of_split", "read_references"]


@checked
def read_references(
  path: joining.Paths | Input,
  languages: Sequence[str] | None = None,
  language: str | None = None,
  tokenized: bool = False,
  key: str | None = None,
  longest: int | None = None,
  columns: ColumnNames | None = None,
) -> References:
  """Reads reference captions unchanged, in the order of the file; `docs/scoring.md` lists the layouts.

  An image has no entry for a language without captions.

  Args:
    path: the XM3600 release, COCO's or Karpathy's annotations, or rows of any of `layouts` (any number per image; a
      caption is a string or a list) in any file of `rows`; or a folder of such files, `CODE.jsonl` and so on, or
      that above them (`hub_folders`); also an opened `Input`, which is closed. The images of a text are its lines, by
      number from 1. Several files are joined: other images, other languages, or further references of the same images,
      such as line by line in `ref1.txt` and `ref2.txt`, where an empty line is no reference.
    languages: codes to keep; None keeps all. The whole file is checked either way.
    language: code of captions that come without one, such as COCO's; others keep their own.
    tokenized: whether to read `caption/tokenized` too.
    key: a regular expression whose group is the image's key in an id; a group `language` gives the language. Ids none
      of which it matches are keys already.
    longest: the most characters of a caption; None: any number.
    columns: names of columns; a file that lacks them is read by the usual names.

  Raises:
    UsageError: the file cannot be read, is malformed (the message names the line), has no images or too long captions,
      or needs `language`; two files have the same captions, or texts differ in the number of lines.
  """
  codes = None if languages is None else {languages_lib.get(code).code for code in languages}
  default = None if language is None else languages_lib.get(language).code
  namer = ids.Namer("references", key, columns)
  paths = joining.listed(path)
  names = [part.name if isinstance(part, Input) else str(part) for part in paths]
  with uncollected():
    parts = [_read(part, default, codes, tokenized, namer, longest) for part in paths]
    references = _joined(names, parts, namer) if len(parts) > 1 else parts[0]
    _check_empty(joining.named(names), references, namer)
  references.notes, references.longest, references.columns = tuple(namer.notes), longest, namer.present
  return references


def _read(
  path: str | os.PathLike | Input,
  language: str | None,
  languages: set[str] | None,
  tokenized: bool,
  namer: ids.Namer,
  longest: int | None,
) -> References:
  """Reads a file, or the files of a folder."""
  references = References()
  parts = [(language, path)]
  if not isinstance(path, Input) and os.path.isdir(path):
    parts = namer.files(hub_folders.tables(pathlib.Path(path)), language)
  for code, part in parts:
    lengths = captions_lib.Lengths(longest)
    with rows.opened(part) as source:
      name = source.name
      reference_rows.read(rows.of(source), code, languages, tokenized, references, namer, lengths)
    lengths.refuse(f"{name}: ")
  if not references:
    raise UsageError(f"{name}: contains no images; give JSONL or COCO annotations")
  return references


def _joined(names: Sequence[str], parts: Sequence[References], namer: ids.Namer) -> References:
  """Returns the references of several files as those of one."""
  namer.note(
    joining.note((name, sum(map(len, _texts(part)))) for name, part in zip(names, parts, strict=True))
  )
  for (first, references), (name, part) in itertools.combinations(zip(names, parts, strict=True), 2):
    if references == part and any(part.values()):
      raise UsageError(f"{first} and {name} have the same captions; give one of them")
    if references.numbered != part.numbered:
      raise UsageError(f"{first} and {name}: only one of them has keys of images; give it to both")
    if part.numbered and len(references) != len(part):
      raise UsageError(
        f"{first} has {len(references):,} lines and {name} has {len(part):,}; give a line per image, in the same order"
      )
  references = parts[0]
  for name, part in zip(names[1:], parts[1:], strict=True):
    for key, captions in part.items():
      reference_rows.add(references, key, captions, None)
    for key, words in part.tokenized.items():
      reference_rows.add(references.tokenized, key, words, None)
    for key, locale in part.locales.items():
      reference_rows.set_locale(references.locales, key, locale, name)
    references.splits |= part.splits
    references.names |= part.names
    references.rejected |= part.rejected
  references.rejected = frozenset(key for key in references.rejected if not references.get(key))
  if references.numbered:
    _drop_empty_lines(references, namer)
  return references


def _drop_empty_lines(references: References, namer: ids.Namer) -> None:
  """Takes an empty line of one of several texts for no reference, as sacreBLEU does."""
  dropped = 0
  for texts in _texts(references):
    filled = [text for text in texts if text] or texts
    dropped += len(texts) - len(filled)
    texts[:] = filled
  if dropped:
    namer.note(
      f"{wording.count(dropped, 'empty line')} left out, where another file has a reference of the image"
    )


def _texts(references: References) -> Iterator[list[str]]:
  return itertools.chain.from_iterable(of_image.values() for of_image in references.values())


def of_split(references: References, predictions: Mapping[str, Any]) -> References:
  """Returns the references of the split whose images are predicted, with a note; all, if there is no one such split."""
  splits = {references.splits.get(key, "") for key in predictions}
  if len(splits) != 1 or splits == {""}:
    return references
  (split,) = splits
  chosen = {key: value for key, value in references.items() if references.splits.get(key) == split}
  note = f"references: {len(chosen):,} images of the split '{split}', of {len(references):,}"
  return References(chosen, notes=[*references.notes, note])


def _check_empty(name: str, references: References, namer: ids.Namer) -> None:
  """Notes empty references, which lower scores; UsageError if an image has no other in a language."""
  suspects = {
    key: of_image
    for key, of_image in references.items()
    if not all(map(str.strip, itertools.chain.from_iterable(of_image.values())))
  }
  empty = [
    f"{language} {shown(key)}"
    for key, of_image in suspects.items()
    for language, texts in of_image.items()
    if not all(map(str.strip, texts))
  ]
  if not empty:
    return
  nothing = [
    f"{language} {shown(key)}"
    for key, of_image in suspects.items()
    for language, texts in of_image.items()
    if not any(map(str.strip, texts))
  ]
  if nothing:
    raise UsageError(
      f"{name}: {wording.count(len(nothing), 'image')} with empty references only ({wording.first_few(nothing)}); give "
      "captions, or leave out the image"
    )
  namer.note(
    f"{wording.count(len(empty), 'image')} with an empty reference among others ({wording.first_few(empty)}), "
    "which lowers "
    "scores"
  )
