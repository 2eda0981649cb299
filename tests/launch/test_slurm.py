"""The SLURM batch script, with substitutes for srun and scontrol."""

import pytest

from tests.launch import stubs
from xmcap.errors import UsageError, XmcapError
from xmcap.launch import slurm

_COMMAND = ["xmcap", "train"]


def _run(place, code: int, restart: int = 2, state: str = "RUNNING", **variables: str):
  """Runs the script with an srun that ends with `code`; returns it and scontrol's requeues."""
  stubs.program(place.bin / "srun", f"#!/bin/bash\nexit {code}\n")
  stubs.recorder(place.bin, "requeue", place.log)
  stubs.program(
    place.bin / "scontrol",
    f'#!/bin/bash\nif [ "$1" = requeue ]; then exec requeue "$2"; fi\necho JobId=7 JobState={state} Reason=None\n',
  )
  done = place.bash(
    slurm.script(slurm.BatchJob("bb", 1, restart=restart), _COMMAND), SLURM_JOB_ID="7", **variables
  )
  return done, place.calls()


@pytest.mark.parametrize("code", [75, 137, 143])
def test_slurm_job_is_requeued_by_exit_code(place, code):
  done, calls = _run(place, code)
  assert calls == [["requeue", "7"]] and b"requeued" in done.stdout and done.stderr == b""


@pytest.mark.parametrize("code", [0, 1, 2])
def test_slurm_job_is_not_requeued_after_a_failure(place, code):
  done, calls = _run(place, code)
  assert done.returncode == code and calls == []


def test_slurm_cancelled_job_is_not_requeued(place):
  done, calls = _run(place, 75, state="CANCELLED")
  assert done.returncode == 75 and calls == []


@pytest.mark.parametrize(("count", "requeued"), [("1", True), ("2", False)])
def test_slurm_restart_count_limits_requeues(place, count, requeued):
  _, calls = _run(place, 75, SLURM_RESTART_COUNT=count)
  assert bool(calls) == requeued


def test_slurm_script_survives_sigterm(place):
  stubs.program(place.bin / "srun", "#!/bin/bash\nkill -TERM $PPID\nexit 75\n")
  stubs.recorder(place.bin, "scontrol", place.log)
  place.bash(slurm.script(slurm.BatchJob("bb", 1), _COMMAND), SLURM_JOB_ID="7")
  assert place.calls()[-1] == ["scontrol", "requeue", "7"]


@pytest.mark.parametrize(
  ("variables", "option"), [({"SLURM_CPUS_PER_TASK": "12"}, ["--cpus-per-task=12"]), ({}, [])]
)
def test_slurm_srun_uses_the_cpus_of_the_job(place, variables, option):
  stubs.recorder(place.bin, "srun", place.log)
  place.bash(slurm.script(slurm.BatchJob("bb", 1), _COMMAND), SLURM_JOB_ID="7", **variables)
  assert place.calls() == [["srun", "--label", "--kill-on-bad-exit=0", "--wait=120", *option, *_COMMAND]]


def test_slurm_has_a_task_per_gpu():
  assert "#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-node=8" in slurm.script(
    slurm.BatchJob("bb", 2, 8), _COMMAND
  )
  text = slurm.script(slurm.BatchJob("bb", 2), _COMMAND)
  assert "#SBATCH --ntasks-per-node=1\n" in text and "gpus" not in text


def test_slurm_run_submits_the_script_to_sbatch(place, monkeypatch):
  stubs.program(place.bin / "sbatch", f"#!/bin/bash\n/bin/cat >{place.log}\n")
  monkeypatch.setenv("PATH", str(place.bin))
  job = slurm.BatchJob("bb", nodes=1)
  slurm.submit(job, _COMMAND)
  assert place.log.read_text() == slurm.script(job, _COMMAND)


def test_slurm_sbatch_failure_is_one_line(place, monkeypatch):
  stubs.program(place.bin / "sbatch", "#!/bin/bash\nexit 1\n")
  monkeypatch.setenv("PATH", str(place.bin))
  with pytest.raises(XmcapError, match="sbatch ended with exit code 1"):
    slurm.submit(slurm.BatchJob("bb", nodes=1), _COMMAND)


def test_slurm_without_sbatch_is_refused(monkeypatch, tmp_path):
  monkeypatch.setenv("PATH", str(tmp_path))
  with pytest.raises(UsageError, match="sbatch: No such file.*--dry_run"):
    slurm.submit(slurm.BatchJob("bb", nodes=1), _COMMAND)


@pytest.mark.parametrize(("action", "program"), [("status", "squeue"), ("stop", "scancel")])
def test_slurm_status_and_stop_call_their_programs(place, monkeypatch, action, program):
  place.record(program)
  monkeypatch.setenv("PATH", str(place.bin))
  monkeypatch.setenv("LOGNAME", "me")
  slurm.control(action, "bb")
  assert place.calls() == [[program, "--user=me", "--name=bb"]]


def test_slurm_status_of_a_user_without_a_name_asks_by_number(place, monkeypatch):
  place.record("squeue")
  monkeypatch.setenv("PATH", str(place.bin))
  for name in ("LOGNAME", "USER", "LNAME", "USERNAME", "HOME"):
    monkeypatch.delenv(name, raising=False)
  monkeypatch.setattr("os.getuid", lambda: 123_456_789)
  slurm.control("status", "bb")
  assert place.calls() == [["squeue", "--user=123456789", "--name=bb"]]


@pytest.mark.parametrize(
  "wrong",
  [
    {"nodes": 0},
    {"gpus_per_node": -1},
    {"partition": "a b"},
    {"time": "1\n#SBATCH --uid=0"},
    {"partition": "-a"},
    {"sbatch": ("--a", "b")},
  ],
)
def test_slurm_refuses_invalid_options(wrong):
  with pytest.raises(UsageError, match=f"--{next(iter(wrong))}="):
    slurm.BatchJob(**{"name": "bb", "nodes": 1, **wrong})
