"""The example notebook: stored outputs match its code, and it runs from the first cell to the last."""

import copy
import importlib.util
import pathlib
import re

import nbformat
import pytest

ROOT = pathlib.Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples/xmcap.ipynb"
SMALLER = {"PICTURES": 40, "STEPS": 4}
"""Parameters that the notebook names in its first cell of code."""


@pytest.fixture(scope="module")
def notebook():
  return nbformat.read(NOTEBOOK, nbformat.NO_CONVERT)


@pytest.fixture(scope="module")
def script():
  """`.ci/notebook.py`, which is in no package."""
  spec = importlib.util.spec_from_file_location("notebook", ROOT / ".ci/notebook.py")
  assert spec and spec.loader
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def test_notebook_outputs_are_of_the_current_code(notebook, script):
  nbformat.validate(notebook)
  assert notebook.metadata["outputs_of"] == script.code_hash(notebook), "run python .ci/notebook.py"
  outputs = [output for cell in _code(notebook) for output in cell.outputs]
  assert not [output for output in outputs if output.output_type == "error"]
  # All but the settings say or show something.
  assert [cell.id for cell in _code(notebook) if not cell.outputs] == ["code-02"]


def test_notebook_outputs_have_no_local_paths(notebook):
  printed = "".join(map(_output, _code(notebook)))
  assert "CIDEr" in printed and "<img" in printed
  assert not re.search(r"/(?:home|root|tmp|Users|work)/|\x1b|\r", printed)


def test_notebook_runs_xmcap_by_its_own_python(notebook):
  commands = [line for cell in _code(notebook) for line in cell.source.splitlines() if line.startswith("!")]
  assert """XMCAP = f'"{sys.executable}" -m xmcap'""" in _code(notebook)[0].source
  assert commands and all(line.startswith("!{XMCAP} ") for line in commands)


def test_notebook_hash_covers_code_only(notebook, script):
  changed = copy.deepcopy(notebook)
  before = script.code_hash(changed)
  changed.cells[0].source += "more words"
  assert script.code_hash(changed) == before
  _code(changed)[0].source += "\nSTEPS = 1"
  assert script.code_hash(changed) != before


def test_notebook_tidy_drops_overwritten_terminal_output(script):
  stream = [nbformat.v4.new_output("stream", name="stdout", text=text) for text in ("1%\r", "2%\rdone\r\n")]
  notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("run()", outputs=stream)])
  script.tidy(notebook)
  assert [output.text for output in notebook.cells[0].outputs] == ["done\n"]


@pytest.mark.full
@pytest.mark.slow
def test_notebook_runs(notebook, script, tmp_path):
  notebook = copy.deepcopy(notebook)
  (parameters,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ())]
  for name, value in SMALLER.items():
    parameters.source, found = re.subn(rf"^{name} = .*$", f"{name} = {value}", parameters.source, flags=re.M)
    assert found == 1, name
  script.run(notebook, tmp_path)

  (draw, build, pictures, train, look, scores, compared) = [
    _output(cell) for cell in _code(notebook) if cell is not parameters
  ]
  assert "IMG_0001.jpg" in draw and "no problems" in build
  assert pictures.count("<img") == 4
  assert "finished at step 4" in train
  assert look.count("<img") >= 4 and look.count("lang=th") == look.count("<img")
  for code in ("de", "en", "th"):
    assert re.search(rf"^{code} .*\d\.\d", scores, re.M)
  assert "step 1" in compared and "step 4" in compared


def _code(notebook):
  return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _output(cell) -> str:
  """What a cell printed and showed."""
  held = []
  for output in cell.outputs:
    held.append(output.get("text", ""))
    held.append(output.get("data", {}).get("text/html", ""))
  return "".join(held)
