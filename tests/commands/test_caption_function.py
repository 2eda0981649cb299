"""`xmcap caption --captioner=module:function`: a function of one's own instead of a server."""

import ast
import hashlib
import itertools
import json
import pathlib
import sys

import pytest

from tests.make import files, images
from tests.make.command import xmcap

_NUMBERS = itertools.count()  # Python keeps a module by its name.


@pytest.fixture
def captioner(tmp_path, monkeypatch):
  """Eight pictures in photos/, of which one is a JPEG; writes a module, and returns module:caption."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(sys, "path", sys.path.copy())
  for number in range(8):
    files.write(f"photos/p{number}.jpg", images.noise((9 + number, 9), number, "PNG" if number else "JPEG"))

  def write(body: str) -> str:
    name = f"captioner_{next(_NUMBERS)}"
    files.write(f"{name}.py", f"calls = []\ndef caption(image, languages):\n  {body}\n".encode())
    return f"{name}:caption"

  return write


def _caption(name, *more):
  return xmcap(
    "caption", f"--captioner={name}", "photos", "--languages=en,de", "--out=c.jsonl", "--keys=stem", *more
  )


def _calls(name):
  return sys.modules[name.partition(":")[0]].calls


_SAYS = "calls.append((image.mode, image.width, languages))"


def test_a_picture_is_given_once_with_all_languages(captioner, tmp_path):
  name = captioner(f"{_SAYS}; return {{code: f'**{{code}} {{image.width}}**' for code in languages}}")
  _caption(name).succeeded("16 questions: 16 answered; 16 asked now", "markdown 16")
  assert _calls(name) == [("RGB", 9 + number, ("en", "de")) for number in range(8)]
  captions = {(row["image/key"], row["language"]): row["caption"] for row in files.rows(tmp_path / "c.jsonl")}
  assert captions["p3", "de"] == "de 12" and len(captions) == 16
  provenance = json.loads((tmp_path / "c.provenance.json").read_text(encoding="utf-8"))
  digest = hashlib.sha256((tmp_path / f"{name.partition(':')[0]}.py").read_bytes()).hexdigest()
  assert (provenance["captioner"], provenance["module_sha256"]) == (name, digest)
  assert provenance["answered_by"] == {name: 16}
  _caption(name).succeeded("0 asked now")
  assert len(_calls(name)) == 8


def test_provenance_is_in_the_signature_of_scores(captioner, tmp_path):
  name = captioner("return {code: 'a cat' for code in languages}")
  _caption(name).succeeded()
  files.release("r.jsonl", {f"p{number}": {"en": ["a cat"], "de": ["x"]} for number in range(8)})
  xmcap("score", "--references=r.jsonl", "--predictions=c.jsonl", "--out=s").succeeded()
  table = json.loads((tmp_path / "s/table.json").read_text(encoding="utf-8"))
  assert f"|captioner:{name}#" in table["signature"]


def test_what_fails_is_asked_again_and_nothing_else(captioner, tmp_path):
  name = captioner(
    f"{_SAYS}; first = len(calls) <= 8\n"
    "  if image.width == 10 and first: raise RuntimeError('out of\\nmemory')\n"
    "  if image.width == 11 and first: return {'en': 'x'}\n"
    "  if image.width == 12 and first: return ['x']\n"
    "  return {code: 'x' for code in languages}"
  )
  _caption(name).refused("5 of 16 captions are missing: the same command asks again", code=1)
  journal = [row for row in files.rows(tmp_path / "c.answers.jsonl") if row["state"] != "answered"]
  assert {(row["image/key"], row["language"]): row["reason"] for row in journal} == {
    ("p1", "en"): "RuntimeError: out of memory",
    ("p1", "de"): "RuntimeError: out of memory",
    ("p2", "de"): "it returned None for 'de'",
    ("p3", "en"): "it returned list, not {language: caption}",
    ("p3", "de"): "it returned list, not {language: caption}",
  }
  _caption(name).succeeded("16 questions: 16 answered; 5 asked now")
  assert _calls(name)[8:] == [("RGB", 10, ("en", "de")), ("RGB", 11, ("de",)), ("RGB", 12, ("en", "de"))]


def test_a_function_that_always_fails_ends_the_run(captioner):
  name = captioner(f"{_SAYS}; return {{}}[3]")
  _caption(name).refused(f"--captioner={name}: it failed for the first 3 pictures: KeyError: 3: mend it")
  assert len(_calls(name)) == 3


def test_broken_pictures_are_not_given(captioner):
  files.write("photos/z.jpg", images.noise((24, 24), 0, "JPEG")[:300])
  result = _caption(captioner("return {code: 'x' for code in languages}"))
  result.refused("2 of 18 captions are missing", code=1)
  assert "left out: picture 'z'" in result.err


@pytest.mark.parametrize(
  ("name", "message"),
  [
    ("caption", "give module:function"),
    ("no_such_module:caption", "no_such_module cannot be imported (ModuleNotFoundError"),
    ("json:caption", "json has no function caption"),
    ("json:__name__", "json has no function __name__"),
  ],
)
def test_no_such_function(captioner, name, message):
  _caption(name).refused(f"--captioner={name}: {message}")


def test_a_module_with_an_error(captioner):
  _caption(captioner("return (")).refused("cannot be imported (SyntaxError: ")


def test_options_of_an_endpoint_are_refused(captioner):
  _caption("json:dumps", "--prompt=centurio").refused("--prompt is of an endpoint, and not of a function")


@pytest.mark.parametrize("name", ["caption_transformers", "caption_mlx"])
def test_the_examples_are_short_and_have_the_function(name):
  path = pathlib.Path(__file__).parents[2] / f"examples/{name}.py"
  text = path.read_text(encoding="utf-8")
  assert len(text.splitlines()) <= 40
  (function,) = [node for node in ast.parse(text).body if getattr(node, "name", "") == "caption"]
  assert isinstance(function, ast.FunctionDef)
  assert [argument.arg for argument in function.args.args] == ["image", "languages"]
