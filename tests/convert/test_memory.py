"""Memory of `xmcap convert`: a model of 300 MB within a small limit, both ways."""

import importlib
import json
import pathlib
import resource

import numpy as np

from tests.make.command import forked
from xmcap import cli
from xmcap.convert.source import parameter_shapes
from xmcap.files.tensors import Output, write_safetensors
from xmcap.models import model_json
from xmcap.models.t5 import T5Config

CONFIG = T5Config(30_000, 512, 8, 64, 8, 8, 1024)


def _convert(*arguments):
  """Prints the KiB that the process grew by while it converted."""
  # Imported before memory is first looked at.
  importlib.import_module("xmcap.convert.exporting")
  importlib.import_module("xmcap.convert.importing")
  parameter_shapes(T5Config(9, 8, 2, 4, 1, 1, 8))
  before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  code = cli.main(["convert", *arguments])
  print("grown", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
  return code


def grown(*arguments):
  """MB that a process grows by while it converts."""
  return int(forked(_convert, *arguments).succeeded().out.split()[-1]) / 1024


def test_convert_memory_is_a_few_tensors(tmp_path):
  rng = np.random.default_rng(0)
  shapes = parameter_shapes(CONFIG)
  outputs = [
    Output(
      [name], [shape], [np.dtype(np.float32)], lambda shape=shape: [rng.standard_normal(shape, np.float32)]
    )
    for name, shape in shapes.items()
  ]
  ours = tmp_path / "ours"
  ours.mkdir()
  size = write_safetensors(ours / "params.safetensors", outputs, {}) / 2**20
  model = model_json.Model({"t5": model_json.of_config(CONFIG)})
  (ours / model_json.NAME).write_text(model_json.as_text(model))
  assert size > 280
  # The two largest tensors are 59 MB each, and one is held twice while it is transposed.
  limit = 150
  assert grown("--to=hf", f"--input={ours}", f"--out={tmp_path / 'theirs'}") < limit
  assert grown(f"--input={tmp_path / 'theirs'}", f"--out={tmp_path / 'back'}") < limit
  assert json.loads(pathlib.Path(tmp_path / "theirs/config.json").read_text())["d_model"] == 512
