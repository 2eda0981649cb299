"""The 36 languages of XM3600, in one table.

Source: Thapliyal et al., "Crossmodal-3600: A Massively Multilingual Multimodal Evaluation Dataset" (EMNLP 2022),
section 2.1: English, the 30 languages most used on the web, and five low-resource languages.
"""

import dataclasses
import difflib

from xmcap.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Language:
  """One language."""

  code: str  # of the XM3600 release (ISO 639-1 where there is one)
  english_name: str
  native_name: str
  script: str = "Latn"  # ISO 15924 code
  group: str = "web"  # or "english", or "low_resource"
  direction: str = "ltr"  # or "rtl"
  spaces: bool = True  # separate words; otherwise a segmenter finds them
  trained: bool = True  # COCO-35L and CC3M-35L hold captions in it


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
"""All 36 by code, in alphabetical order."""

TRAINED: tuple[str, ...] = tuple(code for code, language in LANGUAGES.items() if language.trained)
"""The codes of the 35 languages of CC3M-35L and COCO-35L: all but `quz`."""

# Codes that other software gives to these languages, and that look like other ones.
_OTHER_CODES = {"cmn": "zh", "in": "id", "iw": "he", "nb": "no", "nn": "no", "qu": "quz", "tl": "fil"}


def get(code: str) -> Language:
  """Returns the language of a code; UsageError names the nearest code if it is unknown."""
  if code in LANGUAGES:
    return LANGUAGES[code]
  known = _OTHER_CODES.get(code.lower())
  nearest = [known] if known else difflib.get_close_matches(code, LANGUAGES, n=1, cutoff=0.1)
  hint = f"; did you mean '{nearest[0]}'?" if nearest else "."
  raise UsageError(f"unknown language '{code}'{hint} The 36 codes: {' '.join(LANGUAGES)}")


def parse(text: str) -> tuple[str, ...]:
  """Turns `en,th,ar`, `all` or `trained` into codes; UsageError names one that is unknown or repeated."""
  if text == "all":
    return tuple(LANGUAGES)
  if text == "trained":
    return TRAINED
  codes = tuple(get(code.strip()).code for code in text.split(","))
  repeated = sorted({code for code in codes if codes.count(code) > 1})
  if repeated:
    raise UsageError(f"language '{repeated[0]}' is named twice in '{text}': name each once")
  return codes
