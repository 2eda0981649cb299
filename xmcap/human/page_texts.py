"""The texts of the pages on which people rate and describe pictures, in the languages that have all of them.

The catalogue is `texts/LANGUAGE.json`, with the same keys in every language. `common`, `rate` and `annotate` are what
the pages say, with the {placeholders} of the English text; one that names another text, such as {save}, stands for it.
`protocols` and `procedures` are what people are asked to do. Pages for other languages are in English.
"""

import functools
import json
from typing import Any

from xmcap import languages
from xmcap.pages.report import elements

ENGLISH = "en"
LANGUAGES = (ENGLISH, "ar", "bn", "es", "fr", "hi", "id", "pt", "ru", "zh")
"""The languages of the catalogue."""


def language_for(language: str) -> str:
  """Returns the language of a page for captions in a language: the same or that of `pt-BR`, `pt`; or English."""
  base = languages.variety_of(language) or language
  return base if base in LANGUAGES else ENGLISH


@functools.cache
def catalogue(language: str) -> dict[str, Any]:
  """Returns the texts of one of `LANGUAGES`: section -> key -> text, or what a protocol or procedure consists of."""
  return json.loads(elements.resource(f"texts/{language}.json", "xmcap.human"))


def of_page(language: str, section: str) -> dict[str, Any]:
  """Returns a language of the catalogue as scripts need it: its code, its direction, and key -> text of a page."""
  texts = catalogue(language)
  return {**elements.language(language), "words": {**texts["common"], **texts[section]}}
