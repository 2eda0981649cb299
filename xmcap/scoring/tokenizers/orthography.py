"""Letters with two spellings, unified by published rules (`--normalize=orthography`)."""

import dataclasses
import functools
import re
import unicodedata
from collections.abc import Mapping, Sequence

from xmcap.scoring.tokenizers import composition

VERSION = "orthography-1"
"""Version of the rules, for signatures; raise it with each change of a rule."""

_END = "\0"


@dataclasses.dataclass(frozen=True)
class Spelling:
  """One difference of spelling that does not make another word.

  Attributes:
    name: what is unified, in words.
    languages: codes for which it holds; empty: all.
    pairs: a spelling -> the one that replaces it; "" deletes it.
    source: who publishes the rule.
    inside: whether it holds only between two letters; then its spellings are single characters.
    in_nfkc: whether NFKC does the same, so that it changes nothing for tokenisers that apply NFKC.
  """

  name: str
  languages: frozenset[str]
  pairs: Mapping[str, str]
  source: str
  inside: bool = False
  in_nfkc: bool = False


def _languages(languages: str) -> frozenset[str]:
  return frozenset(languages.split())


def _each(spellings: str, replacement: str = "") -> dict[str, str]:
  return dict.fromkeys(spellings, replacement)


def _cased(pairs: str) -> dict[str, str]:
  """Returns the pairs of `a=b c=d`, also with capitals."""
  cased = dict(pair.split("=") for pair in pairs.split())
  for case in (str.capitalize, str.upper):
    cased.update((case(key), case(value)) for key, value in list(cased.items()) if case(key) not in cased)
  return cased


def _folded(*ranges: tuple[int, int]) -> dict[str, str]:
  """Returns the NFKC (as `compose`) of the characters of ranges, the ends included."""
  characters = "".join(_between(*ends) for ends in ranges)
  folded = composition.compose(_END.join(characters)).split(_END)
  return {character: nfkc for character, nfkc in zip(characters, folded, strict=True) if character != nfkc}


def _between(first: int, last: int) -> str:
  return "".join(map(chr, range(first, last + 1)))


def _thai_order() -> dict[str, str]:
  tones, vowels = _between(0x0E48, 0x0E4B), "\u0e31\u0e34\u0e35\u0e36\u0e37\u0e38\u0e39"
  order = {tone + vowel: vowel + tone for tone in tones for vowel in vowels}
  for tone in tones:
    order |= dict.fromkeys((f"\u0e4d{tone}\u0e32", f"\u0e4d\u0e32{tone}", f"\u0e33{tone}"), f"{tone}\u0e33")
  return {**order, "\u0e4d\u0e32": "\u0e33", "เเ": "แ"}


# Zeros of the decimal digits of the scripts of `languages.WIDE`.
_ZEROS = (
  0x0660, 0x06F0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66, 0x0DE6, 0x0E50,
  0x0ED0, 0x1040, 0x1090, 0x17E0,
)  # fmt: skip
_QUOTES = "'‘’`´′＇ʹʻʼ᾽"
_LUCENE = "Apache Lucene, "

RULES: tuple[Spelling, ...] = (
  Spelling(
    "half and full width", frozenset(), _folded((0xFF01, 0xFF9F)), "Unicode decompositions <wide>, <narrow>",
    in_nfkc=True,
  ),
  Spelling(
    "presentation forms", frozenset(), _folded((0xFB00, 0xFDF9), (0xFE70, 0xFEFC)),
    "Unicode Standard, chapter 9.2", in_nfkc=True,
  ),
  Spelling(
    "two letters as one character", frozenset(),
    _folded((0x0132, 0x0133), (0x01C4, 0x01CC), (0x01F1, 0x01F3)),
    "Unicode decompositions <compat>", in_nfkc=True,
  ),
  Spelling(
    "digits of other scripts", frozenset(),
    {chr(zero + digit): str(digit) for zero in _ZEROS for digit in range(10)}, _LUCENE + "DecimalDigitFilter",
  ),
  Spelling(
    "apostrophes", frozenset(), _each(_QUOTES[1:], "'"), "Unicode CLDR, lenient parsing of ’ (root)", inside=True,
  ),
  Spelling(
    "apostrophe as a letter", _languages("ha mi om so sw to uz"), _each(_QUOTES, "ʼ"),
    "Unicode Standard, chapter 6.2 (U+02BC for a letter apostrophe)", inside=True,
  ),
  Spelling("cedilla and comma", _languages("ro"), _cased("ş=ș ţ=ț"), "ISO 8859-16; Unicode, U+0218 to U+021B"),
  Spelling(
    "i with a dot of its own", _languages("az tr"), {"i\u0307": "i", "İ": "i"}, "Unicode, SpecialCasing.txt (tr, az)",
  ),
  Spelling("eth and d with stroke", _languages("bs hr sr vi"), _cased("ð=đ ɖ=đ"), "Unicode UTS #39, confusables (Đ)"),
  Spelling("tilde and double acute", _languages("hu"), _cased("õ=ő û=ű"), "ISO 8859-2 read as 8859-1 (F5, FB)"),
  Spelling(
    "sharp s", _languages("de"), {"ß": "ss", "ẞ": "SS"}, "Amtliche Regelung der deutschen Rechtschreibung, § 25 E2"
  ),
  Spelling("ligatures œ, æ", _languages("fr"), _cased("œ=oe æ=ae"), "Unicode CLDR, transform Latin-ASCII"),
  Spelling("ä and æ, ö and ø", _languages("da no"), _cased("ä=æ ö=ø"), _LUCENE + "ScandinavianNormalizationFilter"),
  Spelling("æ and ä, ø and ö", _languages("fi sv"), _cased("æ=ä ø=ö"), _LUCENE + "ScandinavianNormalizationFilter"),
  Spelling(
    "long vowels", _languages("mi"), _cased("ā=aa ē=ee ī=ii ō=oo ū=uu ä=aa ë=ee ï=ii ö=oo ü=uu"),
    "Te Taura Whiri i te Reo Māori, Guidelines for Māori Language Orthography",
  ),
  Spelling(
    "place of the tone mark", _languages("vi"),
    _cased("òa=oà óa=oá ỏa=oả õa=oã ọa=oạ òe=oè óe=oé ỏe=oẻ õe=oẽ ọe=oẹ ùy=uỳ úy=uý ủy=uỷ ũy=uỹ ụy=uỵ"),
    "VinAI, Vietnamese tone normalization (BARTpho)",
  ),
  Spelling("ё and е", _languages("ru"), _cased("ё=е"), "Rules of Russian Orthography and Punctuation (1956), § 10"),
  Spelling(
    "micro sign and mu", _languages("el"), _each("\u00b5", "μ"), "Unicode decompositions <compat>", in_nfkc=True
  ),
  Spelling(
    "tatweel", _languages("ar fa ps sd ug ur"), _each("\u0640"), _LUCENE + "ArabicNormalizationFilter",
  ),
  Spelling(
    "short vowels (harakat)", _languages("ar fa ps sd ug ur"), _each(_between(0x064B, 0x0652) + "\u0670"),
    _LUCENE + "ArabicNormalizationFilter",
  ),
  Spelling(
    "alef, yeh and kaf", _languages("ar"),
    {**_each("أإآٱ", "ا"), **_each("ىی", "ي"), "ک": "ك"},
    _LUCENE + "ArabicNormalizationFilter and PersianNormalizationFilter",
  ),
  Spelling(
    "yeh, kaf and heh", _languages("fa ur"), {**_each("يى", "ی"), "ك": "ک", "ۀ": "ه", "ه\u0654": "ه"},
    _LUCENE + "PersianNormalizationFilter",
  ),
  Spelling(
    "points and accents (niqqud)", _languages("he"),
    _each(_between(0x0591, 0x05BD) + "\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"), "Unicode Standard, chapter 9.1",
  ),
  Spelling(
    "geresh and gershayim", _languages("he"), {"׳": "'", "״": '"', "”": '"', "“": '"'},
    "Unicode Standard, chapter 9.1", inside=True,
  ),
  Spelling(
    "nukta, anusvara and candrabindu", _languages("hi"),
    {"\u093c": "", "ऩ": "न", "ऱ": "र", "ऴ": "ळ", "ँ": "ं", "न्": "ं"}, _LUCENE + "HindiNormalizationFilter",
  ),
  Spelling("khanda ta", _languages("bn"), {"ত্\u200d": "ৎ"}, "Unicode Standard, chapter 12.2"),
  Spelling(
    "chillu letters", _languages("ml"),
    {f"{letter}\u0d4d\u200d": chillu for letter, chillu in zip("ണനരലളക", "ൺൻർൽൾൿ", strict=True)},
    "Unicode Standard, chapter 12.9",
  ),
  Spelling("order of vowels and tone marks", _languages("th"), _thai_order(), "pythainlp.util.normalize"),
)  # fmt: skip
"""All rules. Before those of the language, letters are composed (NFC), so that each has one sequence of code points."""


def rules(language: str) -> tuple[Spelling, ...]:
  """Returns the rules of a language; `pt-BR` has those of `pt`."""
  code = language.partition("-")[0]
  # A rule for some languages goes before one for all: it may hold for the same characters.
  of_language = [rule for rule in RULES if not rule.languages or code in rule.languages]
  return tuple(sorted(of_language, key=lambda rule: not rule.languages))


def unify(language: str, texts: Sequence[str], *, but_nfkc: bool = False) -> list[str]:
  """Returns the texts with one spelling for each letter that has two; `but_nfkc`: without what NFKC does."""
  if not texts:
    return []
  # All at once, which is several times as fast: no rule looks beyond a character that is not a letter.
  joined = _END.join(texts)
  if joined.count(_END) >= len(texts):
    return [_unified(language, text, but_nfkc) for text in texts]
  unified = _unified(language, joined, but_nfkc)
  return list(texts) if unified == joined else unified.split(_END)


def may_differ(language: str, some: Sequence[str], others: Sequence[str], *, but_nfkc: bool = False) -> bool:
  """Returns False only if no letter of `some` texts, if any, has another spelling there or in `others`.

  It only searches texts, several times faster than `unify`; `but_nfkc`: without what NFKC does.
  """
  here, there = _END.join(some), _END.join(others)
  if not here:
    return False
  if but_nfkc:
    here = unicodedata.normalize("NFC", here)
  elif not (unicodedata.is_normalized("NFC", here) and unicodedata.is_normalized("NFC", there)):
    return True
  spellings = _spellings(language, but_nfkc)
  if any(variant in here for variant, _ in spellings):
    return True
  variants = [variant for variant, standard in spellings if standard in here]
  if variants and but_nfkc:
    there = unicodedata.normalize("NFC", there)
  return any(variant in there for variant in variants)


@functools.cache
def _spellings(language: str, but_nfkc: bool) -> list[tuple[str, str]]:
  """Returns pairs of a spelling and what becomes of it, also by a rule that follows."""
  by_rule = [rule.pairs for rule in rules(language) if not (but_nfkc and rule.in_nfkc)]
  variants = [variant for pairs in by_rule for variant in pairs]
  standards = [standard for pairs in by_rule for standard in pairs.values()]
  return list(zip(variants, unify(language, standards, but_nfkc=but_nfkc), strict=True))


def _unified(language: str, text: str, but_nfkc: bool) -> str:
  first, *others = _steps(language)
  if not but_nfkc:
    text = _replaced(text, *first)
  text = unicodedata.normalize("NFC", text)
  for step in others:
    text = _replaced(text, *step)
  return text


def _replaced(text: str, pattern: re.Pattern[str], pairs: Mapping[str, str]) -> str:
  return pattern.sub(lambda match: pairs[match[0]], text)


@functools.cache
def _steps(language: str) -> list[tuple[re.Pattern[str], dict[str, str]]]:
  """Returns what to replace by what, one after another: first what NFKC does too, last what needs letters around."""
  of_language = rules(language)
  steps = []
  for in_nfkc, inside in ((True, False), (False, False), (False, True)):
    pairs: dict[str, str] = {}
    for rule in of_language:
      if (rule.in_nfkc, rule.inside) == (in_nfkc, inside):
        pairs = {**rule.pairs, **pairs}  # the first rule wins
    spellings = "|".join(map(re.escape, sorted(pairs, key=len, reverse=True)))
    # The letter before is looked for last, because a search is fast if a pattern starts with characters.
    around = r"(?:{})(?<=[^\W\d_].)(?=[^\W\d_])" if inside else "{}"
    steps.append((re.compile(around.format(spellings)), pairs))
  return steps
