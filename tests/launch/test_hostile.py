"""Shell injection in `xmcap launch`: hostile arguments arrive unchanged when bash runs the printed text."""

import contextlib
import io
import pathlib
import re
import subprocess

import pytest
import yaml

from tests.launch import stubs
from tests.launch.stubs import HOSTILE
from tests.make.command import xmcap
from xmcap import cli
from xmcap.launch import slurm, tpu_vm, xpk
from xmcap.launch.gcloud import TpuVm

_TRAIN = ["train", *(f"--gin.NAME={text}" for text in HOSTILE), *HOSTILE]
_PLACE = ["--project=my-project", "--zone=us-central2-b"]
_PACKAGE = "git+https://example.com/'$(touch pwned)'; touch pwned"


def _dry_run(*arguments: str) -> str:
  """Returns what the command prints, unpaired surrogates and all."""
  raw = io.BytesIO()
  text = io.TextIOWrapper(raw, encoding="utf-8", errors="strict")
  with contextlib.redirect_stdout(text):
    assert cli.main(["launch", *arguments]) == 0
    text.flush()
  return raw.getvalue().decode("utf-8")


def _xmcap_calls(place) -> list[list[str]]:
  return [call[1:] for call in place.calls() if call[0] == "xmcap"]


def _as_worker(place, call: list[str]) -> None:
  """Does what the login shell of a worker does with the --command of a recorded gcloud ssh."""
  (command,) = [text.removeprefix("--command=") for text in call if text.startswith("--command=")]
  said = place.bash(command, HOME=str(place.work)).stderr.splitlines()
  assert [line for line in said if b"no requirements.lock" not in line] == []  # uv only records


def test_tpu_vm_quotes_hostile_arguments(place):
  place.record("gcloud", "xmcap", "uv", "python3")
  files = "gs://my-bucket/a b'; touch pwned; $(touch pwned)`touch pwned`\"é"
  text = _dry_run(
    *["tpu-vm", "--dry_run", "--unchecked", "--name=bb", *_PLACE, "--accelerator_type=v4-128"],
    *[f"--install={_PACKAGE}", f"--files={files}"],
    *[f"--env=NAME_{index}={value}" for index, value in enumerate(HOSTILE)],
    *["--", *_TRAIN],
  )
  assert place.bash(text).returncode == 0
  _, _, install, copy, start, status, logs = place.calls()
  run = tpu_vm.TpuVmRun(
    TpuVm("bb", "my-project", "us-central2-b", "v4-128"),
    tpu_vm.Package(_PACKAGE),
    tpu_vm.Following(files=files),
    ["env", *(f"NAME_{index}={value}" for index, value in enumerate(HOSTILE)), "xmcap", *_TRAIN],
  )
  # The dry run is what would be run, argument by argument.
  assert [install, copy, start] == [argv for _, argv in run.preparation()]
  (place.work / "xmcap/bb/venv/bin").mkdir(parents=True)
  for call in (install, copy, start):
    _as_worker(place, call)
  subprocess.run(
    ["bash", "-c", "until [ -e exit_code ]; do sleep 0.02; done"],
    cwd=place.work / "xmcap/bb",
    timeout=120,
    check=True,
  )
  assert _xmcap_calls(place) == [_TRAIN]
  assert [call[-2] for call in place.calls() if call[:3] == ["uv", "pip", "install"]] == [
    "--no-deps",
    _PACKAGE,
  ]
  assert [call[-2] for call in place.calls() if call[:2] == ["gcloud", "storage"]] == [files]
  for call in (status, logs):
    _as_worker(place, call)
  assert {path.name for path in place.work.iterdir()} == {"xmcap"}


def test_slurm_quotes_hostile_arguments(place):
  place.record("xmcap", "scontrol")
  stubs.program(place.bin / "srun", '#!/bin/bash\nwhile [[ $1 == --* ]]; do shift; done\nexec "$@"\n')
  stubs.program(place.bin / "sbatch", "#!/bin/bash\nexec bash\n")
  text = _dry_run("slurm", "--dry_run", "--unchecked", "--name=bb", f"--env=A={HOSTILE[0]}", "--", *_TRAIN)
  done = place.bash(text, SLURM_JOB_ID="7")
  assert (done.returncode, done.stderr) == (0, b"")
  assert _xmcap_calls(place) == [_TRAIN]
  assert not list(place.work.iterdir())


def test_slurm_directives_end_before_the_command():
  lines = slurm.script(slurm.BatchJob("bb", nodes=1), _TRAIN).splitlines()
  first = next(index for index, line in enumerate(lines[1:], 1) if line and not line.startswith("#"))
  assert not [line for line in lines[first:] if line.startswith("#SBATCH")]


# The container of XPK 1.x (src/xpk/core/docker_container.py), in so far as the command passes through it.
_CONTAINER = """
command:
- bash
- -c
- |
  echo XPK Start: $(date);
  ({command}) & PID=$!;
  wait $PID;
  EXIT_CODE=$?;
  exit $EXIT_CODE
"""


def _kubernetes(text: str, variables: dict[str, str]) -> str:
  """Returns a container's command with $(NAME) expanded and $$ halved, as Kubernetes does."""
  return re.sub(
    r"\$\$|\$\(([^)]*)\)", lambda found: "$" if found[1] is None else variables.get(found[1], found[0]), text
  )


def test_xpk_quotes_hostile_arguments(place):
  place.record("xpk", "xmcap")
  text = _dry_run(
    *[
      "xpk",
      "--dry_run",
      "--unchecked",
      "--name=bb",
      *_PLACE,
      "--cluster=pod",
      "--tpu_type=v4-128",
      "--docker_image=gcr.io/a/b",
    ],
    *[f"--env=A={HOSTILE[0]}", "--", *_TRAIN],
  )
  assert place.bash(text).returncode == 0
  (call,) = place.calls()
  (command,) = [word.removeprefix("--command=") for word in call if word.startswith("--command=")]
  container = yaml.safe_load(_CONTAINER.format(command=command))["command"]
  assert len(container) == 3
  script = _kubernetes(container[2], {"HOME": "; touch pwned", "A": "`touch pwned`"})
  done = place.bash(script)
  assert (done.returncode, done.stderr) == (0, b"")
  assert _xmcap_calls(place) == [_TRAIN]
  assert not list(place.work.iterdir())


def test_xpk_runs_the_command_of_its_dry_run(place, monkeypatch):
  place.record("xpk")
  monkeypatch.setenv("PATH", str(place.bin))
  workload = xpk.Workload(
    "bb", "pod", "my-project", "us-central2-b", tpu_type="v4-128", docker_image="gcr.io/a/b"
  )
  xpk.run("run", workload, ["xmcap", *_TRAIN])
  assert place.calls() == [workload.create(["xmcap", *_TRAIN])]


@pytest.mark.parametrize("action", ["status", "delete"])
def test_xpk_status_and_delete_run(action, place, monkeypatch):
  place.record("xpk")
  monkeypatch.setenv("PATH", str(place.bin))
  xpk.run(action, xpk.Workload("bb", "pod", "my-project", "us-central2-b"))
  ((_, kind, verb, *options),) = place.calls()
  assert (kind, verb) == ("workload", {"status": "list", "delete": "delete"}[action])
  assert options[-1] == {"status": "--filter-by-job=bb", "delete": "--workload=bb"}[action]


@pytest.mark.parametrize("option", ["--name", "--project", "--zone", "--accelerator_type", "--gcloud_create"])
@pytest.mark.parametrize("text", ["; touch pwned", "a\nb"])
def test_launch_refuses_hostile_names(option, text):
  arguments = {
    "--name": "bb",
    "--project": "my-project",
    "--zone": "us-central2-b",
    "--accelerator_type": "v4-128",
    "--install": "xmcap",
    option: text,
  }
  words = [f"{name}={value}" for name, value in arguments.items()]
  refused = xmcap("launch", "tpu-vm", "--dry_run", *words, "--", "train").refused(option)
  assert refused.out == "" and refused.err.count("\n") == 1


@pytest.mark.parametrize("name", ["a b.whl", "a;touch pwned.whl", "$(touch pwned).whl", "-a.whl", "a:b.whl"])
def test_launch_refuses_a_wheel_with_a_hostile_name(name, tmp_path):
  (tmp_path / name).touch()
  with pytest.raises(tpu_vm.UsageError, match="gcloud cannot copy"):
    tpu_vm.Package(str(tmp_path / name))


@pytest.mark.parametrize("spec", ["", "-r/etc/passwd", "--index-url=http://example.com", "a\nb"])
def test_launch_install_refuses_package_specs_that_are_options(spec):
  with pytest.raises(tpu_vm.UsageError, match="--install"):
    tpu_vm.Package(spec)


def test_only_the_slurm_script_is_a_template():
  folder = pathlib.Path(tpu_vm.__file__).parents[2] / "launch"
  assert [file.name for file in folder.glob("*") if "%%{" in file.read_text(encoding="utf-8")] == ["slurm.sh"]
