"""Reads rows of reference captions, and lines of the XM3600 release."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from xmcap import wording
from xmcap.arguments import checked
from xmcap.errors import UsageError
from xmcap.reading import captions as captions_lib
from xmcap.reading import ids, layouts, rows
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
    names: image key -> its file name, where the file has it beside the key.
    rejected: keys of images all of whose captions the file marks as rejected; their predictions do not count.
    longest: the most characters that the reader let a caption have; None: any number.
    numbered: whether the keys are the numbers of lines.
    columns: of the columns that were asked for, those that a file has.
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
    self.names: dict[str, str] = {}
    self.rejected: frozenset[str] = frozenset()
    self.longest: int | None = None
    self.numbered = False
    self.columns: set[str] = set()


def read(
  source: rows.Rows,
  language: str | None,
  languages: set[str] | None,
  tokenized: bool,
  references: References,
  namer: ids.Namer,
  lengths: captions_lib.Lengths,
) -> None:
  """Adds the captions of a file to `references`; arguments and errors are those of `read_references`."""
  if source.images is not None and tokenized:
    raise UsageError(f"{source.name}: COCO's JSON has no caption/tokenized; choose another --tokenizer")
  first = next(source.rows, None)
  keys: dict[str, None] = {}
  if first is not None:
    source.rows = itertools.chain((first,), source.rows)
    if _is_release(first[1]):
      _read_release(source, languages, tokenized, references, lengths)
      return
    layout = _layout(source, first, language, namer)
    references.numbered = not layout.key
    rejected: list[str] = []
    items = _items(source, layout, tokenized, references.names, rejected)
    for number, key, code, (texts, words, locale) in namer.named(source, items, language):
      keys[key] = None
      if locale:
        set_locale(references.locales, key, locale, source.where(number))
      lengths.see(key, {code: texts}, source.place, number)
      add(references, key, {code: texts} if texts else {}, languages)
      if tokenized:
        add(references.tokenized, key, {code: words} if words else {}, languages)
    if rejected:
      without = {key for key in rejected if not references.get(key)}
      references.rejected |= without
      rest = f"; {wording.count(len(without), 'image')} without others not scored" if without else ""
      count = wording.count(len(rejected), "caption")
      namer.note(f"{count} marked as rejected or precanned left out, as in VizWiz's evaluation{rest}")
  if source.images is not None and keys.keys() <= source.images.keys():
    references.update({key: references.pop(key, {}) for key in source.images})
    references.names |= {key: name for key, name in source.images.items() if name}
    references.splits |= source.splits
  for note in source.notes:
    namer.note(note)


def _layout(
  source: rows.Rows, first: tuple[int | str, dict[str, Any]], language: str | None, namer: ids.Namer
) -> layouts.Layout:
  """Returns the layout of rows of captions, with its notes."""
  where = source.where(1 if source.ordered else first[0])
  layout = namer.layout(first[1], where, source.ordered, language)
  notes = list(layout.notes)
  if layout.key == "id" and layout.file_name:
    source.rows, all_rows = itertools.tee(source.rows)
    ids_of: dict[str, set[str]] = {}
    for _, row in all_rows:
      ids_of.setdefault(str(row.get(layout.file_name)), set()).add(str(row.get("id")))
    if max(map(len, ids_of.values())) > 1:
      notes[0] = f"the key of an image is its {layout.file_name}, as several ids have one"
      layout = dataclasses.replace(layout, key=layout.file_name, file_name="")
  if not layout.key:
    if rows.split_name(source.path)[1] in rows.DELIMITERS:
      raise UsageError(f"{source.name}, line 1: no column of image keys; name it 'image/key'")
    notes.append("the images are numbered from 1, a line of text each")
  for note in notes:
    namer.note(note)
  return layout


def _items(
  source: rows.Rows, layout: layouts.Layout, tokenized: bool, names: dict[str, str], rejected: list[str]
) -> Iterator[tuple[Any, str, Any, Any]]:
  """Yields (number, id, language or None, (captions, words, region)) for rows of captions.

  Adds key -> file name of the image to `names`, and to `rejected` the key of each caption that a flag leaves out.
  """
  repeated: dict[str, list[str]] = {}
  several = len(layout.captions) > 1
  for number, row in source.rows:
    key = layouts.key_of(row, layout, source.where, number) if layout.key else str(number)
    if layout.file_name and isinstance(name := row.get(layout.file_name), str):
      names.setdefault(key, name)
    if layouts.is_rejected(row):
      rejected.append(key)
      continue
    for field, language in layout.captions:
      value = layout.get_captions(row, source.where(number)) if layout.get_captions else row.get(field)
      if several and not value:
        continue  # an empty cell of a table that has a column for each caption
      texts = layouts.texts(_listed(value))
      if texts is None:
        raise UsageError(f"{source.where(number)}: '{field}' must be a string or a list of strings")
      if not layout.key and any("\t" in text for text in texts):
        raise UsageError(
          f"{source.where(number)}: a tab in a caption; several references a line need one in every line"
        )
      if layout.repeats and (of_image := repeated.setdefault(key, texts)) is not texts:
        if sorted(of_image) != sorted(texts):
          raise UsageError(
            f"{source.where(number)}: '{field}' is not as on an earlier row of this image; keep one"
          )
        continue
      words = _words(row.get(layout.tokenized), texts, source.where(number)) if tokenized and texts else []
      written = language or row.get(layout.language) or None
      yield number, key, written, (texts, words, row.get(layout.locale) or "")


def _is_release(row: dict[str, Any]) -> bool:
  if "image/key" not in row or {"caption", "language"} & row.keys():
    return False
  of_languages = [value for name, value in row.items() if not name.startswith("image/")]
  return not of_languages or any(isinstance(value, dict) for value in of_languages)


def _read_release(
  source: rows.Rows,
  languages: set[str] | None,
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
    set_locale(references.locales, key, row.get("image/locale", ""), where)
    captions, words = _released(row, tokenized, where)
    lengths.see(key, captions, source.place, number)
    add(references, key, captions, languages)
    if tokenized:
      add(references.tokenized, key, words, languages)


def add(images: Captions, key: str, captions: dict[str, list[str]], languages: set[str] | None) -> None:
  """Adds captions of an image by language, of those `languages`; None: all."""
  if languages is None and key not in images:
    images[key] = captions
    return
  of_image = images.setdefault(key, {})
  for language, texts in captions.items():
    if language in of_image:
      of_image[language].extend(texts)
    elif languages is None or language in languages:
      of_image[language] = texts


def set_locale(locales: dict[str, str], key: str, locale: Any, where: str) -> None:
  """Adds the region of an image; UsageError if it is no text, or another one is known."""
  if not isinstance(locale, str):
    raise UsageError(f"{where}: image/locale must be a string")
  earlier = locales.get(key, "")
  if locale and earlier and locale != earlier:
    raise UsageError(
      f"{where}: image/locale is '{shown(locale)}', but '{shown(earlier)}' on an earlier line of this image; keep one"
    )
  locales[key] = earlier or locale


def _released(row: dict[str, Any], tokenized: bool, where: str) -> tuple[dict, dict]:
  """Returns the captions of a line of the release, and the tokenised ones if requested."""
  captions, words = {}, {}
  for language, texts, tokens in layouts.released(row, where):
    if texts:
      captions[language] = texts
      if tokenized:
        words[language] = _words(tokens, texts, f"{where}: '{language}'")
  return captions, words


def _words(tokens: Any, texts: list[str], where: str) -> list[str]:
  words = layouts.texts(_listed(tokens))
  if words is None or len(words) != len(texts):
    raise UsageError(
      f"{where}: caption/tokenized must have an entry for each caption ({len(texts)}); complete it, or choose another "
      "--tokenizer"
    )
  return words


def _listed(value: Any) -> Any:
  return [value] if isinstance(value, str) else value
