"""Reference captions: the XM3600 release, COCO's or Karpathy's annotations, or rows of captions."""

import itertools
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from xmcap import languages as languages_lib
from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.arguments import checked
from xmcap.scoring.reading import captions as captions_lib
from xmcap.scoring.reading import hub_folders, ids, joining, layouts, rows
from xmcap.scoring.reading.inputs import Input, uncollected
from xmcap.terminal import shown

Captions = dict[str, dict[str, list[str]]]
"""Image key -> language code -> captions (one or more)."""

ReferenceMapping = Mapping[str, Mapping[str, Sequence[str]]]
"""The same for arguments of `score`, with any mapping and sequence types."""


class References(Captions):
  """Image key -> language code -> reference captions; types are checked here, so `score` need not.

  Attributes:
    locales: image key -> region for which the image was chosen (`image/locale`, a language code); "" or absent if
      unknown.
    tokenized: the same captions, split into words by the release and joined by single spaces; empty unless requested.
    notes: warnings about the file for readers of the scores.
    splits: image key -> split, for a file that has several, as Karpathy's.
    longest: the most characters that the reader let a caption have; None: any number.
    numbered: whether the keys are the numbers of lines.
  """

  @checked
  def __init__(
    self,
    captions: Mapping[str, Any] | None = None,
    locales: Mapping[str, str] | None = None,
    tokenized: Mapping[str, dict[str, list[str]]] | None = None,
    notes: Iterable[str] = (),
  ):
    super().__init__(captions_lib.plain_references({} if captions is None else captions))
    self.locales: dict[str, str] = dict(locales or {})
    tokenized = {} if tokenized is None else tokenized
    self.tokenized: Captions = captions_lib.plain_references(tokenized, "tokenized")
    self.notes = tuple(notes)
    self.splits: dict[str, str] = {}
    self.longest: int | None = None
    self.numbered = False


@checked
def read_references(
  path: joining.Paths | Input,
  languages: Sequence[str] | None = None,
  language: str | None = None,
  tokenized: bool = False,
  key: str | None = None,
  longest: int | None = None,
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

  Raises:
    UsageError: the file cannot be read, is malformed (the message names the line), has no images or too long captions,
      or needs `language`; two files have the same captions, or texts differ in the number of lines.
  """
  wanted = None if languages is None else {languages_lib.get(code).code for code in languages}
  default = None if language is None else languages_lib.get(language).code
  namer = ids.Namer("references", key)
  paths = joining.listed(path)
  names = [part.name if isinstance(part, Input) else str(part) for part in paths]
  with uncollected():
    parts = [_read(part, default, wanted, tokenized, namer, longest) for part in paths]
    references = _joined(names, parts, namer) if len(parts) > 1 else parts[0]
    _check_empty(joining.named(names), references, namer)
  references.notes, references.longest = tuple(namer.notes), longest
  return references


def _read(
  path: str | os.PathLike | Input,
  language: str | None,
  wanted: set[str] | None,
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
      if isinstance(source, Input) and layouts.is_annotations(source.head):
        _read_annotations(source, code, wanted, tokenized, references, namer, lengths)
      else:
        _read_rows(rows.of(source), code, wanted, tokenized, references, namer, lengths)
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
      _add(references, key, captions, None)
    for key, words in part.tokenized.items():
      _add(references.tokenized, key, words, None)
    for key, locale in part.locales.items():
      _set_locale(references.locales, key, locale, name)
    references.splits |= part.splits
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
      f"{files.count(dropped, 'empty line')} left out, where another file has a reference of the image"
    )


def _texts(references: References) -> Iterator[list[str]]:
  return itertools.chain.from_iterable(of_image.values() for of_image in references.values())


def of_split(references: References, predictions: Mapping[str, Any]) -> References:
  """Returns the references of the split whose images are predicted, with a note; all, if there is no one such split."""
  splits = {references.splits.get(key, "") for key in predictions}
  if len(splits) != 1 or splits == {""}:
    return references
  (split,) = splits
  held = {key: value for key, value in references.items() if references.splits[key] == split}
  note = f"references: {len(held):,} images of the split '{split}', of {len(references):,}"
  return References(held, notes=[*references.notes, note])


def _read_annotations(
  source: Input,
  language: str | None,
  wanted: set[str] | None,
  tokenized: bool,
  references: References,
  namer: ids.Namer,
  lengths: captions_lib.Lengths,
) -> None:
  if tokenized:
    raise UsageError(f"{source.name}: COCO's JSON has no caption/tokenized; choose another --tokenizer")
  captions, references.splits, notes = layouts.annotations(source)
  for note in notes:
    namer.note(note)
  of_images = rows.Rows(source.path, source.name, "image '{}'", iter(()))
  items = ((shown(image), image, None, texts) for image, texts in captions.items())
  for number, image, code, texts in namer.named(of_images, items, language):
    lengths.see(image, {code: texts}, of_images.place, number)
    _add(references, image, {code: texts} if texts else {}, wanted)


def _read_rows(
  source: rows.Rows,
  language: str | None,
  wanted: set[str] | None,
  tokenized: bool,
  references: References,
  namer: ids.Namer,
  lengths: captions_lib.Lengths,
) -> None:
  first = next(source.rows, None)
  if first is None:
    return
  source.rows = itertools.chain((first,), source.rows)
  if "image/key" in first[1] and not {"caption", "language"} & first[1].keys():
    _read_release(source, wanted, tokenized, references, lengths)
    return
  layout = layouts.of_rows(
    first[1], "references", source.where(1 if source.ordered else first[0]), source.ordered
  )
  if layout.whose:
    namer.note(layout.whose)
  if not layout.key:
    if rows.split_name(source.path)[1] in rows.DELIMITERS:
      raise UsageError(f"{source.name}, line 1: no column of image keys; name it 'image/key'")
    namer.note("the images are numbered from 1, a line of text each")
    references.numbered = True
  items = _items(source, layout, tokenized)
  for number, key, code, (texts, words, locale) in namer.named(source, items, language):
    _set_locale(references.locales, key, locale, source.where(number))
    lengths.see(key, {code: texts}, source.place, number)
    _add(references, key, {code: texts} if texts else {}, wanted)
    if tokenized:
      _add(references.tokenized, key, {code: words} if words else {}, wanted)


def _items(source: rows.Rows, layout: layouts.Layout, tokenized: bool) -> Iterator[tuple[Any, str, Any, Any]]:
  """Yields (number, id, language or None, (captions, words, region)) for rows of captions."""
  for number, row in source.rows:
    where = source.where(number)
    key = layouts.key_of(row, layout, where) if layout.key else str(number)
    value = layout.get_captions(row, where) if layout.get_captions else row.get(layout.captions)
    texts = layouts.texts(_listed(value))
    if texts is None:
      raise UsageError(f"{where}: '{layout.captions}' must be a string or a list of strings")
    words = _words(row.get(layout.tokenized), texts, where) if tokenized and texts else []
    yield number, key, row.get(layout.language) or None, (texts, words, row.get(layout.locale) or "")


def _read_release(
  source: rows.Rows,
  wanted: set[str] | None,
  tokenized: bool,
  references: References,
  lengths: captions_lib.Lengths,
) -> None:
  lines: dict[str, int | str] = {}
  for number, row in source.rows:
    where = source.where(number)
    key = layouts.text(row, "image/key", where)
    if not key:
      raise UsageError(f"{where}: 'image/key' is empty; name the image")
    if key in lines:
      raise UsageError(f"{where}: image/key '{shown(key)}' is already on line {lines[key]}; keep one")
    lines[key] = number
    _set_locale(references.locales, key, row.get("image/locale", ""), where)
    captions, words = _released(row, tokenized, where)
    lengths.see(key, captions, source.place, number)
    _add(references, key, captions, wanted)
    if tokenized:
      _add(references.tokenized, key, words, wanted)


def _check_empty(name: str, references: References, namer: ids.Namer) -> None:
  """Notes empty references, which lower scores; UsageError if an image has no other in a language."""
  suspects = {
    key: of_image
    for key, of_image in references.items()
    if not all(map(str.strip, itertools.chain.from_iterable(of_image.values())))
  }
  empty = [
    f"{code} {shown(key)}"
    for key, of_image in suspects.items()
    for code, texts in of_image.items()
    if not all(map(str.strip, texts))
  ]
  if not empty:
    return
  nothing = [
    f"{code} {shown(key)}"
    for key, of_image in suspects.items()
    for code, texts in of_image.items()
    if not any(map(str.strip, texts))
  ]
  if nothing:
    raise UsageError(
      f"{name}: {files.count(len(nothing), 'image')} with empty references only ({files.first_few(nothing)}); give "
      "captions, or leave out the image"
    )
  namer.note(
    f"{files.count(len(empty), 'image')} with an empty reference among others ({files.first_few(empty)}), which lowers "
    "scores"
  )


def _add(held: Captions, key: str, captions: dict[str, list[str]], wanted: set[str] | None) -> None:
  if wanted is None and key not in held:
    held[key] = captions
    return
  of_image = held.setdefault(key, {})
  for code, texts in captions.items():
    if code in of_image:
      of_image[code].extend(texts)
    elif wanted is None or code in wanted:
      of_image[code] = texts


def _set_locale(locales: dict[str, str], key: str, locale: Any, where: str) -> None:
  if not isinstance(locale, str):
    raise UsageError(f"{where}: image/locale must be a string")
  known = locales.get(key, "")
  if locale and known and locale != known:
    raise UsageError(
      f"{where}: image/locale is '{shown(locale)}', but '{shown(known)}' on an earlier line of this image; keep one"
    )
  locales[key] = known or locale


def _released(row: dict[str, Any], tokenized: bool, where: str) -> tuple[dict, dict]:
  """Returns the captions of a line of the release, and the tokenised ones if requested."""
  captions, words = {}, {}
  for code, texts, given in layouts.released(row, where):
    if texts:
      captions[code] = texts
      if tokenized:
        words[code] = _words(given, texts, f"{where}: '{code}'")
  return captions, words


def _words(given: Any, texts: list[str], where: str) -> list[str]:
  words = layouts.texts(_listed(given))
  if words is None or len(words) != len(texts):
    raise UsageError(
      f"{where}: caption/tokenized must have an entry for each caption ({len(texts)}); complete it, or choose another "
      "--tokenizer"
    )
  return words


def _listed(value: Any) -> Any:
  return [value] if isinstance(value, str) else value
