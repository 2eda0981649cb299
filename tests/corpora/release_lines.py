"""Lines of captions of generated releases, and everything that can be wrong with a line."""

import bz2
import collections
import dataclasses
import functools
import gzip
import json
import pathlib
import random
from collections.abc import Mapping, Sequence

import regex

from tests.corpora import release_pictures
from xmcap.data.records import Caption
from xmcap.languages import LANGUAGES, TRAINED

TRANSLATED = tuple(code for code in TRAINED if code != "en")
"""The 34 target languages of COCO-35L and CC3M-35L."""

LINE_FAULTS = (
  "cut_line",
  "bad_utf8",
  "not_json",
  "missing_field",
  "long_caption",
  "empty_caption",
  "unknown_language",
  "unknown_id",
  "duplicate_line",
  "control_characters",
  "crlf",
  "bom",
  "cut_end",
)
"""Faults of lines, by the kind of problem that they are; `cut_end`: the last line breaks off (a `cut_line`)."""
XM3600_FAULTS = ("cut_line", "bad_utf8", "not_json", "long_caption", "empty_caption", "unknown_language",
  "duplicate_line", "control_characters", "crlf", "bom")  # fmt: skip
"""Those that XM3600's captions can have."""

_ORDERS = ("image", "language", "shuffled")
_NUMBERS = ("one", "two", "three", "four", "five")


def english(index: int, number: int) -> str:
  """English caption `number` (from 1) of picture `index`, tokenised and lower-cased."""
  colour, shape = release_pictures.look(index)
  return f"a {colour} {shape} , {_NUMBERS[(number - 1) % 5]} of {index} ."


def translation(index: int, number: int, language: str) -> str:
  """Its translation: words of made-up letters of the language's own script, and the numbers."""
  colour, shape = release_pictures.look(index)
  words = [
    word(language, release_pictures.COLOURS.index(colour)),
    word(language, len(release_pictures.COLOURS) + release_pictures.SHAPES.index(shape)),
  ]
  return (" " if LANGUAGES[language].spaces else "").join(words) + f" {number} , {index} ."


@functools.cache
def word(language: str, number: int) -> str:
  """Word `number` of a language: its name for itself, turned round."""
  letters = regex.findall(r"\X", LANGUAGES[language].native_name.lower())
  turn = number % len(letters)
  return "".join(letters[turn:] + letters[:turn] + letters[:1] * (number // len(letters)))


@dataclasses.dataclass
class Entry:
  """One caption of one picture: place of the picture in its split, caption number, id field, picture's number."""

  place: int
  number: int
  id: dict
  index: int


@dataclasses.dataclass
class Lines:
  """Raw lines with their ends, the captions expected of them (place -> list), and the problems in them."""

  raw: list[bytes]
  captions: dict[int, list[Caption]]
  problems: collections.Counter

  def write(self, path: pathlib.Path) -> None:
    """Writes the lines, compressed as the file's name says."""
    opener = {".bz2": bz2.open, ".gz": gzip.open}.get(path.suffix, open)
    with opener(path, "wb") as file:
      file.writelines(self.raw)


def line(id: Mapping, language: str, caption: str, translated: str, **more) -> dict:
  """A line's object, as published."""
  fields = {
    "src_lang": "en",
    "trg_lang": language,
    "caption_tokenized": caption,
    "translation_tokenized": translated,
    "backtranslation_tokenized": caption,
  }
  return {**id, **fields, **more}


def dump(values: Mapping, ascii: bool = False) -> bytes:
  """JSON and a line's end."""
  return json.dumps(values, ensure_ascii=ascii).encode() + b"\n"


def lines(
  entries: Sequence[Entry],
  languages: Sequence[str],
  order: str,
  faults: Sequence[str],
  *,
  usable: Sequence[int],
  unknown: Mapping,
  rng: random.Random,
  hide_digits: bool = False,
) -> Lines:
  """The lines of a translated corpus.

  Args:
    entries: captions, in the order of the pictures and of their numbers.
    languages: targets, a line each.
    order: "image", "language" or "shuffled".
    faults: of LINE_FAULTS; others are passed over. Each spoils one to three lines.
    usable: places of pictures whose lines faults may spoil, so that what they do shows.
    unknown: the id field of a picture that there is not.
    rng: of places and of the shuffle.
    hide_digits: digits become `#`, as in CC3M-35L.
  """
  if order not in _ORDERS:
    raise ValueError(f"order {order!r} is none of {_ORDERS}")

  def hide(text: str) -> str:
    return regex.sub(r"\d", "#", text) if hide_digits else text

  cells = [(entry, language) for entry in entries for language in languages]
  if order == "language":
    cells = [(entry, language) for language in languages for entry in entries]
  elif order == "shuffled":
    rng.shuffle(cells)
  raw, texts = [], {}
  for entry, language in cells:
    caption = hide(english(entry.index, entry.number))
    translated = hide(translation(entry.index, entry.number, language))
    # Both ways to write JSON occur in the world.
    raw.append(dump(line(entry.id, language, caption, translated), ascii=entry.index % 2 == 1))
    texts[entry.place, entry.number, language] = translated
    texts[entry.place, entry.number, "en"] = caption
  problems: collections.Counter = collections.Counter()
  allowed = set(usable)
  free = [place for place, (entry, _) in enumerate(cells[:-1]) if entry.place in allowed]
  rng.shuffle(free)
  # Not all lines of a caption, since its English would be lost with the last of them.
  spare = dict.fromkeys({(entry.place, entry.number) for entry, _ in cells}, min(8, len(languages) - 2))
  for fault in (fault for fault in LINE_FAULTS if fault in faults):
    if fault == "bom":
      problems["bom"] += 1
      continue
    if fault == "cut_end":
      entry, language = cells[-1]
      raw[len(cells) - 1] = raw[len(cells) - 1][:-9]
      texts.pop((entry.place, entry.number, language))
      problems["cut_line"] += 1
      continue
    for turn in range(1 + LINE_FAULTS.index(fault) % 3):
      entry, language = cells[place := _take(free, cells, spare)]
      spot = (entry.place, entry.number, language)
      problems[fault] += 1
      _spoil(fault, turn, place, spot, raw, texts, unknown)
  captions: dict[int, list[Caption]] = {entry.place: [] for entry in entries}
  table = {code: number for number, code in enumerate(LANGUAGES)}
  for place, number, language in sorted(texts, key=lambda spot: (spot[0], spot[1], table[spot[2]])):
    source = "human" if language == "en" else "mt"
    captions[place].append(Caption(language, texts[place, number, language], "", source))
  if "cut_end" in faults and len(raw) > len(cells):
    # Lines that other faults added follow the last cell: the cut one goes back to the end.
    raw.append(raw.pop(len(cells) - 1))
  if "bom" in faults:
    raw[0] = b"\xef\xbb\xbf" + raw[0]
  return Lines(raw, captions, problems)


def _take(free: list[int], cells: Sequence, spare: dict) -> int:
  """Takes a line out of `free` whose caption has lines to spare; ValueError if there is none."""
  while free:
    place = free.pop()
    caption = (cells[place][0].place, cells[place][0].number)
    if spare[caption] > 0:
      spare[caption] -= 1
      return place
  raise ValueError("too few lines for these faults: more pictures or languages are needed")


def _spoil(
  fault: str,
  turn: int,
  place: int,
  spot: tuple[int, int, str],
  raw: list[bytes],
  texts: dict,
  unknown: Mapping,
) -> None:
  """Puts one fault into line `place`; lines that a fault adds go to the end."""
  values = json.loads(raw[place])
  text = values["translation_tokenized"]
  if fault == "control_characters":
    raw[place] = dump({**values, "translation_tokenized": text[:2] + "\x07\x00\x85"[turn] + text[2:]})
  elif fault == "crlf":
    raw[place] = raw[place][:-1] + b"\r\n"
  elif fault == "unknown_language":
    raw.append(dump({**values, "trg_lang": ("xx", "iw", "")[turn]}))
  elif fault == "unknown_id":
    raw.append(dump({**values, **unknown}))
  elif fault == "duplicate_line":
    raw.append(dump({**values, "translation_tokenized": "another text"}))
  else:
    texts.pop(spot)
    if fault == "cut_line":
      raw[place] = raw[place][: (40, -3, 2)[turn]] + b"\n"
    elif fault == "bad_utf8":
      raw[place] = dump({**values, "translation_tokenized": text + "|"}).replace(
        b"|", (b"\xff", b"\xe2\x28")[turn]
      )
    elif fault == "not_json":
      raw[place] = (b"<html>\n", b"[1, 2]\n", b'"text"\n')[turn]
    elif fault == "missing_field":
      raw[place] = dump({name: value for name, value in values.items() if name != "translation_tokenized"})
    elif fault == "long_caption":
      raw[place] = dump({**values, "translation_tokenized": text * (100_000 // len(text.encode()) + 1)})
    elif fault == "empty_caption":
      raw[place] = dump({**values, "translation_tokenized": ("", " \u00a0 ", "\u200b\u3000")[turn]})
    else:
      raise ValueError(f"fault {fault!r} is unknown")


def xm3600_lines(
  keys: Sequence[str],
  locales: Sequence[str],
  faults: Sequence[str],
  *,
  usable: Sequence[int],
  silent: Sequence[int],
  rng: random.Random,
) -> Lines:
  """The lines of XM3600, one a picture; `silent` pictures have no caption, and faults spoil `usable` ones only."""
  raw, captions = [], {}
  problems: collections.Counter = collections.Counter()
  for place, (key, locale) in enumerate(zip(keys, locales, strict=True)):
    values: dict = {"image/key": key, "image/locale": locale}
    captions[place] = []
    for number, code in enumerate(LANGUAGES):
      texts = [translation(place, turn + 1, code).capitalize() for turn in range(1 + (place + number) % 3)]
      texts = [] if place in silent else texts
      tokens = [f"{text} {text[:1]}" for text in texts]
      values[code] = {
        "caption": texts,
        "caption/tokenized": tokens,
        "caption/tokenized/lowercase": [text.lower() for text in tokens],
      }
      captions[place] += [Caption(code, *pair) for pair in zip(texts, tokens, strict=True)]
    raw.append(dump(values, ascii=place % 2 == 1))
  free = [place for place in usable if place < len(keys) - 1]
  rng.shuffle(free)
  for fault in (fault for fault in XM3600_FAULTS if fault in faults):
    problems[fault] += 1
    if fault == "bom":
      continue
    place = free.pop()
    values = json.loads(raw[place])
    if fault in ("cut_line", "bad_utf8", "not_json"):
      captions.pop(place)
      problems["no_captions"] += 1  # its picture has no line now
      spoiled = {"cut_line": raw[place][: raw[place].rindex(b'"', 0, 300)] + b"\n", "not_json": b"null\n"}
      raw[place] = spoiled.get(fault) or raw[place].replace(b'"caption"', b'"\xff\xfe"', 1)
    elif fault == "crlf":
      raw[place] = raw[place][:-1] + b"\r\n"
    elif fault == "duplicate_line":
      raw.append(dump({**values, "en": {"caption": ["another text"]}}))
    elif fault == "unknown_language":
      raw[place] = dump({**values, "xx": values["en"]})
    else:
      _spoil_caption(fault, values["te"], captions[place])
      raw[place] = dump(values)
  if "bom" in faults:
    raw[0] = b"\xef\xbb\xbf" + raw[0]
  return Lines(raw, captions, problems)


def _spoil_caption(fault: str, lists: dict, expected: list[Caption]) -> None:
  """Puts a fault into a language's last caption."""
  text = lists["caption"][-1]
  last = max(place for place, caption in enumerate(expected) if caption.text == text)
  if fault == "control_characters":
    lists["caption"][-1] = text[:3] + "\x07" + text[3:]
    return
  lists["caption"][-1] = {"long_caption": text * 5_000, "empty_caption": " "}[fault]
  del expected[last]
