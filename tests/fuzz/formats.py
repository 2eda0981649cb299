"""Damage that knows a format: Arrow's messages, Parquet's footer and pages, parts of a tokenizer.json, HTTP."""

import io
import json
import random
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from tests.fuzz.byte_damage import mutate

_FILE_MAGIC = b"ARROW1\0\0"
_SMALL = (0, 1, -1, 2, 7, 8, 255, 1 << 15, (1 << 31) - 1, -(1 << 31), 1 << 30)
_LARGE = (*_SMALL, 1 << 31, 1 << 40, (1 << 62) + 1, -(1 << 63))


class _Message(NamedTuple):
  """Where a message of Arrow begins, where its metadata and its body do, and where it ends."""

  start: int
  metadata: int
  body: int
  end: int


def arrow(data: bytes, rng: random.Random) -> bytes:
  """Offsets, lengths, indices and sizes: numbers of the metadata or the body; or messages doubled, swapped, gone."""
  messages = list(_messages(data))
  changed = bytearray(data)
  message = rng.choice(messages)
  kind = rng.randrange(8)
  if kind == 0:
    pieces = [data[each.start : each.end] for each in messages]
    place = rng.randrange(len(pieces))
    match rng.randrange(3):
      case 0:
        pieces.pop(place)
      case 1:
        pieces.insert(place, rng.choice(pieces))
      case 2:
        pieces[place], pieces[-1] = pieces[-1], pieces[place]
    return data[: messages[0].start] + b"".join(pieces) + data[messages[-1].end :]
  if kind == 1:
    return bytes(changed[: rng.randrange(message.start, message.end + 1)])
  if kind == 2:
    _number(changed, message.start + 4, 4, rng)
  elif kind < 6 or message.body == message.end:
    for _ in range(rng.choice((1, 1, 2, 3))):
      _number_within(changed, message.metadata, message.body, rng)
  else:
    for _ in range(rng.choice((1, 1, 2, 8))):
      _number_within(changed, message.body, message.end, rng)
  return bytes(changed)


def _messages(data: bytes) -> Iterator[_Message]:
  start = len(_FILE_MAGIC) if data.startswith(_FILE_MAGIC) else 0
  while start + 8 <= len(data):
    marker, length = struct.unpack_from("<II", data, start)
    metadata = start + 8
    if marker != 0xFFFFFFFF or not length or metadata + length > len(data):
      return
    body = metadata + length
    yield _Message(start, metadata, body, min(body + _body_length(data[metadata:body]), len(data)))
    start = min(body + _body_length(data[metadata:body]), len(data))


def _body_length(metadata: bytes) -> int:
  """Message.bodyLength, the fourth field of a table of FlatBuffers (Arrow's Message.fbs)."""
  table = struct.unpack_from("<I", metadata)[0]
  vtable = table - struct.unpack_from("<i", metadata, table)[0]
  size = struct.unpack_from("<H", metadata, vtable)[0]
  offset = struct.unpack_from("<H", metadata, vtable + 10)[0] if size > 10 else 0
  return struct.unpack_from("<q", metadata, table + offset)[0] if offset else 0


def _number_within(data: bytearray, start: int, end: int, rng: random.Random) -> None:
  width = rng.choice((4, 8))
  if end - start >= width:
    _number(data, start + width * rng.randrange((end - start) // width), width, rng)


def _number(data: bytearray, place: int, width: int, rng: random.Random) -> None:
  form = "<i" if width == 4 else "<q"
  old = struct.unpack_from(form, data, place)[0]
  new = rng.choice(
    (*(_SMALL if width == 4 else _LARGE), old + 1, old - 1, 2 * old, -old, old ^ 1 << rng.randrange(31))
  )
  most = 1 << (8 * width - 1)
  struct.pack_into(form, data, place, (new + most) % (2 * most) - most)


def parquet(data: bytes, rng: random.Random) -> bytes:
  """Numbers of the footer and of the headers of pages, and what pages hold."""
  length = struct.unpack("<I", data[-8:-4])[0]
  footer = len(data) - 8 - length
  if rng.random() < 0.5:
    about, claimed = data[footer:-8], length
    for _ in range(rng.choice((1, 1, 2, 3))):
      about = (
        _varint(about, rng.randrange(len(about)), rng) if rng.random() < 0.7 else mutate(about, [about], rng)
      )
      about = about or b"\0"
    claimed = rng.choice((len(about), len(about), len(about), len(about), claimed, 0, 1 << 30))
    return data[:footer] + about + struct.pack("<I", claimed) + data[-4:]
  pages = _pages(data)
  place = min(rng.choice(pages) + rng.randrange(rng.choice((8, 30, 300))), footer - 1)
  if rng.random() < 0.5:
    return _varint(data[:footer], place, rng)[:footer].ljust(footer, b"\0") + data[footer:]
  changed = bytearray(data)
  for _ in range(rng.choice((1, 1, 2, 8))):
    changed[min(place + rng.randrange(16), footer - 1)] = rng.choice(
      (0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256))
    )
  return bytes(changed)


def _pages(data: bytes) -> list[int]:
  """Where the first pages and the dictionaries of columns begin."""
  metadata = pq.ParquetFile(io.BytesIO(data)).metadata
  groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
  columns = [group.column(place) for group in groups for place in range(group.num_columns)]
  places = [column.data_page_offset for column in columns]
  return places + [column.dictionary_page_offset for column in columns if column.has_dictionary_page]


def _varint(data: bytes, place: int, rng: random.Random) -> bytes:
  """Puts a number, as Thrift's compact protocol writes it, in the place of the one that is there."""
  end = place
  while end < len(data) - 1 and data[end] & 0x80:
    end += 1
  value = rng.choice(_LARGE)
  left = (value << 1 ^ value >> 63) & (1 << 64) - 1  # zigzag
  encoded = bytearray()
  while left > 0x7F:
    encoded.append(left & 0x7F | 0x80)
    left >>= 7
  return data[:place] + bytes([*encoded, left]) + data[end + 1 :]


def _replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
  return {"type": "Replace", "pattern": pattern, "content": content}


def _split(regex: str, behavior: str = "Isolated") -> dict[str, Any]:
  return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": False}


def _template(ids: Sequence[int], times: int = 1, known: bool = True) -> dict[str, Any]:
  first = {"Sequence": {"id": "A", "type_id": 0}}
  single = [*[{"SpecialToken": {"id": "Z", "type_id": 0}}] * times, first]
  special = {"Z": {"id": "Z", "ids": list(ids), "tokens": ["z"] * len(ids)}} if known else {}
  pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
  return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}


def _words(**more: Any) -> dict[str, Any]:
  return {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]", **more}


_PARTS: dict[str, Sequence[Any]] = {
  "normalizer": (
    None,
    {},
    *({"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "Unheard")),
    {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
     "lowercase": True},
    {"type": "Prepend", "prepend": "p" * 10_000},
    {"type": "Precompiled", "precompiled_charsmap": "////////////"},
    {"type": "Precompiled", "precompiled_charsmap": ""},
    _replace({"String": "a"}, "a" * 60),
    _replace({"String": ""}, "ab"),
    _replace({"Regex": "(a+)+$"}, ""),
    _replace({"Regex": ""}, "x" * 60),
    _replace({"Regex": "((("}, ""),
    {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "p" * 1000}] * 1000},
    {"type": "Sequence", "normalizers": [{"type": "NFKD"}] * 1000},
  ),
  "pre_tokenizer": (
    None,
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
    {"type": "Metaspace", "replacement": "long", "prepend_scheme": "always", "split": True},
    {"type": "Digits", "individual_digits": True},
    {"type": "FixedLength", "length": 0},
    {"type": "UnicodeScripts"},
    _split("(a+)+$"),
    _split("(a|aa)+b"),
    _split("(((a{1000}){1000}){1000})"),
    _split(""),
    _split("(?<=a{0,1000})", "MergedWithNext"),
    {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}] * 3000},
  ),
  "post_processor": (
    None,
    _template([1]),
    _template([], 3),
    _template([1] * 50_000),
    _template([1], 5000),
    _template([1 << 31, 4_000_000_000]),
    _template([1], known=False),
    {"type": "BertProcessing", "sep": ["x", 1], "cls": ["y", 4_000_000_000]},
    {"type": "RobertaProcessing", "sep": ["x", 1], "cls": ["y", 0], "trim_offsets": True, "add_prefix_space": True},
  ),
  "truncation": (
    {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 5},
    {"direction": "Left", "max_length": 0, "strategy": "OnlySecond", "stride": 0},
  ),
  "padding": (
    {"strategy": {"Fixed": 2_000_000_000}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
     "pad_type_id": 0, "pad_token": "a"},
    {"strategy": "BatchLongest", "direction": "Left", "pad_to_multiple_of": 0, "pad_id": 9, "pad_type_id": 0,
     "pad_token": "a"},
  ),
  "model": (
    _words(),
    _words(unk_token="zzz"),
    {"type": "BPE", "vocab": {"a": 4_294_967_295, "b": 1}, "merges": []},
    {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["x y"]},
    {"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 0.5},
    {"type": "BPE", "vocab": {"a": 0, "aa": 1}, "merges": [["a", "a"]], "byte_fallback": True, "ignore_merges": True},
    {"type": "Unigram", "unk_id": None, "vocab": []},
    {"type": "Unigram", "unk_id": 99, "vocab": [["a", 0.0]]},
    {"type": "Unigram", "unk_id": 0, "vocab": [["a", 1e308], ["aa", 1e308], ["", 0.0]]},
    {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 1 << 40,
     "vocab": {"a": 0}},
    {"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "", "max_input_chars_per_word": 0,
     "vocab": {"a": 0}},
    {"vocab": {"a": 0}},
  ),
  "added_tokens": (
    [{"id": 10**9, "content": "a", "special": True}],
    [{"id": 0, "content": "", "single_word": False, "lstrip": True, "rstrip": True, "normalized": True,
      "special": True}],
    [{"id": number, "content": f"t{number}", "single_word": True, "lstrip": False, "rstrip": False, "normalized": True,
      "special": False} for number in range(300)],
  ),
  "decoder": (None, {"type": "Unheard"}, {"type": "ByteFallback"}),
}  # fmt: skip


def tokenizer(data: bytes, rng: random.Random) -> bytes:
  """One or two parts of a tokenizer.json in the place of its own, each as the library defines them or nearly so."""
  values = json.loads(data)
  for _ in range(rng.choice((1, 1, 2))):
    name = rng.choice(list(_PARTS))
    values[name] = rng.choice(_PARTS[name])
  return json.dumps(values).encode()


_HEADERS = (
  b"Content-Length: 0", b"Content-Length: -1", b"Content-Length: 99999999999", b"Content-Length: 1, 2",
  b"Content-Length: +5", b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Expect: 100-continue",
  b"Connection: close", b"Connection: upgrade\r\nUpgrade: websocket", b"Connection: upgrade\r\nUpgrade: h2c",
  b"Host: evil.example", b"Host: ", b"Host: a\x00b", b"Origin: http://evil.example", b"Origin: null",
  b"Content-Type: multipart/form-data", b"Content-Encoding: gzip", b"Range: bytes=0-1", b"X: " + b"y" * 9000,
  b"X: " + b"y" * 20_000, b" folded: 1", b"no colon", b"X\x00Y: 1", b"X: \xff\xfe", b"X : 1", b": 1",
)  # fmt: skip
_TARGETS = (
  b"/", b"/v1/captions", b"/v1/captions?languages=all&stream=true", b"/v1/captions?languages=xx",
  b"/v1/captions?languages=", b"/v1/captions?search=sample&temperature=1e999&seed=-1",
  b"/v1/captions?search=sample&temperature=nan", b"/v1/captions?stream=maybe", b"/v1/captions?a=1&a=2&%ff=%00",
  b"/v1/captions?languages=" + b"en," * 3000, b"/v1/captions/", b"//v1/captions", b"/../../etc/passwd", b"/%2e%2e/x",
  b"*", b"http://evil.example/", b"/" + b"x" * 17_000, b"/health", b"/metrics", b"/openapi.json", b"/v1/model",
  b"/page.js?\xff", b"", b"/ /",
)  # fmt: skip
_METHODS = (
  b"GET",
  b"HEAD",
  b"POST",
  b"PUT",
  b"DELETE",
  b"OPTIONS",
  b"TRACE",
  b"CONNECT",
  b"PRI",
  b"post",
  b"P" * 500,
  b"",
)


def request(data: bytes, rng: random.Random) -> bytes:
  """One or two parts of a request over HTTP: its line, its head, its body, how that is cut; or another after it."""
  for _ in range(rng.choice((1, 1, 2))):
    head, end, body = data.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    match rng.randrange(9):
      case 0:
        lines[0] = rng.choice(_METHODS) + b" " + lines[0].partition(b" ")[2]
      case 1 | 2:
        lines[0] = lines[0].partition(b" ")[0] + b" " + rng.choice(_TARGETS) + b" HTTP/1.1"
      case 3:
        lines[0] = lines[0].rpartition(b" ")[0] + rng.choice(
          (b"", b" HTTP/0.9", b" HTTP/2.0", b" HTTP/1.1 x", b" \x00")
        )
      case 4 | 5:
        lines.insert(rng.randrange(1, len(lines) + 1), rng.choice(_HEADERS))
      case 6:
        lines.pop(rng.randrange(len(lines)))
      case 7:
        body = mutate(body or b"x", [body or b"x", data], rng)
      case 8:
        size = rng.choice(
          (b"%x" % len(body), b"0", b"-1", b"fffffffffffffffff", b"1;x=" + b"y" * 3000, b"zz")
        )
        lines = [line for line in lines if not line.lower().startswith(b"content-length")]
        lines.append(b"Transfer-Encoding: chunked")
        body = size + b"\r\n" + body + rng.choice((b"\r\n0\r\n\r\n", b"", b"\r\n0\r\nX: 1\r\n\r\n"))
    data = b"\r\n".join(lines) + end + body
  return data + data * (rng.random() < 0.1)
