"""Damage to files that keeps their structure: the values of JSON, headers of tensors, members of archives, lines."""

import bz2
import gzip
import io
import json
import pathlib
import random
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable

from tests.corpora import release_pictures
from tests.fuzz import formats
from tests.fuzz.byte_damage import mutate
from tests.make import images

ODD_TEXTS = (
  "",
  " ",
  "x" * 300,
  "a/../../b",
  "/etc/passwd",
  "..",
  "~",
  "-",
  "--out",
  "a\nb",
  "\x1b[31mred\x1b[0m\x07",
  "\u202egnp.exe",
  "\u2028",
  "%s{0}$HOME",
  "NaN",
  "\x00",
  "<script>alert(1)</script>",
  "os.system",
  "gs://no-such-bucket-of-xmcap/x",
)
ODD_NUMBERS = (
  "-1",
  "0",
  "1",
  "-0.0",
  "1e999",
  "NaN",
  "-Infinity",
  "1.5",
  str(2**31),
  str(2**63),
  str(2**64),
  "9" * 400,
)
_ODD_JSON = (
  *ODD_NUMBERS,
  "null",
  "true",
  "[]",
  "{}",
  "[[]]",
  '"\\ud800"',
  '"\\u0000"',
  '"\\u001b[2J"',
  "9" * 5000,
  "[" * 5000,
  "[" * 300 + "]" * 300,
  '{"a":' * 3000,
  "{" + ",".join(f'"{n}":{n}' for n in range(500)) + "}",
  json.dumps("x" * (1 << 16)),
  *(json.dumps(text) for text in ODD_TEXTS),
)
_ODD_GIN = (
  "from __gin__ import dynamic_registration",
  "import subprocess",
  "import os",
  "import antigravity",
  "include '/etc/passwd'",
  "include '../../../x.gin'",
  "train.total_steps = 1e999",
  "MODEL_DIR = '/proc/xmcap'",
  "BATCH_SIZE = 0",
  "BATCH_SIZE = -3",
  "CAPTIONS_PER_IMAGE = 7",
  "IMAGE_SIZE = 0",
  "IMAGE_SIZE = 33",
  "TARGET_LENGTH = -1",
  "ViTConfig.width = 'wide'",
  "ViTConfig.num_heads = 0",
  "ViTConfig.patch_size = 0",
  "T5Config.num_heads = 3.5",
  "T5Config.emb_dim = -8",
  "LEARNING_RATE = float('nan')",
  "LEARNING_RATE = None",
  "MIXTURE = 'no_such_mixture'",
  "train.no_such = 1",
  "x.y.z = @train()",
  "train.stream = @train()",
  "MODEL_DIR = %MODEL_DIR",
  "A = %B",
  "[" * 2000,
  "(" * 200,
  "ViTConfig.depth = " + "9" * 4500,
  "a = \x00",
  "a = '\x1b[31m'",
)


def damage(path: pathlib.Path, rng: random.Random) -> str:
  """Damages a file as files of its kind can be; returns what was done, for the one who looks at a failure."""
  return _replace(path, rng) if rng.random() < 0.1 else change(path, rng)


def change(path: pathlib.Path, rng: random.Random) -> str:
  """Changes what is in a file; returns what was done."""
  data = path.read_bytes()
  structured = _BY_SUFFIX.get(path.suffix)
  if path.name == "tokenizer.json" and rng.random() < 0.5:
    structured = formats.tokenizer
  if structured is None and data[:1] in (b"{", b"["):
    structured = _json
  if structured in (_json, _table) and rng.random() < 0.1:
    path.write_bytes(_text(data, rng))
    return f"text of {path.name}"
  if structured is None or rng.random() < 0.3:
    path.write_bytes(mutate(data, [data or b"x"], rng) if data else rng.randbytes(20))
    return f"bytes of {path.name}"
  try:
    changed = structured(data, rng)
  except Exception:  # what an earlier piece of damage left has no structure any more
    changed = mutate(data or b"x", [data or b"x"], rng)
  path.write_bytes(changed)
  return f"{structured.__name__.strip('_')} of {path.name}"


def _replace(path: pathlib.Path, rng: random.Random) -> str:
  what = rng.choice(
    ("gone", "empty", "folder", "link to itself", "link to nothing", "zeros", "a picture", "a gzip")
  )
  path.unlink()
  match what:
    case "empty":
      path.touch()
    case "folder":
      path.mkdir()
    case "link to itself":
      path.symlink_to(path.name)
    case "link to nothing":
      path.symlink_to("absent")
    case "zeros":
      path.write_bytes(bytes(5000))
    case "a picture":
      path.write_bytes(release_pictures.photo(1))
    case "a gzip":
      path.write_bytes(b"\x1f\x8b\x08" + rng.randbytes(40))
  return f"{path.name}: {what}"


def _text(data: bytes, rng: random.Random) -> bytes:
  """The whole text: in another encoding, with other ends of lines, doubled, or around something else."""
  text = data.decode("utf-8", "replace")
  encodings = [text.encode(encoding) for encoding in ("utf-8-sig", "utf-16", "utf-16-le")]
  others = [data.replace(b"\n", b"\r\n"), data * 2, b"[" + data + b"]", data[::-1], b"\n \n"]
  return rng.choice([*encodings, *others])


def _json(data: bytes, rng: random.Random) -> bytes:
  """One to three values of one document, or of one line of many."""
  text = data.decode("utf-8")
  lines = text.split("\n")
  whole = not _is_json(lines[0])
  place = 0 if whole else rng.randrange(max(len(lines) - 1, 1))
  piece = text if whole else lines[place]
  for _ in range(rng.choice((1, 1, 2, 3))):
    piece = _one_value(piece, rng)
  if whole:
    return piece.encode("utf-8", "surrogatepass")
  lines[place] = piece
  if rng.random() < 0.1:
    lines.insert(rng.randrange(len(lines)), rng.choice(lines))
  return "\n".join(lines).encode("utf-8", "surrogatepass")


def _is_json(text: str) -> bool:
  try:
    json.loads(text)
  except ValueError:
    return False
  return True


_VALUE = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|\{\}|\[\]')


def _one_value(text: str, rng: random.Random) -> str:
  """Works on the text, not on what it means: so keys may come twice and numbers may be of any length."""
  spots = [match.span() for match in _VALUE.finditer(text[:200_000])]
  if not spots:
    return rng.choice(_ODD_JSON)
  start, end = rng.choice(spots)
  match rng.randrange(6):
    case 0:
      return text[:start] + text[end:]
    case 1:
      other = rng.choice(spots)
      return text[:start] + text[other[0] : other[1]] + text[end:]
    case 2:
      return text[:start] + f"[{text[start:end]}]" + text[end:]
  return text[:start] + rng.choice(_ODD_JSON) + text[end:]


def _gin(data: bytes, rng: random.Random) -> bytes:
  lines = data.decode("utf-8", "replace").split("\n")
  for _ in range(rng.choice((1, 1, 2))):
    place = rng.randrange(len(lines))
    match rng.randrange(4):
      case 0:
        lines.pop(place)
      case 1 if "=" in lines[place]:
        lines[place] = (
          lines[place].partition("=")[0] + "= " + rng.choice((*ODD_NUMBERS, "None", "'x'", "()", "@x"))
        )
      case _:
        lines.insert(place, rng.choice(_ODD_GIN))
    lines = lines or [""]
  return "\n".join(lines).encode("utf-8", "replace")


def _table(data: bytes, rng: random.Random) -> bytes:
  lines = data.decode("utf-8", "replace").split("\n")
  separator = "\t" if "\t" in lines[0] else ","
  place = rng.randrange(max(len(lines) - 1, 1))
  cells = lines[place].split(separator)
  cells[rng.randrange(len(cells))] = rng.choice((*ODD_NUMBERS, *ODD_TEXTS, '"', '"a\n', "x" * 200_000))
  lines[place] = separator.join(cells)
  if rng.random() < 0.2:
    lines.insert(place, rng.choice(lines))
  return "\n".join(lines).encode("utf-8", "replace")


def _safetensors(data: bytes, rng: random.Random) -> bytes:
  (length,) = struct.unpack("<Q", data[:8])
  header = _one_value(data[8 : 8 + length].decode(), rng).encode("utf-8", "surrogatepass")
  claimed = rng.choice((len(header), len(header), len(header), 0, 1 << 40, len(header) + 1))
  body = data[8 + length :]
  if rng.random() < 0.3:
    body = _not_finite(body, rng)
  return struct.pack("<Q", claimed) + header + body


def _not_finite(body: bytes, rng: random.Random) -> bytes:
  place = 4 * rng.randrange(max(len(body) // 4, 1))
  return body[:place] + struct.pack("<f", rng.choice((float("nan"), float("inf"), 3e38))) + body[place + 4 :]


_NPY_SHAPES = (
  b"(1000000000000,)",
  b"(-1,)",
  b"()",
  b"(0,)",
  b"(2, 2)",
  b"(1.5,)",
  b"'x'",
  b"(" * 90,
  b"(True,)",
)
_NPY_TYPES = (
  b"'|O'",
  b"'<f8'",
  b"'<i8'",
  b"'<U3'",
  b"'|V9'",
  b"[('a', '<f4')]",
  b"'>f4'",
  b"'<c8'",
  b"'<M8[s]'",
)


def _npy(data: bytes, rng: random.Random) -> bytes:
  """The header of an array: what it claims to hold, and its own length."""
  (length,) = struct.unpack("<H", data[8:10])
  header = data[10 : 10 + length].rstrip()
  match rng.randrange(4):
    case 0:
      header = re.sub(rb"\([^)]*\)", lambda _: rng.choice(_NPY_SHAPES), header, count=1)
    case 1:
      header = re.sub(rb"'[<>|]\w+'", lambda _: rng.choice(_NPY_TYPES), header, count=1)
    case 2:
      header = mutate(header, [header], rng)
    case 3:
      return data[: 10 + length] + _not_finite(data[10 + length :], rng)
  header += b"\n"
  claimed = rng.choice((len(header), len(header), 65535, 0)) if len(header) < 65536 else 0
  return data[:8] + struct.pack("<H", claimed) + header + data[10 + length :]


def _zip(data: bytes, rng: random.Random) -> bytes:
  """Members doubled, renamed, changed, left out, or packed from a great many zeros."""
  with zipfile.ZipFile(io.BytesIO(data)) as archive:
    members = [(info.filename, archive.read(info)) for info in archive.infolist()]
  place = rng.randrange(len(members))
  name, content = members[place]
  inner = _BY_SUFFIX.get(pathlib.PurePath(name).suffix)
  match rng.randrange(6):
    case 0:
      members.append(members[place])
    case 1:
      members.pop(place)
    case 2:
      members[place] = (_odd_name(name, rng), content)
    case 3:
      members[place] = (name, bytes(rng.choice((1 << 20, 1 << 25))))
    case _:
      members[place] = (
        name,
        inner(content, rng) if inner else mutate(content or b"x", [content or b"x"], rng),
      )
  packed = io.BytesIO()
  with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
    for name, content in members:
      archive.NameToInfo.pop(name, None)  # or zipfile warns of members that come twice
      archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
  return packed.getvalue()


def _odd_name(name: str, rng: random.Random) -> str:
  return rng.choice(
    (
      f"../{name}",
      f"/tmp/{name}",
      f"{name}\x1b[31m",
      f"a\n{name}",
      "x" * 300,
      name.upper(),
      "con",
      f"./{name}",
    )
  )


def _tar(data: bytes, rng: random.Random) -> bytes:
  with tarfile.open(fileobj=io.BytesIO(data)) as archive:
    members = [(info, archive.extractfile(info).read()) for info in archive if info.isfile()]
  place = rng.randrange(len(members))
  info, content = members[place]
  match rng.randrange(6):
    case 0:
      members.append(members[place])
    case 1:
      info.name = _odd_name(info.name, rng)
    case 2:
      info.type, info.linkname = (
        rng.choice((tarfile.SYMTYPE, tarfile.LNKTYPE)),
        rng.choice(("/etc/passwd", "../x", "")),
      )
      content = b""
    case 3:
      info.type, content = rng.choice((tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)), b""
    case 4:
      content = picture(content, rng)
    case 5:
      info.pax_headers = {"size": "99999999999", "path": "../x", "GNU.sparse.realsize": "1e9"}
  members[place] = (info, content)
  packed = io.BytesIO()
  with tarfile.open(
    fileobj=packed, mode="w:gz", compresslevel=1, format=rng.choice((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
  ) as archive:
    for info, content in members:
      info.size = len(content)
      archive.addfile(info, io.BytesIO(content))
  return packed.getvalue()


def picture(data: bytes, rng: random.Random) -> bytes:
  """Another picture than is expected there: damaged, huge by its header, animated, or none."""
  match rng.randrange(5):
    case 0:
      return images.huge()
    case 1:
      return release_pictures.huge_jpeg(2)
    case 2:
      return rng.choice(list(release_pictures.CONVERTED.values()))(3)
    case 3:
      return rng.choice(list(release_pictures.UNUSUAL.values()))(4)
  return mutate(data or b"x", [data or b"x", release_pictures.photo(5)], rng)


def _bzip2(data: bytes, rng: random.Random) -> bytes:
  return bz2.compress(_json(bz2.decompress(data), rng), 1)


def _gzip(data: bytes, rng: random.Random) -> bytes:
  return gzip.compress(_json(gzip.decompress(data), rng), 1)


def _png(data: bytes, rng: random.Random) -> bytes:
  """A chunk's length or kind with a checksum that is right again, so that the reader looks inside."""
  if rng.random() < 0.5 or not data.startswith(b"\x89PNG"):
    return picture(data, rng)
  changed = bytearray(data)
  changed[16 + rng.randrange(13)] = rng.choice((0, 1, 2, 3, 4, 6, 8, 16, 0x7F, 0xFF))
  changed[29:33] = struct.pack(">I", zlib.crc32(bytes(changed[12:29])))
  return bytes(changed)


_BY_SUFFIX: dict[str, Callable[[bytes, random.Random], bytes]] = {
  ".json": _json,
  ".jsonl": _json,
  ".gin": _gin,
  ".csv": _table,
  ".tsv": _table,
  ".safetensors": _safetensors,
  ".npy": _npy,
  ".npz": _zip,
  ".zip": _zip,
  ".tgz": _tar,
  ".tar": _tar,
  ".bz2": _bzip2,
  ".gz": _gzip,
  ".png": _png,
  ".jpg": picture,
  ".arrow": formats.arrow,
  ".parquet": formats.parquet,
  ".http": formats.request,
}
