"""The gin files of `gin/t5x` and the adapter where t5x is not installed."""

import ast
import pathlib
import subprocess
import sys

import pytest
from gin import config_parser

from xmcap import configuration

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
  text = (configuration.gin_folder() / "t5x" / name).read_text(encoding="utf-8")
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


@pytest.mark.parametrize("name", FILES[1:])
def test_a_script_has_its_own_file_that_includes_the_captioner(name):
  statements, _ = _parsed(name)
  included = [s.filename for s in statements if isinstance(s, config_parser.IncludeStatement)]
  assert included == ["t5x/captioner.gin"]


def test_only_the_adapter_imports_t5x():
  for file in sorted(PACKAGE.rglob("*.py")):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
      names = []
      if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
      elif isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
      if file.parent.name == "t5x":
        continue
      bad = [name for name in names if name.split(".")[0] == "t5x" or name.startswith("xmcap.t5x.")]
      assert not bad, f"{file}: {bad}"


def test_adapter_without_t5x_names_its_page():
  code = "import sys; sys.modules['t5x'] = None; import xmcap.t5x.adapter"
  run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
  assert run.returncode == 1
  last = run.stderr.strip().splitlines()[-1]
  assert last == (
    "ModuleNotFoundError: xmcap.t5x.adapter needs t5x, and t5x is not installed: see docs/t5x.md"
  )
