"""The table of XM3600's 36 languages; any other language is known by its BCP-47 tag.

Source: Thapliyal et al., "Crossmodal-3600: A Massively Multilingual Multimodal Evaluation Dataset" (EMNLP 2022),
section 2.1: English, the 30 languages most used on the web, and five low-resource languages.
"""

import dataclasses
import difflib
import functools
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from xmcap import wording
from xmcap.errors import UsageError
from xmcap.terminal import shown

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Language:
  """One language."""

  code: str  # as in the XM3600 release (ISO 639-1 where there is one)
  english_name: str
  native_name: str
  script: str = "Latn"  # ISO 15924 code
  group: str = "web"  # or "english", or "low_resource"; "other" for languages outside the table
  direction: str = "ltr"  # or "rtl"
  spaces: bool = True  # whether spaces separate words; otherwise a segmenter finds the words
  trained: bool = True  # whether COCO-35L and CC3M-35L have captions in it


_TABLE = (
  Language("ar", "Arabic", "العربية", "Arab", direction="rtl"),
  Language("bn", "Bengali", "বাংলা", "Beng", "low_resource"),
  Language("cs", "Czech", "čeština"),
  Language("da", "Danish", "dansk"),
  Language("de", "German", "Deutsch"),
  Language("el", "Greek", "Ελληνικά", "Grek"),
  Language("en", "English", "English", group="english"),
  Language("es", "Spanish", "español"),
  Language("fa", "Persian", "فارسی", "Arab", direction="rtl"),
  Language("fi", "Finnish", "suomi"),
  Language("fil", "Filipino", "Filipino"),
  Language("fr", "French", "français"),
  Language("he", "Hebrew", "עברית", "Hebr", direction="rtl"),
  Language("hi", "Hindi", "हिन्दी", "Deva"),
  Language("hr", "Croatian", "hrvatski"),
  Language("hu", "Hungarian", "magyar"),
  Language("id", "Indonesian", "Indonesia"),
  Language("it", "Italian", "italiano"),
  Language("ja", "Japanese", "日本語", "Jpan", spaces=False),
  Language("ko", "Korean", "한국어", "Kore"),
  Language("mi", "Maori", "Māori", group="low_resource"),
  Language("nl", "Dutch", "Nederlands"),
  Language("no", "Norwegian", "norsk"),
  Language("pl", "Polish", "polski"),
  Language("pt", "Portuguese", "português"),
  Language("quz", "Cusco Quechua", "Runasimi", group="low_resource", trained=False),
  Language("ro", "Romanian", "română"),
  Language("ru", "Russian", "русский", "Cyrl"),
  Language("sv", "Swedish", "svenska"),
  Language("sw", "Swahili", "Kiswahili", group="low_resource"),
  Language("te", "Telugu", "తెలుగు", "Telu", "low_resource"),
  Language("th", "Thai", "ไทย", "Thai", spaces=False),
  Language("tr", "Turkish", "Türkçe"),
  Language("uk", "Ukrainian", "українська", "Cyrl"),
  Language("vi", "Vietnamese", "Tiếng Việt"),
  Language("zh", "Chinese", "中文", "Hans", spaces=False),
)

LANGUAGES: dict[str, Language] = {language.code: language for language in _TABLE}
"""All 36 languages by code, in alphabetical order."""

TRAINED: tuple[str, ...] = tuple(code for code, language in LANGUAGES.items() if language.trained)
"""Codes of the 35 languages of CC3M-35L and COCO-35L: all but `quz`."""

WIDE: tuple[str, ...] = tuple(
  """
  af ak am ar as az ba be bg bn bs ca chr cs cv cy da de dsb el en es et eu fa fi fil fo fr ga gd gl gu ha he
  hi hr hsb hu hy id ig is it ja jv ka kk km kn ko kok ky lo lt lv mk ml mn mr ms my ne nl no om or pa pcm pl
  ps pt quz rm ro ru sd shn si sk sl so sq sr sv sw ta te th ti tk to tr uk ur uz vi yo yue zh zu
  """.split()  # noqa: SIM905  too long a list to read
)
"""The 101 languages of emoji100: those in which Unicode CLDR 48 names at least 1,000 pictographs."""

EVERY = ("every",)
"""In the place of codes: every language of a file."""

_ALIASES = {
  "cmn": "zh", "tl": "fil", "iw": "he", "in": "id", "qu": "quz", "nb": "no",
  "arb": "ar", "pes": "fa", "swh": "sw", "cn": "zh", "jp": "ja", "kr": "ko", "zh-cn": "zh",
  "cz": "cs", "dk": "da", "gr": "el", "ua": "uk", "vn": "vi",
}  # fmt: skip
"""Other codes in use for languages of the table: legacy codes, macrolanguages and common mistakes."""

_OF_WIKIPEDIA = {
  "als": "gsw", "bat-smg": "sgs", "be-x-old": "be-tarask", "eml": "egl", "fiu-vro": "vro", "nrm": "nrf",
  "roa-rup": "rup", "simple": "en-simple", "zh-classical": "lzh",
}  # fmt: skip
"""Codes of Wikipedias, and so of BabelNet, that BCP 47 lacks or gives to another language (`als`, `nrm`)."""

_NAMES = {
  **{language.english_name.lower(): language.code for language in _TABLE},
  **{language.native_name.lower(): language.code for language in _TABLE},
  "farsi": "fa", "mandarin": "zh", "tagalog": "fil", "quechua": "quz", "runa simi": "quz",
  "bahasa indonesia": "id", "brazilian portuguese": "pt-BR", "simplified chinese": "zh",
  "traditional chinese": "zh-Hant", "norwegian bokmål": "no",
  "繁體中文": "zh-Hant", "繁体中文": "zh-Hant", "portugese": "pt", "ukranian": "uk",  # as published prompts spell them
}  # fmt: skip

_TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}")
_LONGEST_NAME = 80  # characters of a name with brackets; strangers' headers may be much longer
_TWO = re.compile(r"(.+?)(?: ?[(\[](.+)[)\]]|(?: ?[/|] ?| [–-] | (?=[a-z]{2,3}$))(.+))")
_VARIETY = re.compile(r"[a-z]{2,3}(-[a-z]{4})?(-([a-z]{2}|[0-9]{3}))?")
# Codes for no particular language, or for private use.
_PRIVATE = re.compile(r"q[a-t][a-z]|und|mul|mis|zxx|art")
_RIGHT_TO_LEFT = frozenset(
  {"Adlm", "Arab", "Aran", "Hebr", "Mand", "Mend", "Nkoo", "Rohg", "Samr", "Syrc", "Thaa"}
)
_NO_SPACES = frozenset(
  {"Bopo", "Hani", "Hans", "Hant", "Hrkt", "Jpan", "Khmr", "Laoo", "Mymr", "Thai", "Tibt", "Yiii"}
)


def is_known(language: str) -> bool:
  """Whether a code is one of the 36, or another language's BCP-47 tag in its standard form (`pt-BR`)."""
  return language in LANGUAGES or _further(language) is not None


def get(code: str) -> Language:
  """Returns the language of a code or BCP-47 tag; for others raises UsageError, which suggests the nearest code."""
  language = LANGUAGES.get(code) or _further(code)
  if language is not None:
    return language
  code = shown(code, limit=60)
  nearest = canonical(code) or next(iter(difflib.get_close_matches(code, LANGUAGES, n=1, cutoff=0.6)), None)
  hint = f"; did you mean '{nearest}'?" if nearest else "."
  raise UsageError(
    f"unknown language '{code}'{hint} The 36 codes: {' '.join(LANGUAGES)}; others by BCP-47 tag"
  )


def canonical(name: str) -> str | None:
  """Returns the code of a language spelled another way; None if it is unknown.

  Other ways are legacy codes (`iw`), tags in another case or with underscores (`pt_br`), three letters with the usual
  script, as in FLORES (`eng_Latn`), and names (`english`).
  """
  tag = name.strip().replace("_", "-").lower()
  code = _ALIASES.get(tag) or _NAMES.get(tag) or (tag if tag in LANGUAGES else _standard(tag))
  if code is not None and code.count("-") == 1:
    language, script = code.split("-")
    if script == _script(language) or (language, script) == ("ko", "Hang"):
      code = _ALIASES.get(language, language)
  code = _ALIASES.get(code or "", code)
  return code if code is not None and is_known(code) else None


def of_wikipedia(name: str) -> str | None:
  """Returns the code of a language in BabelNet's spelling, such as `ZH_YUE` or `BE_X_OLD`; otherwise as `canonical`."""
  return _OF_WIKIPEDIA.get(name.strip().replace("_", "-").lower()) or canonical(name)


def named(text: str) -> str | None:
  """Returns the code of a language that a text surely names, such as the header of a column; None otherwise.

  Sure are the 36 codes, their aliases and varieties (`qu`, `zh-CN`, `pt_br`), and names in English or the language
  itself, with or without accents, of the languages of `WIDE`. A bare code of another language may well be a word.
  So are two of them that agree (`Persian (fa)`, `Runasimi quz`, `Persian / فارسی`), and one with anything in brackets
  (`Quechua (Cusco)`).
  """
  folded = _folded(text)
  tag = folded.replace(" ", "-").replace("_", "-")
  language = _ALIASES.get(tag) or (tag if tag in LANGUAGES else None)
  if language is None and _VARIETY.fullmatch(tag) and (standard := canonical(tag)) is not None:
    language = standard if standard in LANGUAGES or variety_base(standard) else None
  return language or _names().get(folded) or _named_twice(folded)


def mentioned(text: str) -> list[str]:
  """Returns the codes of the languages of `WIDE` that a running text names, in English or the language itself.

  The longest name counts: `Traditional Chinese` is not Chinese, nor is `Chinese (Traditional)`. Codes do not count:
  `it`, `no` and `in` are words.
  """
  codes: list[str | None] = []
  for match in _any_name().finditer(_folded(text)):
    whole = named(match[0])
    codes += [whole] if whole else [_names()[match[1]], named(match[2])]  # which contradict each other
  return [code for code in dict.fromkeys(codes) if code]


@functools.cache
def _any_name() -> re.Pattern[str]:
  """A name, and what follows it in brackets; from Thai on, scripts write without spaces, or particles after names."""
  names = "|".join(
    re.escape(name) if name >= "\u0e00" else rf"(?<!\w){re.escape(name)}(?!\w)"
    for name in sorted(_names(), key=len, reverse=True)
  )
  return re.compile(rf"({names})(?: ?\(([^()]{{1,30}})\))?")


def _named_twice(folded: str) -> str | None:
  """Returns the language of `NAME (CODE)`, `NAME CODE` or `NAME / NAME`; None if the parts contradict each other."""
  match = _TWO.fullmatch(folded) if len(folded) <= _LONGEST_NAME else None
  if match is None:
    return None
  first, inner, last = match.groups()
  one, other = named(first), named(inner or last)
  if inner and (one is None or other is None):
    return _names().get(f"{inner} {first}") or one or other
  if one is None or other is None:
    return None
  if one == other or variety_base(other) == one:
    return other
  return one if variety_base(one) == other else None


def variety_base(language: str) -> str | None:
  """Returns the language of the table that a tag with a region or script begins with (`zh` for `zh-TW`), or None."""
  base = language.split("-")[0]
  base = _ALIASES.get(base, base)
  return base if base in LANGUAGES and base != language else None


def variety_of(language: str) -> str | None:
  """Returns the language of the table of which a tag names a variety in the same script (`pt` for `pt-BR`), or None.

  A variety in another script, such as `zh-TW`, is a language of its own here: no word of it would match.
  """
  base = variety_base(language)
  return base if base is not None and _script(language) == _script(base) else None


def ordered(languages) -> list[str]:
  """Returns the distinct codes in the order of the table, then other languages sorted by tag."""
  distinct = set(languages)
  return [*(language for language in LANGUAGES if language in distinct), *sorted(distinct - LANGUAGES.keys())]


def _folded(text: str) -> str:
  """Returns a name in lower case, without accents and with single spaces."""
  letters = unicodedata.normalize("NFKD", text.casefold())
  return " ".join("".join(char for char in letters if unicodedata.category(char) != "Mn").split())


@functools.cache
def _names() -> dict[str, str]:
  """Folded English and native names -> code, of the languages of WIDE."""
  import langcodes

  others = {language: langcodes.Language.get(language) for language in WIDE if language not in LANGUAGES}
  names = {
    _folded(name): language
    for language, tag in others.items()
    for name in (tag.display_name(), tag.autonym())
  }
  return names | {_folded(name): language for name, language in _NAMES.items()}


def _script(tag: str) -> str | None:
  import langcodes

  return langcodes.Language.get(tag).maximize().script


def script_name(script: str) -> str:
  """Returns CLDR's English name of a script, such as `Arabic` for `Arab`."""
  import langcodes

  return langcodes.Language.make(script=script).script_name()


def _further(tag: str) -> Language | None:
  """Returns a language outside the table; None if `tag` is not a BCP-47 tag in its standard form."""
  return _of_tag(tag) if _TAG.fullmatch(tag) else None  # so that the cache has no long strings of strangers


@functools.lru_cache(maxsize=4096)
def _of_tag(tag: str) -> Language | None:
  if tag in _ALIASES or tag in LANGUAGES or _standard(tag) != tag or _PRIVATE.fullmatch(tag.split("-")[0]):
    return None
  import langcodes

  if not langcodes.tag_is_valid(tag):
    return None
  language = langcodes.Language.get(tag)
  if language.territory and language.territory_name().startswith("Unknown"):
    return None
  script = language.maximize().script or "Latn"
  return Language(
    tag,
    language.display_name(),
    language.autonym(),
    script,
    "other",
    "rtl" if script in _RIGHT_TO_LEFT else "ltr",
    script not in _NO_SPACES,
    trained=False,
  )


def _standard(tag: str) -> str | None:
  """Returns the standard form of a BCP-47 tag; None if it is not a tag."""
  if not _TAG.fullmatch(tag):
    return None
  import langcodes  # takes tens of milliseconds, and few users need it

  try:
    return langcodes.standardize_tag(tag)
  except ValueError:
    return None


def parse(text: str, own: Sequence[str] = ()) -> tuple[str, ...]:
  """Turns `en,th,ar`, `all` or `trained` into codes; raises UsageError for an unknown or repeated code.

  `own` are the languages that a model was trained on, which `trained` means; (): those of the paper's models.
  """
  if text == "all":
    return tuple(LANGUAGES)
  if text == "trained":
    return tuple(own) or TRAINED
  languages = tuple(get(language.strip()).code for language in text.split(","))
  if repeated := wording.repeated(languages):
    raise UsageError(f"language '{min(repeated)}' is named twice in '{shown(text)}': name each once")
  return languages


def unasked(own: Sequence[str]) -> tuple[str, ...]:
  """The languages of captions if none are asked for: English, or all `own` ones of a model without English."""
  return ("en",) if "en" in own or not own else tuple(own)


def trained_on(trained: Sequence[str], others: Sequence[str]) -> str:
  """A warning that captions are asked for in other languages than those of the training."""
  return f"the model was trained on {', '.join(trained)}, not on {', '.join(others)}"


def check(language: str, where: str) -> None:
  """Raises UsageError, with the place and the nearest code, if a code in a file is not a language."""
  if not is_known(language):
    raise UsageError(f"{where}: {unknown(language)}")


def by_language(
  named: Iterable[tuple[str, T]],
  where: str | os.PathLike,
  language_of: Callable[[str], str | None] = canonical,
) -> dict[str, T]:
  """Returns language code -> value, given values by code or alias (`TL` for fil), which `language_of` reads.

  Raises:
    UsageError: a language is unknown, or occurs twice.
  """
  values: dict[str, T] = {}
  for name, value in named:
    language = language_of(name)
    if language is None:
      raise UsageError(f"{where}: {unknown(name)}")
    if language in values:
      raise UsageError(f"{where}: the language '{language}' occurs twice; keep one")
    values[language] = value
  return values


def choose(
  by_language: dict[str, T], languages: Sequence[str] | None, where: str | os.PathLike, noun: str
) -> dict[str, T]:
  """Returns the chosen languages, or all if none are named; UsageError if one of them is absent."""
  absent = [language for language in languages or () if language not in by_language]
  if absent:
    raise UsageError(f"{where}: no {noun} in {', '.join(absent)}; leave the language out")
  return {language: by_language[language] for language in languages or by_language}


def unknown(language: str) -> str:
  """Returns the message about an unknown language code; it suggests the nearest one."""
  try:
    get(shown(language, limit=20))
  except UsageError as error:
    return str(error)
  return f"unknown language '{shown(language)}'"
