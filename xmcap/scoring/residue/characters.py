r"""Characters that broke between a model and its file, undone where that is exact.

Entities of HTML ("&amp;"); escapes of programming languages ("\u72ac", "u00e9", "<U+72AC>", "%C3%A9"); the pieces of
words of SentencePiece, WordPiece, BPE and byte-level BPE ("▁a▁dog", "walk ##ing", "walk@@ ing", "aĠdog"); characters
that nobody sees. "#1", "A&M", a hashtag "##Dog", Maltese Ġ, and Persian joiners stay.
"""

import html
import html.entities
import re
import string
import sys
import urllib.parse

from xmcap.scoring.residue import mojibake

_ROUNDS = 3  # "&amp;quot;"
# In text that may be JSON these stay, since they would end its strings; `json` undoes them within.
_JSON = re.compile(r"""[\[{]\s*["'{]""")
_ENDS_STRING = re.compile(r"[\"'\\\x00-\x1f]")

ENTITY = re.compile(
  r"&(?:#(?:[xX][0-9A-Fa-f]{1,6}|\d{1,7})|[A-Za-z][A-Za-z0-9]{1,30});|&#\d{2,5}(?!\d)|"
  r"&\s?(?:#\s?\d{2,5}|(?:amp|quot|apos|lt|gt|nbsp))\s?;"  # as translators write them: "& quot ;"
)

_HEX = "[0-9A-Fa-f]"
BARE = re.compile(r"u(?=[a-f]*\d)[0-9a-f]{4}")
_NOT_LATEX = r"(?!(?:abla|eq|eg|ot|otin|oindent|onumber|ormal\w*|ew(?:line|page|command))\b)"
_SLASH = r"\\{1,4}"
ESCAPE = re.compile(
  rf"(?P<bytes>(?:{_SLASH}[xX]{_HEX}{{2}})+|(?:%{_HEX}{{2}}){{2,}}|(?:=[0-9A-F]{{2}}){{2,}}|"
  r"(?:<[89a-f][0-9a-f]>){2,})|"
  rf"(?P<octal>(?:{_SLASH}[0-3][0-7][0-7]){{2,}})|"
  rf"(?P<code>(?:{_SLASH}u{_HEX}{{4}}|{_SLASH}U{_HEX}{{8}}|{_SLASH}[ux]\{{{_HEX}{{1,6}}\}}|<U\+{_HEX}{{4,6}}>|_x{_HEX}{{4}}_)+|"
  # Without the backslash: Latin-1, quotation marks and dashes, or several in a row.
  r"u00[2-7a-f][0-9a-f]|(?<=[a-z])u20[12][0-9a-f](?=[a-z])|u20[12][a-f]|(?:u(?=[a-f]*\d)[0-9a-f]{4}){2,})|"
  rf"(?P<line>{_SLASH}(?:r{_SLASH}n|n{_NOT_LATEX}|r(?![a-z])))|(?P<tab>{_SLASH}t(?![a-z]))|"
  rf"(?P<quote>{_SLASH}(?=[\"'])|(?<=[\w:]){_SLASH}(?=/))"
)
_QUOTED_BYTES = re.compile(r"\A\s*b(['\"])(.*)\1\s*\Z", re.DOTALL)
_URL = re.compile(rf"\A[^\s%]*%(?:20|[C-Fc-f]{_HEX}%)\S*\Z")
_POINT = re.compile(rf"[uU][{{+]?({_HEX}+)|x\{{?({_HEX}+)")

_BRACKET = re.compile("[<>]")
_GLUE = re.compile(r"(?<=\S)@@(?: |\Z)| ?\uffed ?|(?<=[^\W_]) ##(?=[^\W\d_])(?![A-Z])|(?<=\d) ##(?=\d)")
SUBWORD = re.compile(rf"\S{{0,20}}(?:\u2581|{_GLUE.pattern}|[ĠĊ¡-Ń]|</w>| @[-,.]@ )\S{{0,20}}")

INVISIBLE = re.compile(
  "\x1b\\[[0-9;]*[A-Za-z]|[\x01-\x08\x0e-\x1b\x7f\xad\ufeff]|[\u200b-\u200f\u202a-\u202e\u2060-\u2069]+"
)
UNSEEN = (
  *map(chr, [*range(1, 9), *range(14, 28), 0x7F, 0xAD, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F)]),
  *map(chr, [*range(0x2060, 0x206A), 0xFEFF]),
  *(letter + joiner for letter in string.ascii_lowercase for joiner in "\u200c\u200d"),
)
"""What a caption with invisible characters has; joiners are ordinary in many languages, but not after these letters."""
_SPACED_BY_U200B = re.compile("[\u0e00-\u109f\u1780-\u17ff]")  # scripts of South-East Asia
_SIGNS = ("ï¿½", "锟斤拷")  # U+FFFD in UTF-8, read as Latin-1 and as GBK
_LOST = re.compile("[\ufffd\x80-\x84\x86-\x9f\ue000-\uf8ff\ud800-\udfff]")


def lost(characters: frozenset[str]) -> list[str]:
  """Returns what captions of such characters may have in the place of one that nothing restores."""
  return [*filter(_LOST.match, characters), *_SIGNS]


def name_lost(caption: str) -> str:
  """Returns the name of the first sign of a lost character, such as U+FFFD."""
  match = _LOST.search(caption)
  return f"U+{ord(match.group()):04X}" if match else next(sign for sign in _SIGNS if sign in caption)


def without_entities(caption: str) -> str:
  """Returns the caption with entities of HTML decoded, also where they were escaped twice."""
  for _ in range(_ROUNDS):
    caption, before = _replaced(ENTITY, _of_entity, caption), caption
    if caption == before:
      break
  return caption


def _of_entity(match: re.Match[str]) -> str:
  name = re.sub(r"\s", "", match.group()).rstrip(";")
  number = re.fullmatch(r"&#(?:[xX](.+)|(\d+))", name)
  point = int(number[1] or number[2], 16 if number[1] else 10) if number else 0
  if 0xD800 <= point < 0xE000:
    return chr(point)
  # Not by `html.unescape`, which makes "®ular;" of "&regular;".
  return html.unescape(f"{name};") if number else html.entities.html5.get(f"{name[1:]};", match.group())


def without_escapes(caption: str) -> str:
  """Returns the caption with escapes decoded; bytes and pairs of surrogates only where they are valid."""
  if quoted := _QUOTED_BYTES.match(caption):
    caption = quoted[2]
  if _URL.match(caption):
    unquote = urllib.parse.unquote if "%20" in caption else urllib.parse.unquote_plus
    caption = unquote(caption, errors="replace")
  return _replaced(ESCAPE, _of_escape, caption)


def _of_escape(match: re.Match[str]) -> str:
  text, kind = match.group(), match.lastgroup
  if kind in ("line", "tab", "quote"):
    return {"line": "\n", "tab": "\t", "quote": ""}[kind]
  if kind == "code":
    points = [int(of_u or of_x, 16) for of_u, of_x in _POINT.findall(text)]
    return "".join(map(chr, points)) if 0 < min(points) <= max(points) <= sys.maxunicode else text
  digits = re.findall(r"[0-7]{3}" if kind == "octal" else rf"{_HEX}{{2}}", text)
  codes = [int(number, 8 if kind == "octal" else 16) & 0xFF for number in digits]
  try:
    decoded = bytes(codes).decode()
  except UnicodeDecodeError:
    decoded = "".join(map(chr, codes)) if text[1:].lstrip("\\")[0] in "xX" else text
  return text if "\0" in decoded or (decoded.isascii() and text[0] in "%=") else decoded


def without_subwords(caption: str) -> str:
  """Returns the caption with the pieces of words joined."""
  pieces = caption.split()
  if 2 * caption.count("</w>") >= len(pieces):
    caption = "".join(pieces)
  caption = caption.replace("</w>", " ")
  pieces = caption.split()
  for mark in "\u2581Ġ":
    begun = sum(piece.startswith(mark) for piece in pieces)
    inside = sum(re.search(rf"[^\W_](?<![A-Z\xc0-\xde\u0120]){mark}", piece) is not None for piece in pieces)
    if begun > 1 and not inside and 2 * begun >= len(pieces):
      caption, inside = "".join(pieces), 1
    if mark == "Ġ" and inside:
      return mojibake.decoded(caption.replace("Ġ", " ").replace("Ċ", "\n"), mojibake.BYTE_LEVEL, is_sure=True)
  caption = _begin_words(_GLUE.sub("", re.sub(r" @([-,.])@ ", r"\1", caption)))
  # Without the mark of a space, in languages that have none.
  return mojibake.decoded(caption, mojibake.BYTE_LEVEL) if re.search("[Ģ-Ń]", caption) else caption


def _begin_words(caption: str) -> str:
  """Returns a caption with spaces for U+2581, but not within a token of DeepSeek, which ends in `|>`."""
  parts, begun = [], 0
  for end in [*(match.end() for match in _BRACKET.finditer(caption)), len(caption)]:
    part = caption[begun:end]
    parts.append(part if part.endswith(("|>", "\uff5c>")) else part.replace("\u2581", " "))
    begun = end
  return "".join(parts)


def without_invisible(caption: str) -> str:
  """Returns the caption without control characters, soft hyphens, and joiners that join nothing."""
  return INVISIBLE.sub(_unless_of_use, caption)


def _unless_of_use(match: re.Match[str]) -> str:
  text, around = match.group(), match.string[max(0, match.start() - 1) : match.end() + 1]
  if text[0] < "\u200b" or text[0] == "\ufeff":
    return ""
  if set(text) <= {"\u200b", "\u2060"}:
    return text if _SPACED_BY_U200B.search(around) else ""
  # Joiners and directions are ordinary beside letters of other scripts, and in emoji.
  others = around.replace(text, "")
  return "" if any(map(str.isalpha, others)) and max(others) < "\u0250" else text


def _replaced(pattern: re.Pattern[str], replace, caption: str) -> str:
  in_json = _JSON.search(caption) is not None

  def replaced(match: re.Match[str]) -> str:
    text = replace(match)
    return match.group() if in_json and (not text or _ENDS_STRING.search(text)) else text

  text = pattern.sub(replaced, caption)
  if re.search("[\ud800-\udfff]", text):
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
  return text
