"""The walks of docs/architecture.md name the files that run, traced."""

import cProfile
import json
import pathlib
import re
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np

import xmcap
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.scoring import score_files
from xmcap.training import optimizer as optimizer_lib
from xmcap.training import sharding, step
from xmcap.training.objectives import CaptionObjective

_PACKAGE = pathlib.Path(xmcap.__file__).parent
_PAGE = _PACKAGE.parent / "docs/architecture.md"


def _named(heading: str) -> list[str]:
  section = _PAGE.read_text(encoding="utf-8").split(f"## {heading}")[1].split("\n## ")[0]
  return re.findall(r"^\d+\. `([\w/]+\.py)`", section, re.MULTILINE)


def _in_order(function) -> list[str]:
  """The files of xmcap whose functions a call runs, in the order of their first call."""
  files = {}

  def trace(frame, event, argument):  # returns None: the lines of the function are not traced
    path = frame.f_code.co_filename
    if path.startswith(package) and frame.f_code.co_name != "<module>":
      files.setdefault(path[len(package) :])

  package = f"{_PACKAGE}/"
  threading.settrace(trace)
  sys.settrace(trace)
  try:
    function()
  finally:
    sys.settrace(None)
    threading.settrace(None)
  return list(files)


def _profiled(function) -> set[str]:
  """The same in no order, of this thread alone: a tenth of the time where millions of functions of jax run."""
  profile = cProfile.Profile(builtins=False)
  profile.runcall(function)
  paths = {entry.code.co_filename for entry in profile.getstats() if not isinstance(entry.code, str)}
  return {path.removeprefix(f"{_PACKAGE}/") for path in paths}


def test_walk_of_a_caption_in_architecture_md(tmp_path):
  rows = [
    {"image/key": key, "image/locale": "", "en": {"caption": [text]}}
    for key, text in (("1", "a dog"), ("2", "a cat"))
  ]
  (tmp_path / "references.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
  rows = [{"image/key": key, "language": "en", "caption": "a dog"} for key in ("1", "2")]
  (tmp_path / "ours.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

  def run(out: str) -> None:
    score_files(
      tmp_path / "references.jsonl", tmp_path / "ours.jsonl", tmp_path / out, metrics=["cider_d"], only_tables=True,
      processes=1,
    )  # fmt: skip

  run("first")  # loads what is loaded lazily
  walked, named = _in_order(lambda: run("second")), _named("A caption in eight files")
  assert len(named) == 8
  assert set(named) <= set(walked)
  inner = [
    name for name in named if name != "pages/output.py"
  ]  # which calls the others, and writes in the end
  assert [name for name in walked if name in inner] == inner


def test_walk_of_a_training_step_in_architecture_md():
  objective = CaptionObjective(
    ViTConfig(8, 1, 16, 2, 4, 8, dtype="float32"), T5Config(32, 8, 2, 4, 1, 1, 16, dtype="float32")
  )
  batch = {
    "image": np.zeros((2, 8, 8, 3), np.uint8), "prompt_tokens": np.ones((2, 1, 2), np.int32),
    "target_tokens": np.ones((2, 1, 4), np.int32), "target_weights": np.ones((2, 1, 4), np.float32),
  }  # fmt: skip

  def run() -> None:
    mesh = sharding.Partitioning().mesh(jax.devices()[:1])
    optimizer = optimizer_lib.Optimizer(
      optimizer_lib.adafactor, schedule=lambda count, total: jnp.float32(1e-3)
    )
    # Shapes are enough: nothing is compiled, which would take longer than all else.
    params = jax.eval_shape(objective.init, jax.random.key(0), batch)["params"]
    state = jax.eval_shape(lambda params: step.create_state(params, optimizer), params)
    with jax.set_mesh(mesh):
      jax.eval_shape(step.make_train_step(objective, optimizer, 2), state, batch)

  walked, named = _profiled(run), _named("A training step in ten files")
  assert len(named) == 10
  # The loop calls the step, and the state is planned before it: test_loop.py runs both.
  assert set(named) - {"training/loop.py", "training/state.py"} <= walked
