"""Reference captions: the XM3600 release, plain JSONL, or COCO annotations."""

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xmcap import languages as languages_lib
from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.reading import captions as captions_lib
from xmcap.scoring.reading import layouts
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
  """

  def __init__(
    self,
    captions: Mapping[str, Any] | None = None,
    locales: Mapping[str, str] | None = None,
    tokenized: Mapping[str, dict[str, list[str]]] | None = None,
    notes: Iterable[str] = (),
  ):
    captions = {} if captions is None else captions
    captions_lib.check_references(captions)
    super().__init__(captions)
    self.locales: dict[str, str] = dict(locales or {})
    self.tokenized: Captions = dict(tokenized or {})
    self.notes = tuple(notes)


def read_references(
  path: str | os.PathLike | Input,
  languages: Sequence[str] | None = None,
  language: str | None = None,
  tokenized: bool = False,
  longest: int | None = None,
) -> References:
  """Reads reference captions unchanged, in the order of the file; the layout is known by content.

  An image has no entry for a language without captions.

  Args:
    path: the XM3600 release, plain JSONL (any number of lines per image; `caption` is a string or a list), or COCO
      annotations; also an opened `Input`, which is closed.
    languages: codes to keep; None keeps all. The whole file is checked either way.
    language: code of captions that come without one, such as COCO's; others keep their own.
    tokenized: whether to read `caption/tokenized` too.
    longest: the most characters of a caption in JSONL; None: any number.

  Raises:
    UsageError: the file cannot be read, is malformed (the message names the line), has no images or too long captions,
      or needs `language`.
  """
  wanted = None if languages is None else {languages_lib.get(code).code for code in languages}
  default = None if language is None else languages_lib.get(language).code
  with uncollected(), path if isinstance(path, Input) else Input(path) as source:
    if layouts.is_annotations(source.head):
      references = _of_coco(source, default, wanted, tokenized)
    elif str(source.path).endswith((".csv", ".tsv", ".txt")) and source.head.lstrip()[:1] not in b"{":
      raise UsageError(
        f"{source.name}: text and CSV are only for predictions; give references as JSONL with image/key, language and "
        "caption, or as COCO annotations"
      )
    elif layouts.is_results(source.head):
      raise UsageError(f"{source.name}: a list, as in COCO results; give JSONL or COCO annotations")
    else:
      references = _of_lines(source, default, wanted, tokenized, longest)
  if not references:
    raise UsageError(f"{source.name}: contains no images; give JSONL or COCO annotations")
  return references


def _of_coco(source: Input, language: str | None, wanted: set[str] | None, tokenized: bool) -> References:
  if language is None:
    raise UsageError(f"{source.name}: COCO's JSON names no language; give it with --language=CODE")
  if tokenized:
    raise UsageError(f"{source.name}: COCO's JSON has no caption/tokenized; choose another --tokenizer")
  captions, repeated = layouts.annotations(source)
  notes = []
  if repeated:
    have = "has" if repeated == 1 else "have"
    notes.append(
      f"references: {repeated:,} of the annotations {have} the id of an earlier one; all captions count"
    )
  kept = wanted is None or language in wanted
  held = {key: {language: texts} if texts and kept else {} for key, texts in captions.items()}
  return References(held, notes=notes)


def _of_lines(
  source: Input, language: str | None, wanted: set[str] | None, tokenized: bool, longest: int | None
) -> References:
  references = References()
  lines: dict[str, int] = {}
  plain = None
  long = []
  for number, row in source.rows():
    where = f"{source.name}, line {number}"
    if plain is None:
      plain = "caption" in row or "language" in row
    key = layouts.text(row, "image/key", where)
    if not key:
      raise UsageError(f"{where}: 'image/key' is empty; name the image")
    if not plain and key in lines:
      raise UsageError(f"{where}: image/key '{shown(key)}' is already on line {lines[key]}; keep one")
    lines[key] = number
    _set_locale(references.locales, key, row.get("image/locale", ""), where)
    captions, words = _plain(row, language, tokenized, where) if plain else _released(row, tokenized, where)
    if longest is not None and len(max(itertools.chain(*captions.values()), key=len, default="")) > longest:
      long += [
        (f"{code} {shown(key)} on line {number}", len(text))
        for code, texts in captions.items()
        for text in texts
        if len(text) > longest
      ]
    _add(references, key, captions, wanted)
    if tokenized:
      _add(references.tokenized, key, words, wanted)
  captions_lib.refuse_long(long, f"{source.name}: ")
  return references


def _add(held: Captions, key: str, captions: dict[str, list[str]], wanted: set[str] | None) -> None:
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


def _plain(row: dict[str, Any], language: str | None, tokenized: bool, where: str) -> tuple[dict, dict]:
  """Does the same as `_released` for a line of plain JSONL."""
  if language is not None:
    row = {"language": language, **row}
  code = layouts.text(row, "language", where, "; give it here or with --language=CODE")
  files.check_language(code, where)
  texts = layouts.texts(_listed(row.get("caption")))
  if texts is None:
    raise UsageError(f"{where}: 'caption' must be a string or a list of strings")
  if not texts:
    return {}, {}
  return {code: texts}, {code: _words(row.get("caption/tokenized"), texts, where)} if tokenized else {}


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
