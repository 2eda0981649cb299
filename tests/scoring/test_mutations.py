"""Fuzzing of the files that are scored: each gives a result, or a one-line error and exit code 2."""

import contextlib
import io
import json
import random
import resource
import zipfile

import pytest

from xmcap import cli
from xmcap.errors import UsageError
from xmcap.reading import subsets
from xmcap.scoring import read_predictions, read_references

pytestmark = pytest.mark.slow

# Damaged files of each of the eight layouts, through the readers and through the command.
_READ = pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.full)])
_SCORED = pytest.mark.parametrize("count", [40, pytest.param(250, marks=pytest.mark.full)])
_MEMORY = 500 << 20  # bytes that a small file, however damaged, must not take

_TEXTS = {"en": ("a red ball", "two \U0001f697 cars"), "el": ("μια κόκκινη μπάλα", "δύο αυτοκίνητα")}
_KEYS = ("00000000000000aa", "7")


def _lines(*rows):
  return "".join(
    json.dumps(row, ensure_ascii=bool(number % 2)) + "\n" for number, row in enumerate(rows)
  ).encode()


def _release():
  def captions(texts):
    return {"caption": texts, "caption/tokenized": [f"{text} ." for text in texts]}

  return _lines(
    *(
      {
        "image/key": key,
        "image/locale": "el",
        **{code: captions([of[i], "x"]) for code, of in _TEXTS.items()},
      }
      for i, key in enumerate(_KEYS)
    )
  )


def _plain():
  return _lines(
    *(
      {"image/key": key, "language": code, "caption": of[i] if i else [of[i]]}
      for code, of in _TEXTS.items()
      for i, key in enumerate(_KEYS)
    )
  )


def _annotations():
  annotations = [
    {"id": i, "image_id": key, "caption": _TEXTS["el"][i]} for i, key in enumerate((_KEYS[0], 7))
  ]
  document = {"info": {}, "images": [{"id": _KEYS[0]}, {"id": 7}], "annotations": annotations}
  return json.dumps(document, ensure_ascii=False, indent=1).encode()


def _results():
  return json.dumps([{"image_id": key, "caption": "μια κόκκινη"} for key in (_KEYS[0], 7)]).encode()


def _predictions(languages=("en", "el")):
  rows = ((key, code) for code in languages for key in _KEYS)
  return _lines(*({"image/key": key, "language": code, "caption": "a κόκκινη ball"} for key, code in rows))


def _zipped(content):
  packed = io.BytesIO()
  with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr(zipfile.ZipInfo("captions.jsonl", (2022, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
  return packed.getvalue()


# Layout -> (whole file, which option of the command takes it, further options).
_LAYOUTS = {
  "release": (_release(), "references", ()),
  "archive": (_zipped(_release()), "references", ()),
  "plain": (_plain(), "references", ()),
  "annotations": (_annotations(), "references", ("--language=el", "--languages=el")),
  "predictions": (_predictions(), "predictions", ()),
  "results": (_results(), "predictions", ("--language=el", "--languages=el")),
  "folder": (_predictions(("el",)), "predictions", ("--languages=el",)),
  "keys": ("\n".join(_KEYS).encode(), "subset", ()),
}

_ODD = (
  *("NaN", "-Infinity", "Infinity", "1e999", "-0", "1.5", "true", "null", "[]", "{}", '""', "9" * 5000, "7"),
  *(
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\u0000"',
    '"en"',
    '["a", 1]',
    "[" * 5000,
    '{"a":' * 5000,
    '{"a": [{}]}',
  ),
  *(
    '"caption"',
    '"image/key"',
    '"annotations"',
    '"xx"',
    '"\u2028"',
    "[" * 500 + "]" * 500,
    ",",
    ":",
    "}",
    "]",
  ),
)
_BYTES = (
  b"\x00",
  b"\xff",
  b"\xc3",
  b"\xed\xa0\x80",
  b"\xf4\x90\x80\x80",
  b"\xef\xbb\xbf",
  b"\n",
  b"\r",
  b'"',
  b"\\",
)


def _damaged(content, draw):
  """Returns the content with one to three kinds of damage."""
  for _ in range(draw.choice((1, 1, 1, 2, 3))):
    content = draw.choice(_DAMAGES)(content, draw)
  return content


def _cut(content, draw):
  return content[: draw.randrange(len(content) + 1)]


def _without_a_piece(content, draw):
  start = draw.randrange(len(content) + 1)
  return content[:start] + content[start + draw.randrange(40) :]


def _with_a_piece_twice(content, draw):
  start = draw.randrange(len(content) + 1)
  piece = content[start : start + draw.randrange(200)]
  return content[:start] + piece + content[start:]


def _other_bytes(content, draw):
  content = bytearray(content)
  for _ in range(draw.randint(1, 4) if content else 0):
    content[draw.randrange(len(content))] = draw.randrange(256)
  return bytes(content)


def _odd_bytes(content, draw):
  start = draw.randrange(len(content) + 1)
  return content[:start] + draw.choice(_BYTES) + content[start:]


def _other_lines(content, draw):
  lines = content.splitlines(keepends=True)
  if not lines:
    return b"\n"
  line = lines.pop(draw.randrange(len(lines)))
  for _ in range(draw.choice((0, 2, 2))):
    lines.insert(draw.randrange(len(lines) + 1), line)
  return b"".join(lines)


def _odd_value(content, draw):
  """Puts something odd where a value or a name begins."""
  starts = [i for i, byte in enumerate(content) if byte in b'"[{' or content[i : i + 1].isdigit()]
  start = draw.choice(starts) if starts else 0
  end = start + draw.choice((0, 1, draw.randrange(30)))
  if draw.random() < 0.7:
    # The whole text, if it is one.
    closing = content.find(b'"', start + 1)
    end = closing + 1 if closing > 0 else end
  return content[:start] + draw.choice(_ODD).encode() + content[end:]


def _other_json(content, draw):
  """Changes one member or item of a line or of the document, which stays valid JSON."""
  lines = content.splitlines() or [b""]
  number = draw.randrange(len(lines))
  try:
    value = json.loads(content)
    lines, number = [b""], 0
  except (ValueError, RecursionError):
    try:
      value = json.loads(lines[number])
    except (ValueError, RecursionError):
      return content
  parent, name = None, None
  node = value
  while isinstance(node, dict | list) and node and (parent is None or draw.random() < 0.7):
    parent, name = node, draw.choice(list(node) if isinstance(node, dict) else range(len(node)))
    node = parent[name]
  if parent is not None:
    action = draw.randrange(4)
    if action == 0:
      del parent[name]
    elif action == 1 and isinstance(parent, list):
      parent.append(node)
    elif action == 2 and isinstance(parent, dict):
      parent[draw.choice(("en", "xx", "caption", "language", "id", ""))] = parent.pop(name)
    else:
      parent[name] = draw.choice(
        (None, True, 0, -1, 1 << 70, 1.5, "", "a\nb", [], {}, ["a", None], {"a": "b"}, node)
      )
  lines[number] = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
  return b"\n".join(lines)


def _whole(content, draw):
  """Damage to the file as a whole."""
  return draw.choice(
    (
      b"",
      b"\n \n",
      b"\xef\xbb\xbf" + content,
      content.replace(b"\n", b"\r\n"),
      content.decode("utf-8", "replace").encode("utf-16"),
      content.decode("utf-8", "replace").encode("utf-16-le"),
      content * 2,
      b"[" + content + b"]",
      content[::-1],
      bytes(len(content)),
      _zipped(content),
    )
  )


def _huge(content, draw):
  """Rarely, for its cost, a text of a megabyte."""
  size = 1 << 20 if draw.random() < 0.05 else 1 << 14
  start = content.find(b'"', draw.randrange(len(content) + 1)) + 1
  return (
    content[:start]
    + draw.choice((b"x", b" ", b"[", b"9", b"\\", b"\\u00e9", b"{}\n")) * size
    + content[start:]
  )


_DAMAGES = (
  *(_cut, _without_a_piece, _with_a_piece_twice, _other_bytes, _odd_bytes, _other_lines, _whole, _huge),
  *(_odd_value, _odd_value, _other_json, _other_json, _other_json, _other_json),
)


def _files(folder, layout, seed):
  """Writes one damaged file; returns its path as the reader takes it."""
  draw = random.Random(f"{layout} {seed}")
  folder.mkdir(exist_ok=True)
  content = _LAYOUTS[layout][0]
  if layout == "archive" and draw.random() < 0.5:
    damaged = _zipped(_damaged(_release(), draw))
  else:
    damaged = _damaged(content, draw)
  (folder / "el.jsonl").write_bytes(damaged)
  return folder if layout == "folder" else folder / "el.jsonl"


_READERS = {
  "release": lambda path, draw: read_references(path, tokenized=draw.random() < 0.5),
  "archive": lambda path, draw: read_references(path),
  "plain": lambda path, draw: read_references(path),
  "annotations": lambda path, draw: read_references(path, language="el"),
  "predictions": lambda path, draw: read_predictions(path),
  "results": lambda path, draw: read_predictions(path, "el"),
  "folder": lambda path, draw: read_predictions(path),
  "keys": lambda path, draw: subsets.choose(str(path), dict.fromkeys(_KEYS)),
}


def _peak():
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


@_READ
@pytest.mark.parametrize("layout", _LAYOUTS)
def test_a_damaged_file_is_read_or_refused_in_one_line(tmp_path, layout, count):
  read = _READERS[layout]
  before = _peak()
  outcomes = {"read": 0, "refused": 0}
  for seed in range(count):
    path = _files(tmp_path / "in", layout, seed)
    try:
      read(path, random.Random(seed))
      outcomes["read"] += 1
    except UsageError as error:
      outcomes["refused"] += 1
      line = str(error)
      assert len(line.splitlines()) == 1 and len(line) < 1000 and str(tmp_path) in line, (seed, line[:1000])
    except Exception as error:
      raise AssertionError(f"{layout} {seed}: no traceback is allowed") from error
  assert min(outcomes.values()) > count // 20, outcomes  # the damage is neither always seen nor never
  assert _peak() - before < _MEMORY


@_SCORED
@pytest.mark.parametrize("layout", _LAYOUTS)
def test_a_damaged_file_is_scored_or_refused_by_the_command(tmp_path, layout, count):
  _, option, extra = _LAYOUTS[layout]
  whole = {"references": tmp_path / "references", "predictions": tmp_path / "predictions"}
  whole["references"].write_bytes(_release())
  whole["predictions"].write_bytes(_predictions(("el",) if extra else ("en", "el")))
  before = _peak()
  outcomes = {0: 0, 2: 0}
  for seed in range(count):
    named = {**whole, option: _files(tmp_path / "in", layout, 1_060 + seed), "out": tmp_path / "out"}
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
      code = cli.main(
        ["score", *(f"--{name}={value}" for name, value in named.items()), *extra, "--processes=1"]
      )
    lines = stderr.getvalue().splitlines()
    assert code in outcomes, (seed, lines)
    outcomes[code] += 1
    if code == 2:
      assert len(lines) == 1 and lines[0].startswith("xmcap: error: "), (seed, lines)
  assert min(outcomes.values()) > 0, outcomes
  assert _peak() - before < _MEMORY
