"""Runs examples/xmcap.ipynb and keeps its outputs in it: readers see them without running anything.

usage: python .ci/notebook.py     takes minutes; a test says when the code has changed since
"""

import hashlib
import os
import pathlib
import re
import tempfile
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "examples" / "xmcap.ipynb"


def code_hash(notebook: Any) -> str:
  """The SHA-256 of the cells of code: outputs belong to one state of it.

  Args:
    notebook: as nbformat reads it.
  """
  sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
  return hashlib.sha256("\0".join(sources).encode()).hexdigest()


def run(notebook: Any, folder: str | os.PathLike[str]) -> None:
  """Runs all cells in a folder, with this Python and the package of this checkout.

  Raises:
    nbclient.exceptions.CellExecutionError: a cell failed.
  """
  import nbclient

  kept = dict(os.environ)
  os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
  try:
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=3600, kernel_name="python3", resources=resources).execute()
  finally:
    os.environ.clear()
    os.environ.update(kept)


def tidy(notebook: Any, folder: str = "") -> None:
  """Leaves what a reader sees: no times of cells, no overwritten lines, no colours, no path of `folder`."""
  for cell in notebook.cells:
    cell.metadata.pop("execution", None)
    joined: list[Any] = []
    for output in cell.get("outputs", ()):
      if output.output_type == "stream" and joined and joined[-1].get("name") == output.name:
        joined[-1].text += output.text
      else:
        joined.append(output)
    for output in joined:
      if output.output_type == "stream":
        text = re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", output.text).replace("\r\n", "\n")
        text = re.sub(r"[^\n]*\r", "", text)
        output.text = text.replace(f"{folder}/", "") if folder else text
    if cell.cell_type == "code":
      cell.outputs = joined


def main() -> None:
  import nbformat

  notebook = nbformat.read(NOTEBOOK, nbformat.NO_CONVERT)
  with tempfile.TemporaryDirectory() as folder:
    run(notebook, folder)
    tidy(notebook, folder)
  notebook.metadata["outputs_of"] = code_hash(notebook)
  nbformat.write(notebook, NOTEBOOK)


if __name__ == "__main__":
  main()
