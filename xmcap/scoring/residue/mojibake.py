"""UTF-8 that a program read in another encoding ("vÃ©lo" for "vélo"), and its exact inverse.

Each character of a broken caption is a byte of that encoding, and the bytes are UTF-8. Real captions have such pairs by
chance: the É and the quotation mark of "CAFÉ”", the Çı of "Çıplak". So three different sequences are asked for, or one
that no word would have; and hardly a character of the encoding that is in no sequence. Compared with ftfy 6.3.1 on the
names of Unicode CLDR, which no rule here may change.
"""

import dataclasses
import functools
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

_BYTES = 0xF700  # the byte b as a character of a private area, which leaves all other characters as they are
_NAMES = (
  "latin-1", "cp1252", "cp1250", "cp1254", "cp1257", "iso8859-2", "mac-roman", "cp437", "cp850", "koi8-r",
)  # fmt: skip
# They have the letters of other scripts, whose words are such sequences more often.
_OF_OTHER_SCRIPTS = ("cp1251", "cp1253", "cp1255", "cp1256", "cp874")
_LATIN = frozenset(
  "ʻʼơưƠƯǎǐǒǔǧǩǫșțȘȚəƏɓɗƙƴƁƊƘɔɛ" + "".join(map(chr, [*range(0x1E80, 0x1F00), *range(0x2000, 0x2070)]))
)
_SAME = dict.fromkeys(("HIRAGANA", "KATAKANA", "HANGUL", "FULLWIDTH", "HALFWIDTH", "IDEOGRAPHIC"), "CJK") | {
  "COMBINING": ""
}
_SURE = 3  # different sequences
_ROUNDS = 3
# Of two, three and four bytes, without those that are longer than they need to be, and surrogates.
_SEQUENCE = re.compile(
  "[\uf7c2-\uf7df][\uf780-\uf7bf]|"
  "(?:\uf7e0[\uf7a0-\uf7bf]|\uf7ed[\uf780-\uf79f]|[\uf7e1-\uf7ec\uf7ee\uf7ef][\uf780-\uf7bf])[\uf780-\uf7bf]|"
  "(?:\uf7f0[\uf790-\uf7bf]|[\uf7f1-\uf7f3][\uf780-\uf7bf]|\uf7f4[\uf780-\uf78f])[\uf780-\uf7bf]{2}"
)
# "à" is Ã and a no-break space, which programs take for a space or drop.
_SPACE_OF_A = re.compile("(?<![A-Z\xc0-\xde\u0100-\u024f]Ã)(?<=Ã)(?=[ ,.]|\\Z)")
# Control characters and private areas. (Unassigned characters may be the emoji of a later version.)
_NO_TEXT = re.compile("[\x80-\x84\x86-\x9f\ue000-\uf8ff]")


@dataclasses.dataclass(frozen=True)
class Encoding:
  """An encoding by its name in Python, or `byte-level`: the alphabet of GPT-2's BPE."""

  name: str

  @functools.cached_property
  def bytes(self) -> dict[int, int]:
    """The code points of its characters beyond ASCII -> `_BYTES` plus the byte."""
    if self.name == "byte-level":
      # Bytes that cannot be printed are U+0100 and on.
      shifted = [byte for byte in range(0x100) if not (0x21 <= byte <= 0x7E or 0xA1 <= byte != 0xAD)]
      decoded = {byte: chr(byte) for byte in range(0x80, 0x100)}
      decoded |= {byte: chr(0x100 + place) for place, byte in enumerate(shifted) if byte >= 0x80}
    else:
      # Bytes that it does not define become control characters, as in Latin-1.
      decoded = {byte: bytes([byte]).decode(self.name, "ignore") or chr(byte) for byte in range(0x80, 0x100)}
    if self.name == "mac-roman":  # its quotation marks begin Armenian letters, and words: "l’últim"
      decoded = {byte: text for byte, text in decoded.items() if text not in "“”‘’"}
    return {ord(text): _BYTES + byte for byte, text in decoded.items()}

  @functools.cached_property
  def may_begin(self) -> re.Pattern[str]:
    """Finds the first two characters of what may be a sequence, for a quick look."""
    first, later = (
      "".join(chr(c) for c, code in self.bytes.items() if (code - _BYTES >= 0xC0) == is_first)
      for is_first in (True, False)
    )
    return re.compile(f"[{re.escape(first)}][{re.escape(later)}]")


BYTE_LEVEL = Encoding("byte-level")
ENCODINGS = tuple(map(Encoding, (*_NAMES, *_OF_OTHER_SCRIPTS)))
_ALL = (*ENCODINGS, BYTE_LEVEL)


def repaired(caption: str) -> str:
  """Returns the text that was read in another encoding, perhaps more than once; otherwise the caption."""
  text = _SPACE_OF_A.sub("\xa0", caption)
  for _ in range(_ROUNDS):
    # The encoding that explains most, such as cp1250 where cp1252 has only some of the characters.
    decoded, count = max((_decoded(text, encoding) for encoding in ENCODINGS), key=lambda pair: pair[1])
    if not count:
      break
    text = decoded
  return caption if _NO_TEXT.search(text) or _SPACE_OF_A.search(text) else text


def decoded(text: str, encoding: Encoding, is_sure: bool = False) -> str:
  """Returns the text with its sequences of UTF-8 decoded; `is_sure`: without asking whether they may be words."""
  return _decoded(text, encoding, is_sure)[0]


def _decoded(text: str, encoding: Encoding, is_sure: bool = False) -> tuple[str, int]:
  """Returns the decoded text, and how many characters were part of a sequence."""
  if not encoding.may_begin.search(text):
    return text, 0
  coded = text.translate(encoding.bytes)
  matches = list(_SEQUENCE.finditer(coded))
  if not matches:
    return text, 0
  inside = sum(len(sequence.group()) for sequence in matches)
  outside = sum(_BYTES < ord(character) < _BYTES + 0x100 for character in coded) - inside
  if not (is_sure or _is_broken(text, matches, outside, encoding)):
    return text, 0
  pieces, end = [], 0
  for sequence in matches:
    pieces += [text[end : sequence.start()], _character(sequence)]
    end = sequence.end()
  return "".join([*pieces, text[end:]]), inside


def _character(sequence: re.Match[str]) -> str:
  return bytes(ord(character) - _BYTES for character in sequence.group()).decode()


def _is_broken(text: str, matches: Sequence[re.Match[str]], outside: int, encoding: Encoding) -> bool:
  scripts = [_script(_character(match)) for match in matches]
  in_words = [
    re.search("[A-Za-z]", text[max(0, match.start() - 1) : match.end() + 1]) is not None for match in matches
  ]
  mixed = sum(script != "" and in_word for script, in_word in zip(scripts, in_words, strict=True))
  is_latin = encoding.name not in _OF_OTHER_SCRIPTS
  if len({match.group() for match in matches}) >= _SURE:
    most = sum(len(match.group()) for match in matches) / (4 if is_latin else 16)
    return outside <= most and 3 * mixed <= len(matches) and len({*scripts} - {""}) < 2
  if outside or mixed:
    return False
  if not is_latin:  # it is in the middle of a Latin word: "fГ¤hrt"
    return all(in_words) and not any(scripts)
  starts, ends = {match.start() for match in matches}, {match.end() for match in matches}
  return not any(
    len(match.group()) == 2
    and (
      (encoding is BYTE_LEVEL and text[match.start()] != "Ã")
      or (match.start() not in ends and match.end() not in starts and _may_be_a_word(text, match))
    )
    for match in matches
  )


def _script(character: str) -> str:
  """Returns the script of a character, "" for Latin letters in use, punctuation and symbols."""
  if character < "\u0180" or character in _LATIN or character >= "\U0001f000":
    return ""
  if not unicodedata.category(character).startswith(("L", "M", "P", "Sk", "Cn")):
    return ""
  name = re.split("[ -]", unicodedata.name(character, "none"))[0]
  return _SAME.get(name, name)


def _may_be_a_word(text: str, sequence: re.Match[str]) -> bool:
  """Returns whether a sequence of two may be a capital at the end of a word, and a mark: "CAFÉ”", "C'È…"."""
  first = text[sequence.start()]
  before, after = text[: sequence.start()][-1:], text[sequence.end() :][:1]
  if before.isupper():
    return not (after.islower() or (first == "Ã" and after.isalpha()))
  return first not in "ÂÃ" and not (before.isalpha() or after.isalpha())


def may_have_sequences(characters: Iterable[str]) -> bool:
  """Returns whether captions of these characters may have a sequence in any encoding."""
  of_all = int(np.bitwise_or.reduce(_tables()[0][list(map(ord, characters))]))
  return bool((of_all | of_all >> _MORE) & of_all >> _LATER)


def sequences(code_points: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Finds captions that may be broken, much faster than caption by caption.

  Args:
    code_points: uint32 [C], the captions with one character between them.
    ends: int64 [captions], where the next one begins.

  Returns:
    int64 [S], uint64 [S]: the rows of sequences, and their encodings as bits (`bits`).
  """
  table, is_later = _tables()
  places = np.flatnonzero(is_later[code_points])
  here, before, first = (table[code_points[places - back]] for back in range(3))
  later = here >> _LATER
  read_in = ((before & later) | ((first >> _MORE) & (before >> _LATER) & later)) & (1 << _MORE) - 1
  places, read_in = places[read_in > 0], read_in[read_in > 0]
  rows = np.searchsorted(ends, places, side="right")
  if len(rows):
    # Words of other scripts have many such pairs; most sequences there have three bytes.
    counts = np.bincount(rows, minlength=len(ends))
    high = np.searchsorted(ends, np.flatnonzero(code_points >= 0x80), side="right")
    read_in[(counts < 0.3 * np.bincount(high, minlength=len(ends)))[rows]] &= _LATIN_BITS
  return rows, read_in


def bits(encodings: Iterable[Encoding]) -> int:
  """Returns the bits of encodings."""
  return sum(1 << _ALL.index(encoding) for encoding in encodings)


_LATIN_BITS = bits(encoding for encoding in _ALL if encoding.name not in _OF_OTHER_SCRIPTS)
_MORE, _LATER = 16, 32


@functools.cache
def _tables() -> tuple[np.ndarray, np.ndarray]:
  """Returns uint64 [code points], the encodings as bits: those in which a character begins a sequence of two bytes.

  From bit `_MORE` on those in which it begins more bytes, from bit `_LATER` on those in which it is a later byte. Then
  bool [code points], whether it is a later byte in any.
  """
  table = np.zeros(sys.maxunicode + 1, np.uint64)
  for place, encoding in enumerate(_ALL):
    for character, code in encoding.bytes.items():
      byte = code - _BYTES
      if byte < 0xC0 or 0xC2 <= byte <= 0xF4:
        table[character] |= np.uint64(1 << place + (_LATER if byte < 0xC0 else _MORE if byte >= 0xE0 else 0))
  return table, table >= 1 << _LATER
