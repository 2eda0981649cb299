"""The gin files of `gin/t5x` and the adapter where t5x is not installed."""

import pathlib
import re
import subprocess
import sys

import pytest
from gin import config_parser

from xmcap import configuration, gin_files

FILES = ("captioner.gin", "train.gin", "eval.gin", "infer.gin")
PACKAGE = pathlib.Path(configuration.__file__).parent
# What the model's and the corpus's files define, see gin/models and gin/data.
ELSEWHERE = {"IMAGE_SIZE", "TARGET_LENGTH", "MIXTURE", "gin.REQUIRED"}


class _Delegate(config_parser.ParserDelegate):
  def __init__(self):
    self.macros = set()

  def configurable_reference(self, scoped_configurable_name, evaluate):
    return f"@{scoped_configurable_name}"

  def macro(self, macro_name):
    self.macros.add(macro_name)
    return f"%{macro_name}"


def _parsed(name):
  delegate = _Delegate()
  text = (gin_files.gin_folder() / "t5x" / name).read_text(encoding="utf-8")
  statements = list(config_parser.ConfigParser(text, delegate))
  return statements, delegate.macros


def _defined(statements):
  bindings = [s for s in statements if isinstance(s, config_parser.BindingStatement)]
  return {binding.selector for binding in bindings if not binding.arg_name}


@pytest.mark.parametrize("name", FILES)
def test_a_gin_file_is_gin_and_defines_the_macros_that_it_uses(name):
  statements, used = _parsed(name)
  known = _defined(statements) | _defined(_parsed("captioner.gin")[0]) | ELSEWHERE
  assert used <= known


def test_only_the_adapter_imports_t5x():
  imports = re.compile(r"^\s*(import t5x\b|from t5x\b|import xmcap\.t5x\.|from xmcap\.t5x\b)", re.MULTILINE)
  files = [file for file in PACKAGE.rglob("*.py") if file.parent.name != "t5x"]
  assert len(files) > 100
  assert not [file for file in files if imports.search(file.read_text(encoding="utf-8"))]


def test_adapter_without_t5x_names_its_page():
  code = "import sys; sys.modules['t5x'] = None; import xmcap.t5x.adapter"
  run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
  assert run.returncode == 1
  last = run.stderr.strip().splitlines()[-1]
  assert last == (
    "ModuleNotFoundError: xmcap.t5x.adapter needs t5x, and t5x is not installed: see docs/t5x.md"
  )
