"""Each exported format runs in a new environment, which the one line of docs/export.md made.

Seconds on two busy cores, with a warm cache of packages: jax 2 and 24 (installing, captioning), TensorFlow 4 and 60,
torch and transformers 73 and 56.
"""

import pathlib
import re
import subprocess
import sys

import pytest

from tests.export.test_export import EXAMPLES, captions, exported, pixels, readable_tensorflow
from tests.make import files, images, models

PAGE = (pathlib.Path(__file__).parents[2] / "docs/export.md").read_text(encoding="utf-8")
INSTALLS = dict(re.findall(r"`examples/export_(\w+)\.py` \(`pip install ([\w -]+)`\)", PAGE))
"""Library -> the packages that the page names for it."""


def test_page_names_the_packages_of_every_loader():
  assert INSTALLS.keys() == {path.stem.removeprefix("export_") for path in EXAMPLES.glob("export_*.py")}


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize(
  ("library", "to"), [("jax", "stablehlo"), ("tensorflow", "savedmodel"), ("transformers", "hf")]
)
def test_loader_runs_in_an_environment_of_the_line_alone(tmp_path, monkeypatch, library, to):
  if to == "savedmodel":
    readable_tensorflow()
  monkeypatch.chdir(tmp_path)
  beam = {"beams": 3, "length_penalty": 1.0, "convention": "transformers", "early_stopping": False}
  folder = models.captioner(tmp_path / "run", search="Beam", **beam)
  # Of the model's own size: TensorFlow rounds otherwise where it resizes.
  files.text(tmp_path / "photo.jpg", images.encode(pixels(1)[0]))
  exported(folder, to, "captioner").succeeded()
  uv = [sys.executable, "-m", "uv"]
  subprocess.run([*uv, "venv", "-q", f"--python={sys.executable}", "clean"], check=True)
  subprocess.run([*uv, "pip", "install", "-q", "--python=clean", *INSTALLS[library].split()], check=True)
  clean = {"PATH": "/usr/bin", "HOME": str(tmp_path)}
  program = ["clean/bin/python", "-I", str(EXAMPLES / f"export_{library}.py")]
  run = subprocess.run(program, capture_output=True, text=True, env=clean, check=False)
  assert run.returncode == 0, run.stderr
  assert run.stdout.splitlines() == captions(folder)
