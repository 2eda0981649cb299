"""Character classes that a caption is normalised by before its words are found."""

import unicodedata

SPACE = " "
_APOSTROPHES = frozenset("'\u2018\u2019\u02bc\u05f3\u05f4\"")
# In these, an apostrophe (or the Hebrew geresh and gershayim) stands inside a word as a letter does.
_APOSTROPHE_IS_A_LETTER = frozenset({"he", "quz", "uk"})
# Lower case of I and of dotted I in Turkish, which Unicode's default mapping would confuse.
_LOWER_CASE = {"tr": {ord("I"): "ı", ord("İ"): "i"}}


class _Words(dict):
  """Table for `str.translate` that learns a character's class the first time it is met."""

  def __missing__(self, code_point: int) -> str | None:
    category = unicodedata.category(chr(code_point))
    if category == "Cf" or 0xFE00 <= code_point <= 0xFE0F or 0xE0100 <= code_point <= 0xE01EF:
      value = None
    elif category[0] in "PSZ" or category == "Cc":
      value = SPACE
    else:
      value = chr(code_point)
    self[code_point] = value
    return value


class Normalizer:
  """Unicode NFKC, lower case, and only what words are made of.

  Characters of category P (punctuation), S (symbols, pictures among them), Z and Cc become a space;
  format characters (Cf, such as the direction marks U+200E, U+200F and the joiners U+200C, U+200D) and
  variation selectors are deleted. Letters, marks and digits stay. So "ski-doo" is two words and "l'auto" too,
  but an apostrophe is deleted in Hebrew, Cusco Quechua and Ukrainian, where it belongs to its word.
  """

  def __init__(self, language: str):
    self._lower = _LOWER_CASE.get(language)
    self._words = _Words()
    if language in _APOSTROPHE_IS_A_LETTER:
      self._words.update((ord(character), None) for character in _APOSTROPHES)

  def __call__(self, text: str) -> str:
    """Returns the text with single characters to split at, which may stand in a row or at the ends."""
    text = unicodedata.normalize("NFKC", text)
    if self._lower:
      text = text.translate(self._lower)
    return text.lower().translate(self._words)
