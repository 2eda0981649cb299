"""The notebook is kept without output, and runs from its first cell to its last."""

import os
import pathlib
import re
import sys

import nbclient
import nbformat
import pytest

ROOT = pathlib.Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples/xmcap.ipynb"
SMALLER = {"PICTURES": 40, "STEPS": 4}
"""Parameters that the notebook names in its first cell of code."""


@pytest.fixture(scope="module")
def notebook():
  return nbformat.read(NOTEBOOK, nbformat.NO_CONVERT)


def test_no_output_is_kept(notebook):
  nbformat.validate(notebook)
  cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
  assert cells and not [cell.id for cell in cells if cell.outputs or cell.execution_count is not None]


@pytest.mark.full
@pytest.mark.slow
def test_it_runs(notebook, tmp_path, monkeypatch):
  (parameters,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ())]
  for name, value in SMALLER.items():
    parameters.source, found = re.subn(rf"^{name} = .*$", f"{name} = {value}", parameters.source, flags=re.M)
    assert found == 1, name
  # The command and the package are those of this environment and this checkout.
  monkeypatch.setenv("PATH", os.path.dirname(sys.executable), prepend=os.pathsep)
  monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
  client = nbclient.NotebookClient(
    notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
  )
  client.execute()

  (draw, build, pictures, train, look, scores, compared) = [
    _output(cell) for cell in notebook.cells if cell.cell_type == "code" and cell is not parameters
  ]
  assert "IMG_0001.jpg" in draw and "no problems" in build
  assert pictures.count("<img") == 4
  assert "finished at step 4" in train
  assert look.count("<img") >= 4 and look.count("lang=th") == look.count("<img")
  for code in ("de", "en", "th"):
    assert re.search(rf"^{code} .*\d\.\d", scores, re.M)
  assert "step 1" in compared and "step 4" in compared


def _output(cell) -> str:
  """What a cell printed and showed."""
  held = []
  for output in cell.outputs:
    held.append(output.get("text", ""))
    held.append(output.get("data", {}).get("text/html", ""))
  return "".join(held)
