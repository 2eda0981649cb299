"""benchmarks/gpu: the parts that need no GPU, and a rehearsal of all parts on the CPU."""

import importlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import types

import pytest

from benchmarks import all as benchmarks
from tests.make import small_corpus
from xmcap.languages import LANGUAGES

FOLDER = benchmarks.ROOT / "benchmarks" / "gpu"


@pytest.fixture
def script(monkeypatch):
  """Imports a script of the folder by name, as it would be run."""
  monkeypatch.syspath_prepend(str(FOLDER))
  return importlib.import_module


# ---- one step -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
  ("operation", "part"),
  [
    ("jvp(Captioner)/Captioner.encode_image/vit/layers_3/attention/attention.combine/exp", "forward vit attention"),
    ("transpose(jvp(Captioner))/Captioner.encode_image/vit/layers_0/mlp/wi/dot_general", "backward vit mlp"),
    ("jvp(Captioner)/encoder/layers_0/attention/attention.combine/out/dot_general", "forward encoder projections"),
    ("transpose(jvp(Captioner))/decoder/decoder.logits/logits_dense/dot_general", "backward logits"),
    ("jvp(Captioner)/decoder/layers_1/pre_mlp_layer_norm/mul", "forward decoder norm"),
    ("jvp(Captioner)/token_embedder/gather", "forward embedding"),
    ("jvp()/reduce_max", "forward loss"),
    ("mul", "optimizer"),
  ],
)  # fmt: skip
def test_gpu_benchmark_operations_belong_to_parts(script, operation, part):
  assert script("parts").part(f"jit(train_step)/{operation}") == part


# ---- the run --------------------------------------------------------------------------------------


def run_part(script, tmp_path, code: str, seconds: float, left: float) -> str:
  run = script("run")
  file = tmp_path / "some.py"
  file.write_text(code)
  arguments = types.SimpleNamespace(tiny=False, carried=None)
  return run.run("some", run.Part(seconds, str(file), None), arguments, tmp_path, {**os.environ}, left)


def test_gpu_benchmark_part_timeout_keeps_its_output(script, tmp_path):
  code = (
    "import pathlib, subprocess, sys, time\n"
    "pathlib.Path(sys.argv[1].removeprefix('--json=')).write_text('[1]')\n"
    "child = subprocess.Popen(['sleep', '600'])\nprint(child.pid, flush=True)\ntime.sleep(600)\n"
  )
  ended = run_part(script, tmp_path, code, 1.5, 100)
  assert ended.startswith("stopped after 3 s")
  assert json.loads((tmp_path / "some.json").read_text()) == [1]
  # Its children end too, as soon as the kernel comes to it.
  state = pathlib.Path("/proc", (tmp_path / "some.log").read_text().strip(), "stat")
  for _ in range(100):
    if not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX":
      return
    time.sleep(0.1)
  pytest.fail("a child of the part goes on")


def test_gpu_benchmark_failed_part_reports_the_error(script, tmp_path):
  assert "exit 1" in run_part(script, tmp_path, "raise SystemExit('no GPU')", 9, 100)
  assert run_part(script, tmp_path, "raise SystemExit('no GPU')", 9, 100).endswith("no GPU")
  assert run_part(script, tmp_path, "", 9, 10) == "no time left"


# ---- the tables -----------------------------------------------------------------------------------


PLAN = {"variant": "default", "captions_per_image": 8, "captions": 128, "tokens": 32, "microbatches": 1,
        "memory": {"total": 18 * 2**30}, "date": "2026-11-20", "jax": "0.11.2"}  # fmt: skip


def measured(tmp_path: pathlib.Path) -> pathlib.Path:
  """What a run would write, with round figures."""
  device = {"topology": "h100", "gpu": "NVIDIA H100 80GB HBM3", "date": "2026-11-27", "cores": 16, "memory_gib": 126,
            "python": "3.12.3", "jax": "0.11.2", "torch": "2.11.0", "transformers": "5.17.0", "product_tflops": 800.0,
            "copy_gb_per_second": 3000.0}  # fmt: skip

  def step(k, captions, rate, **more):
    return {"captions_per_image": k, "captions": captions, "step_ms": captions / rate * 1e3, "spread_ms": 0.2,
            "captions_per_second": rate, "peak_bytes": 20 * 2**30, "compile_seconds": 40.0, **more}  # fmt: skip

  ours = {
    "variant": "default",
    "microbatches": 1,
    "memory": {"total": 19 * 2**30},
    "tflops": 400.0,
    "loss": 12.5,
  }
  files = {
    "device": device,
    "training_8": [step(8, 128, 6000.0, **ours, parts_ms={"optimizer": 6.0})],
    "training_1": [{"captions_per_image": 1, "captions": 512, "variant": "default", "error": "RESOURCE_EXHAUSTED"}],
    "ablations": [step(1, 128, 2600.0, **ours),
                  step(1, 128, 2700.0, **ours | {"variant": "plain_attention+whole_loss", "peak_is_own": False})],
    "peer_1": [step(1, 128, 2000.0, way="usual", loss=12.0)],
    "peer_8": [step(8, 128, 5000.0, way="shared by hand", loss=12.0)],
    "decoding": {"captions_per_second": {"xmcap": 900.0, "transformers, best case": 300.0}, "dtype": "bfloat16",
                 "pictures": 32, "same_captions": 0.9},
    "quickstart": {"steps": 400, "gpu": {"loss": 1.25}, "captions": 2304, "same_captions_float32": 1.0},
    "data_wait": [{"model": "bb", "captions_per_image": 1, "waiting_for_data": 0.015, "of_repeated": 0.98}],
  }  # fmt: skip
  for name, document in files.items():
    (tmp_path / f"{name}.json").write_text(json.dumps(document))
  return tmp_path


def test_gpu_benchmark_goals_are_ratios_of_measurements(script, tmp_path, monkeypatch):
  tables, planned = script("tables"), tmp_path / "planned"
  monkeypatch.setattr(script("plans"), "PLANNED", planned)
  planned.mkdir()
  (planned / "h100.json").write_text(json.dumps([PLAN]))
  found = {what: value for what, _, value in tables.goals(tables.collected(measured(tmp_path)))}
  assert found["128 captions, K = 1: xmcap / transformers"] == pytest.approx(1.3)
  assert found["128 captions, K = 8: xmcap / transformers, pictures shared by hand"] == pytest.approx(1.2)
  assert found["128 captions, K = 8: xmcap / transformers, usual way"] == pytest.approx(3.0)
  assert found["memory, K = 8, 128 captions: planned / measured or its inverse"] == pytest.approx(0.9)
  assert found["greedy decoding: xmcap / generate, pictures shared by hand"] == pytest.approx(3.0)
  # It did not fit, or was not measured.
  assert found["512 captions, K = 1: xmcap / transformers"] is None
  assert found["memory, K = 1, 128 captions: planned / measured or its inverse"] is None


def test_gpu_benchmark_run_writes_page_and_calibration(tmp_path, monkeypatch):
  out = measured(tmp_path)
  copy = tmp_path / "checkout" / "benchmarks"
  shutil.copytree(benchmarks.ROOT / "benchmarks", copy)
  (copy / "gpu/planned/h100.json").write_text(json.dumps([PLAN]))
  subprocess.run([sys.executable, copy / "gpu" / "tables.py", out], check=True, stdout=subprocess.DEVNULL)
  kept = json.loads((copy / "gpu/measured/h100.json").read_text())
  assert kept["device"]["product_tflops"] == 800 and kept["plan"][0]["tokens"] == 32
  assert [step["captions"] for step in kept["training"]] == [128, 128, 128]
  monkeypatch.setattr(benchmarks, "RESULTS", copy / "results")
  page = benchmarks.all_tables()
  assert "| 128 captions, K = 1: xmcap / transformers | 1.3 | 1.30 | met |" in page
  assert "| 512 captions, K = 1: xmcap / transformers | 1.3 | - | not measured |" in page
  assert "| xmcap, plain attention, whole loss | 1 | 128 | 47.4 ± 0.1 | 2,700 | 50.0% | - |" in page
  assert "| xmcap | 8 | 128 | 21.3 ± 0.1 | 6,000 | 50.0% | 20.0 | 18.0 | 19.0 | 40 |" in page
  assert "| xmcap | 1 | 512 | RESOURCE_EXHAUSTED |" in page
  assert "gpu NVIDIA H100 80GB HBM3" in page


# ---- turns ----------------------------------------------------------------------------------------


TURN = (
  f"import sys, time; sys.path.insert(0, {str(FOLDER)!r}); import recipe; recipe._MOST_ALONE = 1\n"
  "with recipe.turn(alone={alone}):\n"
  "  print('in', flush=True)\n"
  "  time.sleep({seconds})\n"
)  # fmt: skip


def test_gpu_benchmark_lock_excludes_other_runs(script, tmp_path, monkeypatch):
  recipe = script("recipe")
  monkeypatch.setenv(recipe.TURN, str(tmp_path / "turn"))

  def other(alone):
    command = [sys.executable, "-c", TURN.format(alone=alone, seconds=0)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

  with recipe.turn(alone=False):
    assert other(alone=False).communicate(timeout=120)[0] == "in\n"
    waiting = other(alone=True)
    with pytest.raises(subprocess.TimeoutExpired):
      waiting.communicate(timeout=3)
  assert waiting.communicate(timeout=120)[0] == "in\n"


def test_gpu_benchmark_part_that_hangs_leaves_the_others_time(script, tmp_path, monkeypatch, capsys):
  run, out, packed = script("run"), tmp_path / "out", tmp_path / "packed"
  write = "import pathlib; pathlib.Path(sys.argv[1].removeprefix('--json=')).write_text('[]')"
  parts = {}
  for name, code in (("training_1", TURN.format(alone=True, seconds=600)),
                     ("peer_1", f"{TURN.format(alone=True, seconds=0)}  {write}")):  # fmt: skip
    (tmp_path / f"{name}.py").write_text(code)
    parts[name] = run.Part(60, str(tmp_path / f"{name}.py"), None)
  monkeypatch.setattr(run, "PARTS", parts)
  monkeypatch.setattr(run, "GROUPS", [tuple(parts)])
  monkeypatch.delenv("JAX_PLATFORMS", raising=False)
  monkeypatch.setattr(sys, "argv", ["run.py", str(out), f"--archive={packed}"])
  run.main()
  said = capsys.readouterr().out
  assert f"training_1: exit -{signal.SIGALRM.value} after" in said and "peer_1: exit 0 after" in said
  with tarfile.open(packed / "gpu.tgz") as archive:
    assert {"./peer_1.json", "./machine.txt"} <= set(archive.getnames())


# ---- the rehearsal --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.full
def test_gpu_benchmark_every_part_runs(script, tmp_path):
  pytest.importorskip("torch")
  pytest.importorskip("transformers")
  corpus = small_corpus.write(
    tmp_path / "carried" / "emoji36", "emoji36", train=64, languages=tuple(LANGUAGES)
  )
  (corpus / "test").mkdir()
  shutil.copytree(corpus / "images", corpus / "test" / "images")
  out, packed = tmp_path / "out", tmp_path / "packed"
  command = [sys.executable, FOLDER / "run.py", out, f"--carried={tmp_path / 'carried'}", "--tiny", "--seconds=800",
             f"--archive={packed}"]  # fmt: skip
  environment = {**os.environ, "PYTHONPATH": str(benchmarks.ROOT)}
  said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
  lines = [line.split(": ", 1) for line in said.split("\n\n")[0].splitlines()]
  ended = {name: how for name, *how in lines if name in script("run").PARTS}
  assert {name: how for name, how in ended.items() if not how[0].startswith("exit 0")} == {
    name: ["left out of a rehearsal"] for name in ("peer_8", "peer_128", "decoding_float32")
  }
  profiled, default, variant = (
    json.loads((out / f"{name}.json").read_text())[0] for name in ("training_1", "training_8", "ablations")
  )
  assert profiled["parts_share"] > 0.5 and profiled["parts_ms"]["optimizer"] > 0
  assert variant["loss"] == pytest.approx(default["loss"], rel=1e-3)
  quickstart = json.loads((out / "quickstart.json").read_text())
  assert quickstart["same_captions_float32"] == 1 and quickstart["cpu"]["train/loss"] > 0
  assert "slowdown relative to xmcap" in said and "What was wanted" in said
  for name, file in (("gpu.tgz", "./training_1.json"), ("profiles.tgz.aa", "./training_1_0.xplane.pb")):
    with tarfile.open(packed / name) as archive:
      assert file in archive.getnames()
