"""A Google Cloud of one folder: a `gcloud` whose workers are folders, where the commands sent by ssh really run."""

import contextlib
import json
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable, Sequence

from tests.launch import stubs
from xmcap.launch import scripts, tpu_vm
from xmcap.launch.gcloud import TpuVm
from xmcap.launch.package import Package

VM = TpuVm("bb", "my-project", "us-central2-b", "v4-16")

# What the program does. `cloud` holds: state, calls, worker-N/ (their home folders), refuse (verbs that fail now).
_GCLOUD = """#!{python} -SEI
import json, os, pathlib, shutil, subprocess, sys
cloud = pathlib.Path({cloud!r})
words = sys.argv[1:]
if words[0] in ("storage", "secrets"):
  if words[0] == "secrets":
    print("of the manager: " + " ".join(words[3:-1]))
  elif words[1] == "cp":
    target = pathlib.Path({bucket!r}, words[-1].removeprefix("gs://"))
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(words[-2], target)
  sys.exit()
kind, verb, name = words[2:5] if words[3] != "scp" else (words[2], words[3], words[5])
options = dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)
with open(cloud / "calls", "a") as file:
  file.write(json.dumps([kind, verb, options]) + "\\n")
if verb in (cloud / "refuse").read_text().split():
  sys.exit("ERROR: (gcloud) the stub refuses")
state = (cloud / "state").read_text()
workers = sorted(cloud.glob("worker-*"))
if verb == "create":
  for index in range({workers}):
    (cloud / f"worker-{{index}}").mkdir()
  (cloud / "state").write_text("READY")
  (cloud / "kind").write_text(kind)
elif verb == "describe":
  # A node that was created directly has no queued resource; a queued resource has a node.
  if state == "ABSENT" or (kind == "queued-resources" and (cloud / "kind").read_text() != kind):
    sys.exit("ERROR: (gcloud) NOT_FOUND: Resource 'x' was not found\\n- details")
  if options["format"].startswith("value(createTime"):
    print((cloud / "created").read_text())
    sys.exit()
  active = kind == "queued-resources" and state in ("READY", "PREEMPTED")
  print("ACTIVE" if active else state)
elif verb == "delete":
  for worker in workers:
    shutil.rmtree(worker)
  (cloud / "state").write_text("ABSENT")
elif state != "READY":
  sys.exit("ERROR: (gcloud) the TPU is in an unusable state")
elif verb == "scp":
  for worker in workers:
    shutil.copy(words[4], worker / words[5].partition(":")[2])
elif verb == "ssh":
  chosen = workers if options["worker"] == "all" else [workers[int(options["worker"])]]
  environment = dict(os.environ, PATH={path!r} + ":" + os.environ["PATH"])
  codes = [
    subprocess.run(["bash", "-c", options["command"]], env=dict(environment, HOME=str(worker))).returncode
    for worker in chosen
  ]
  sys.exit(next((code for code in codes if code), 0))
"""

# Makes the virtual environment whose xmcap is the test's.
_UV = """#!/bin/bash
case $1 in
  venv) mkdir -p "${{@: -1}}/bin"; cp {xmcap} "${{@: -1}}/bin/xmcap" ;;
  pip)
    echo "$* ${{UV_INDEX:-}}" >>{cloud}/uv
    if [[ $* == *--no-deps* ]]; then
      folder=$(dirname "$(dirname "$5")")/lib/python3.12/site-packages/xmcap/launch_scripts
      mkdir -p "$folder" && cp {lock} "$folder"
    else
      echo "${{@: -2:1}}" >>{cloud}/packages
    fi
    ;;
esac
"""


class Cloud:
  """The folder and what a test does to it."""

  def __init__(self, folder: pathlib.Path, workers: int, body: str):
    """Args:
    folder: an empty folder.
    workers: how many a slice has.
    body: Python: what xmcap does on a worker; it knows `bucket`, `worker` (its number) and `attempt` (0, 1, ...).
    """
    self.workers = workers
    self.folder = folder / "cloud"
    self.bin = folder / "bin"
    self.bucket = folder / "bucket"
    for path in (self.folder, self.bin, self.bucket):
      path.mkdir()
    self.set("state", "ABSENT")
    self.set("refuse", "")
    self.set("kind", "tpu-vm")
    values = {"python": sys.executable, "cloud": str(self.folder), "workers": workers}
    values["lock"] = scripts.folder() / "requirements.lock"
    path = folder / "path"
    xmcap = stubs.program(path / "xmcap", _XMCAP.format(bucket=str(self.bucket), **values) + body)
    stubs.program(path / "uv", _UV.format(xmcap=xmcap, **values))
    stubs.program(self.bin / "gcloud", _GCLOUD.format(path=str(path), bucket=str(self.bucket), **values))

  def run(
    self,
    vm: TpuVm = VM,
    package: str | Package = "xmcap==0.1.0",
    command: Sequence[str] = ("train",),
    events: Sequence[Callable[["Cloud"], None]] = (),
    logs: str = "",
    clock: Callable[[], float] = lambda: 0.0,
    restart: int = 3,
    **following,
  ) -> None:
    """Runs `xmcap COMMAND` to its end; `events` are functions, one before each look at the run."""
    waiting = list(events)

    def sleep(_):
      time.sleep(0.05)
      if waiting:
        waiting.pop(0)(self)

    installed = Package(package) if isinstance(package, str) else package
    options = tpu_vm.Following(wait=0.15, restart=restart, **following)
    tpu_vm.TpuVmRun(vm, installed, options, ["xmcap", *command], sleep, logs, clock).run()

  def set(self, name: str, text: str) -> None:
    part = self.folder / f"{name}.part"
    part.write_text(text)
    part.rename(self.folder / name)

  def calls(self, *verbs: str) -> list[list]:
    lines = (self.folder / "calls").read_text().splitlines()
    return [call for call in map(json.loads, lines) if not verbs or call[1] in verbs]

  def attempts(self, worker: int = 0) -> int:
    return len(list(self.bucket.glob(f"{worker}-*")))

  def wait_for_start(self) -> None:
    """Waits until xmcap has begun on all workers."""
    end = time.monotonic() + 20
    while not all(self.attempts(worker) for worker in range(self.workers)):
      assert time.monotonic() < end, "xmcap did not start"
      time.sleep(0.02)

  def preempt(self) -> None:
    """Takes the slice away, with all that runs on it."""
    self.wait_for_start()
    self.set("state", "PREEMPTED")
    self.kill()

  def kill(self, *workers: int) -> None:
    """Kills what runs on the workers (all: none named), and its keeper: a power failure."""
    for file in self.folder.glob("worker-*/xmcap/*/process"):
      if not workers or int(file.parts[-4].split("-")[1]) in workers:
        with contextlib.suppress(ProcessLookupError):
          os.killpg(int(file.read_text().split()[1]), signal.SIGKILL)


_XMCAP = """#!{python} -SEI
import os, pathlib, signal, sys, time
bucket = pathlib.Path({bucket!r})
worker = int(os.environ["HOME"].rsplit("-", 1)[1])
attempt = len(list(bucket.glob(f"{{worker}}-*")))
(bucket / f"{{worker}}-{{attempt}}").touch()
print(f"worker {{worker}} attempt {{attempt}} {{sys.argv[1:]}}", flush=True)
"""
