"""Which gin file a name means in a folder of a stranger, what it may import, and files that are odd."""

import pytest

from tests.make.command import xmcap
from xmcap import configuration, gin_files
from xmcap.errors import UsageError

RUNS = "import this\n"
OWN = gin_files.gin_folder()


@pytest.fixture(autouse=True)
def stranger(tmp_path, monkeypatch):
  """The working folder; its files of xmcap's names would run code."""
  monkeypatch.chdir(tmp_path)
  for name in ("runs/eval.gin", "runs/train.gin", "data/coco35l.gin", "mine/extra.gin"):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(RUNS)
  return tmp_path


def test_xmcap_files_include_from_their_folder_only():
  configuration.parse(["models/bb.gin", "runs/train_coco35l.gin"])
  assert configuration.macro("MIXTURE") == "coco_35l"


def test_eval_without_gin_files_takes_its_own(stranger):
  (stranger / "model.json").write_text('{"format": "xmcap.model", "version": 1}')
  xmcap("eval", "--model_dir=.", "--explain").succeeded("CaptionEvaluator")
  xmcap("eval", "--model_dir=.", "--gin_file=runs/eval.gin").refused(
    "the working folder and xmcap's folder have such a file", f"write ./runs/eval.gin or {OWN}/runs/eval.gin"
  )


_DYNAMIC = "from __gin__ import dynamic_registration\nimport xmcap.cli\n"


@pytest.mark.parametrize(
  "text, said",
  [
    (RUNS, "a.gin, line 1: imports this, which can run any code"),
    (_DYNAMIC, "a.gin, line 1: imports __gin__.dynamic_registration"),
    ("import \\\n this\n", "imports this"),
    ("import xmcap_evil\n", "imports xmcap_evil"),
    ("include './mine/extra.gin'\n", "mine/extra.gin, line 1: imports this"),
    ("include 'runs/train.gin'\n", "a.gin, line 1: include 'runs/train.gin': the folder . and xmcap's folder have"),
    ("include '../nothing.gin'\n", "no such file"),
    ("include 'gs://b/x.gin'\n", "must be on a disk"),
    ("include 'mine'\n", "no such file"),
    ("include 'a.gin'\n", "a.gin includes itself"),
    ("".join("include 'many.gin'\n" for _ in range(11)), "includes more than 100 files"),
    ("A = " + "[" * 5_000, "more than 20 brackets"),
    ("A = " + "1" * 5_000, "gin cannot read this"),
    ("A = " + "-" * 100_000, "gin cannot read this"),
    ("A = (", "gin cannot read this: "),
    ("A = {[1]: 2}", "unhashable"),
    ("A = 1\0", "gin cannot read this"),
    ("# " + "x" * 2**20, "longer than 1,048,576 characters"),
    ("A = %B\nB = [%A]\n", "macros that are defined by each other: "),
  ],
)  # fmt: skip
def test_odd_gin_file_is_refused_in_one_line(stranger, text, said):
  (stranger / "many.gin").write_text("".join("include 'leaf.gin'\n" for _ in range(11)))
  (stranger / "leaf.gin").write_text("")
  (stranger / "a.gin").write_text(text)
  with pytest.raises(UsageError) as error:
    configuration.parse(["a.gin"])
  assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
  "search", [gin_files.Search(allow_import=True), gin_files.Search(["mine"])], ids=["allowed", "search path"]
)
def test_import_is_allowed_by_the_option_or_the_search_path(stranger, search):
  (stranger / "mine/extra.gin").write_text("import colorsys\nA = 1\n")
  configuration.parse(["mine/extra.gin"], search=search)
  assert configuration.macro("A") == 1


def test_search_path_does_not_reach_out_of_its_folder():
  with pytest.raises(UsageError, match="imports this"):
    configuration.parse(["mine/../runs/train.gin"], search=gin_files.Search(["mine"]))


@pytest.mark.parametrize(
  "override", ["IMAGE_SIZE=1\nimport this", "import os.path\nX=1", "IMAGE_SIZE=@a\nB=1"]
)
def test_override_is_one_binding(override):
  with pytest.raises(UsageError, match="more than one binding"):
    configuration.parse(["models/bb.gin"], [override])
