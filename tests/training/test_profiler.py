import gzip
import json

import jax
import pytest

from tests.make import small_corpus
from tests.training.test_loop import assert_same, run
from tests.training.test_processes import launched
from tests.training.toy import ToyStream
from xmcap.errors import UsageError
from xmcap.training.profiler import Profiler


def traced(folder):
  return sorted(path.name for path in (folder / "profile/plugins/profile").iterdir())


def steps_in(path):
  """Numbers of the steps whose annotations are in a trace for Perfetto."""
  trace = json.loads(gzip.decompress(path.read_bytes()))
  assert set(trace) >= {"traceEvents"} and "metadata" not in trace
  return sorted(
    int(event["args"]["step_num"])
    for event in trace["traceEvents"]
    if event.get("name") == "train" and "step_num" in event.get("args", {})
  )


def test_profiler_traces_the_chosen_steps(tmp_path):
  profiled, lines = run(tmp_path, 8, profiler=Profiler(steps=(4, 6)))
  assert traced(tmp_path) == ["step_000004"]
  folder = tmp_path / "profile/plugins/profile/step_000004"
  assert sorted(path.name for path in folder.iterdir()) == ["process_0.trace.json.gz", "process_0.xplane.pb"]
  assert steps_in(folder / "process_0.trace.json.gz") == [4, 5, 6]
  planes = list(jax.profiler.ProfileData.from_file(str(folder / "process_0.xplane.pb")).planes)
  assert any(any(line.events for line in plane.lines) for plane in planes)
  assert any(line.startswith("trace from step 4 on in") for line in lines)
  assert_same(profiled.state, run(tmp_path / "plain", 8)[0].state)


def test_the_first_steps_can_be_traced(tmp_path):
  run(tmp_path, 3, profiler=Profiler(steps=(1, 9)))
  assert steps_in(tmp_path / "profile/plugins/profile/step_000001/process_0.trace.json.gz") == [1, 2, 3]


def test_profile_now_file_starts_a_trace(tmp_path):
  def ask(step):
    if step == 5:
      (tmp_path / "profile.now").touch()

  run(tmp_path, stream=ToyStream(on_batch=ask), log_every=4, profiler=Profiler(num_steps=2))
  (name,) = traced(tmp_path)
  first = int(name.removeprefix("step_"))
  assert first % 4 == 1 and first > 5  # right after a report
  path = tmp_path / "profile/plugins/profile" / name / "process_0.trace.json.gz"
  assert steps_in(path) == [first, first + 1]
  assert not (tmp_path / "profile.now").exists()


def test_unwritable_trace_does_not_end_the_run(tmp_path):
  (tmp_path / "profile").write_text("a file where the folder should be")
  result, lines = run(tmp_path, 5, profiler=Profiler(steps=(4, 6)))
  assert result.finished and any("the trace could not be written" in line for line in lines)


def test_profiler_skips_a_trace_during_another(tmp_path):
  jax.profiler.start_trace(str(tmp_path / "own"))
  try:
    result, lines = run(tmp_path / "run", 5, profiler=Profiler(steps=(4, 6)))
  finally:
    jax.profiler.stop_trace()
  assert result.finished and any(line.startswith("no trace from step 4: ") for line in lines)


@pytest.mark.parametrize("steps", [(5,), (6, 5), (0, 3), (1, 2, 3)])
def test_profiler_refuses_steps_that_are_no_range(steps):
  with pytest.raises(UsageError, match=r"such as \(100, 105\)"):
    Profiler(steps=steps)


@pytest.mark.full
@pytest.mark.slow
def test_profiler_traces_the_same_steps_in_all_processes(tmp_path):
  corpus = small_corpus.write(tmp_path / "corpus")
  (tmp_path / "run").mkdir()
  (tmp_path / "run/profile.now").touch()
  flags = (
    "--gin.TOTAL_STEPS=5",
    "--gin.hooks.log_every=2",
    "--gin.Profiler.num_steps=2",
    "--gin.Partitioning.data=8",
  )
  process = launched(corpus, tmp_path / "run", 2, *flags)
  output, _ = process.communicate(timeout=300)
  assert process.returncode == 0, output
  (name,) = traced(tmp_path / "run")
  folder = tmp_path / "run/profile/plugins/profile" / name
  assert (
    sorted(path.name.partition(".")[0] for path in folder.iterdir()) == ["process_0"] * 2 + ["process_1"] * 2
  )
  for number in range(2):
    assert steps_in(folder / f"process_{number}.trace.json.gz") == [3, 4]
