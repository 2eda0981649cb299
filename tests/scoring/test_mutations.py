"""Damaged references, predictions and keys: each gives a result, or a one-line error and exit code 2."""

import io
import json
import random
import zipfile

import pytest

from tests.fuzz import mutations
from tests.fuzz.readers import read_or_refused
from tests.make.command import xmcap
from xmcap.reading import subsets
from xmcap.scoring import read_predictions, read_references

pytestmark = pytest.mark.slow

_READ = pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.full)])
_SCORED = pytest.mark.parametrize("count", [40, pytest.param(250, marks=pytest.mark.full)])

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
        **{language: captions([texts[number], "x"]) for language, texts in _TEXTS.items()},
      }
      for number, key in enumerate(_KEYS)
    )
  )


def _plain():
  return _lines(
    *(
      {"image/key": key, "language": language, "caption": texts[number] if number else [texts[number]]}
      for language, texts in _TEXTS.items()
      for number, key in enumerate(_KEYS)
    )
  )


def _annotations():
  annotations = [
    {"id": number, "image_id": key, "caption": _TEXTS["el"][number]}
    for number, key in enumerate((_KEYS[0], 7))
  ]
  document = {"info": {}, "images": [{"id": _KEYS[0]}, {"id": 7}], "annotations": annotations}
  return json.dumps(document, ensure_ascii=False, indent=1).encode()


def _results():
  return json.dumps([{"image_id": key, "caption": "μια κόκκινη"} for key in (_KEYS[0], 7)]).encode()


def _predictions(languages=("en", "el")):
  rows = ((key, language) for language in languages for key in _KEYS)
  return _lines(
    *({"image/key": key, "language": language, "caption": "a κόκκινη ball"} for key, language in rows)
  )


def _zipped(content):
  buffer = io.BytesIO()
  with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("captions.jsonl", content)
  return buffer.getvalue()


_GREEK = ("--language=el", "--languages=el")
# Layout -> (name of the file, its content, how it is read, which option of the command takes it, further options).
_LAYOUTS = {
  "release": ("a.jsonl", _release(), lambda path: read_references(path, tokenized=True), "references", ()),
  "archive": ("a.zip", _zipped(_release()), read_references, "references", ()),
  "plain": ("a.jsonl", _plain(), read_references, "references", ()),
  "annotations": ("a.json", _annotations(), lambda path: read_references(path, language="el"), "references", _GREEK),
  "predictions": ("a.jsonl", _predictions(), read_predictions, "predictions", ()),
  "results": ("a.json", _results(), lambda path: read_predictions(path, "el"), "predictions", _GREEK),
  "folder": ("in/el.jsonl", _predictions(("el",)), read_predictions, "predictions", _GREEK[1:]),
  "keys": (
    "a.txt", "\n".join(_KEYS).encode(), lambda path: subsets.choose(str(path), dict.fromkeys(_KEYS)), "subset", (),
  ),
}  # fmt: skip


def _write(folder, layout):
  """Writes the whole file; returns its path, and the path that its reader takes."""
  file = folder / _LAYOUTS[layout][0]
  file.parent.mkdir(exist_ok=True)
  file.write_bytes(_LAYOUTS[layout][1])
  return file, file.parent if layout == "folder" else file


@_READ
@pytest.mark.parametrize("layout", _LAYOUTS)
def test_a_damaged_file_is_read_or_refused_in_one_line(tmp_path, layout, count):
  _, path = _write(tmp_path, layout)
  read_or_refused(path, _LAYOUTS[layout][2], count)


@_SCORED
@pytest.mark.parametrize("layout", _LAYOUTS)
def test_a_damaged_file_is_scored_or_refused_by_the_command(tmp_path, layout, count):
  *_, option, more = _LAYOUTS[layout]
  options = {name: tmp_path / name for name in ("references", "predictions", "out")}
  options["references"].write_bytes(_release())
  options["predictions"].write_bytes(_predictions(("el",) if more else ("en", "el")))
  codes = set()
  for case in range(count):
    (tmp_path / f"{case}").mkdir()
    file, options[option] = _write(tmp_path / f"{case}", layout)
    mutations.damage(file, random.Random(f"{layout} {case}"))
    command = ["score", *(f"--{name}={value}" for name, value in options.items()), *more, "--processes=1"]
    result = xmcap(*command)
    codes.add(result.code)
    if result.code:
      result.refused("error: ")
  assert codes == {0, 2}
