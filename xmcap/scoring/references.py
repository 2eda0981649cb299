"""Reference captions: the XM3600 release (packed as zip or not), COCO annotations, or plain JSONL.

XM3600: a line an image; `image/key`, `image/locale` (may be missing) and, for each language code, an object
whose list `caption` holds the references, and `caption/tokenized` the same split into words by the release.
Plain: a line `{"image/key": ..., "language": ..., "caption": a text or a list of texts}`, as many lines as
there is need for; `image/locale` and `caption/tokenized` may stand beside.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xmcap import languages as languages_lib
from xmcap.errors import UsageError
from xmcap.scoring import captions as captions_lib
from xmcap.scoring import coco, files, layouts
from xmcap.scoring.inputs import Input, opened, uncollected

_CODES = {code: code for code in languages_lib.LANGUAGES}
_TEXT = {str}

Captions = dict[str, dict[str, list[str]]]
"""Image key -> language code -> captions (one or more)."""


class References(Captions):
  """Image key -> language code -> reference captions (one or more); plain dicts will do where it is taken.

  What it is made of is checked then, and not again when it is scored against.

  Attributes:
    locales: image key -> the region it was chosen for (`image/locale`, a language code); "" if unknown.
    tokenized: the same captions split into words by the release, with single spaces between; empty if they
      were not asked for.
  """

  def __init__(
    self,
    captions: Mapping[str, dict[str, list[str]]] | Iterable = (),
    locales: Mapping[str, str] | None = None,
    tokenized: Mapping[str, dict[str, list[str]]] | None = None,
  ):
    super().__init__(captions)
    captions_lib.check_references(self)
    self.locales: dict[str, str] = dict(locales or {})
    self.tokenized: Captions = dict(tokenized or {})


def locales_of(references: Mapping) -> dict[str, str]:
  """Returns image key -> `image/locale`, "" where it is unknown, as it is for all of a plain dict."""
  known = getattr(references, "locales", {})
  return {key: known.get(key, "") for key in references}


def tokenized_of(references: Mapping) -> Captions:
  """Returns the released words (see `References`); empty for a plain dict or where they were not asked for."""
  return getattr(references, "tokenized", {})


def read_references(
  path: str | os.PathLike | Input,
  languages: Sequence[str] | None = None,
  language: str | None = None,
  tokenized: bool = False,
) -> References:
  """Reads reference captions; the content of the file, not its name, says which layout it has.

  Args:
    path: the XM3600 release or plain JSONL, either also inside a zip archive, or COCO annotations; or such an
      input, opened and not yet read.
    languages: the codes to keep; None keeps all. The whole file is checked either way.
    language: the code of captions that come without one, as COCO's do; others keep their own.
    tokenized: whether to read `caption/tokenized` too.

  Returns:
    The captions as released, in the order of the file. A language without a caption for an image has no
    entry there.

  Raises:
    UsageError: the file cannot be read; a line is no JSON object, repeats a key, names an unknown language,
      has a member of the wrong type, or lacks `caption/tokenized` or has more or fewer of them than captions
      (file and line are named); a language is needed and not given; or no image is in the file.
  """
  wanted = set(_CODES if languages is None else (languages_lib.get(code).code for code in languages))
  default = None if language is None else languages_lib.get(language).code
  with uncollected(), opened(path) as source:
    if coco.is_annotations(source.head):
      references = _of_coco(source, default, wanted, tokenized)
    elif coco.is_results(source.head):
      raise UsageError(f"{source.name}: a list, as COCO has for results; references are JSONL or annotations")
    else:
      references = _of_jsonl(source, default, wanted, tokenized)
  if not references:
    raise UsageError(
      f"{source.name}: no image in it; references are JSONL, one image a line, or the annotations of COCO"
    )
  return references


def _of_coco(source: Input, language: str | None, wanted: set[str], tokenized: bool) -> References:
  if language is None:
    raise UsageError(f"{source.name}: COCO's JSON names no language; give it with --language=CODE")
  if tokenized:
    raise UsageError(f"{source.name}: COCO's JSON holds no caption/tokenized; choose another --tokenizer")
  captions = coco.read_annotations(source)
  kept = language in wanted
  return References({key: {language: texts} if texts and kept else {} for key, texts in captions.items()})


def _of_jsonl(source: Input, language: str | None, wanted: set[str], tokenized: bool) -> References:
  references = References()
  lines: dict[str, int] = {}
  plain = None
  for number, row in source.rows(None if tokenized else layouts.released):
    where = f"{source.name}, line {number}"
    if plain is None:
      plain = type(row) is not layouts.Released and ("caption" in row or "language" in row)
    if type(row) is layouts.Released and not plain:
      key, locale, captions, words = *row, {}
    else:
      key, locale, captions, words = _careful(row, plain, language, tokenized, where)
    if key in lines and not plain:
      raise UsageError(f"{where}: image/key '{files.shown(key)}' is on line {lines[key]} already; keep one")
    _take_locale(references.locales, key, locale, where)
    _add(references, key, captions, wanted)
    if tokenized:
      _add(references.tokenized, key, words, wanted)
    lines.setdefault(key, number)
  return references


def _careful(
  row: dict[str, Any] | layouts.Released, plain: bool, language: str | None, tokenized: bool, where: str
) -> tuple[str, str, dict, dict]:
  """Returns image key, locale, captions, and the tokenised ones if asked for, of a line in either layout."""
  if type(row) is layouts.Released:
    raise UsageError(f"{where}: a line of the release among plain lines; keep to one layout")
  key, locale = row.get("image/key"), row.get("image/locale", "")
  if not isinstance(key, str) or not key:
    raise UsageError(f"{where}: no image/key; each line needs one, a text that is not empty")
  if not isinstance(locale, str):
    raise UsageError(f"{where}: image/locale must be a text")
  captions, words = _plain(row, language, tokenized, where) if plain else _released(row, tokenized, where)
  return key, locale, captions, words


def _add(held: Captions, key: str, captions: dict[str, list[str]], wanted: set[str]) -> None:
  if not wanted.issuperset(captions):
    captions = {code: texts for code, texts in captions.items() if code in wanted}
  of_image = held.get(key)
  if of_image is None:
    held[key] = captions
    return
  for code, texts in captions.items():
    of_image.setdefault(code, []).extend(texts)


def _take_locale(locales: dict[str, str], key: str, locale: str, where: str) -> None:
  known = locales.setdefault(key, locale)
  if locale and known and locale != known:
    raise UsageError(
      f"{where}: image/locale is '{files.shown(locale)}', on an earlier line of this image "
      f"'{files.shown(known)}'; keep one"
    )
  locales[key] = known or locale


def _released(row: dict[str, Any], tokenized: bool, where: str) -> tuple[dict, dict]:
  """Returns the captions, and the tokenised ones if asked for, of a line of the release."""
  captions, words = {}, {}
  for name, value in row.items():
    code = _CODES.get(name)
    if code is None:
      if name.startswith("image/"):
        continue
      files.check_language(name, where)
    texts = _texts(value.get("caption")) if isinstance(value, dict) else None
    if texts is None:
      raise UsageError(f"{where}: '{name}' must be an object whose 'caption' is a list of texts")
    if texts:
      captions[code] = texts
      if tokenized:
        words[code] = _words(value, texts, f"{where}: '{name}'")
  return captions, words


def _plain(row: dict[str, Any], language: str | None, tokenized: bool, where: str) -> tuple[dict, dict]:
  """As `_released`, of a line of plain JSONL."""
  code = row.get("language", language)
  if not isinstance(code, str):
    raise UsageError(f"{where}: 'language' is missing or no text; give it here or with --language=CODE")
  files.check_language(code, where)
  texts = _texts(_listed(row.get("caption")))
  if texts is None:
    raise UsageError(f"{where}: 'caption' must be a text or a list of texts")
  if not texts:
    return {}, {}
  return {code: texts}, {code: _words(row, texts, where)} if tokenized else {}


def _words(value: dict[str, Any], texts: list[str], where: str) -> list[str]:
  words = _texts(_listed(value.get("caption/tokenized")))
  if words is None or len(words) != len(texts):
    raise UsageError(
      f"{where} needs in caption/tokenized as many texts as captions ({len(texts)}); complete it, or choose "
      "another --tokenizer"
    )
  return words


def _listed(value: Any) -> Any:
  return [value] if isinstance(value, str) else value


def _texts(value: Any) -> list[str] | None:
  return value if isinstance(value, list) and set(map(type, value)) <= _TEXT else None
