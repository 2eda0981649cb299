"""A Google Cloud of one folder: its workers are folders, where the commands that gcloud sends by ssh really run.

The launcher's gcloud is a function here; tests/launch/test_hostile.py has a program, which records its arguments.
"""

import contextlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from tests.launch import stubs
from xmcap.launch import scripts, tpu_vm
from xmcap.launch.gcloud import TpuVm
from xmcap.launch.package import Package

VM = TpuVm("bb", "my-project", "us-central2-b", "v4-16")

# The gcloud of the workers, which reads secrets and copies logs to buckets.
_GCLOUD = """#!/bin/bash
case "$1 $2" in
  "secrets versions") shift 3; echo "of the manager: ${{*:1:$#-1}}" ;;
  "storage cp")
    target={bucket}/${{@: -1}}
    target=${{target/gs:\\/\\//}}
    mkdir -p "$(dirname "$target")"
    cp "${{@: -2:1}}" "$target"
    ;;
esac
"""

# Makes the virtual environment whose xmcap is the test's.
_UV = """#!/bin/bash
case $1 in
  --version) echo "uv 0.13.9 (of the test)" ;;
  venv)
    mkdir -p "${{@: -1}}/bin"; cp {xmcap} "${{@: -1}}/bin/xmcap"
    # The xmcap of the test is what it finds installed.
    printf "#!/bin/bash\nexec {python} \"\$@\"\n" >"${{@: -1}}/bin/python"
    chmod +x "${{@: -1}}/bin/python"
    ;;
  pip)
    echo "$* ${{UV_INDEX:-}}" >>{cloud}/uv
    if [[ $* == *--no-deps* ]]; then
      folder=$(dirname "$(dirname "$5")")/lib/python3.12/site-packages/xmcap/launch_scripts
      mkdir -p "$folder" && cp {lock} {pinned} "$folder"
      echo "${{@: -1}}" >>{cloud}/packages
    else
      cat "${{@: -1}}" >>{cloud}/requirements
    fi
    ;;
esac
"""


class _Refused(Exception):
  """What gcloud says on standard error before it ends with 1."""


class Cloud:
  """The folder and what a test does to it.

  `cloud` holds: state, kind, calls, worker-N/ (their home folders), refuse (verbs that fail now).
  """

  def __init__(self, folder: pathlib.Path, workers: int, body: str):
    """Args:
    folder: an empty folder.
    workers: how many a slice has.
    body: Python: what xmcap does on a worker; it knows `bucket`, `worker` (its number) and `attempt` (0, 1, ...).
    """
    self.workers = workers
    self.folder = folder / "cloud"
    self.bucket = folder / "bucket"
    for path in (self.folder, self.bucket):
      path.mkdir()
    self.set("state", "ABSENT")
    self.set("refuse", "")
    self.set("kind", "tpu-vm")
    values = {"python": sys.executable, "cloud": str(self.folder), "workers": workers}
    values |= {"lock": scripts.folder() / "requirements.lock", "pinned": scripts.folder() / "pinned.py"}
    self._path = path = folder / "path"
    xmcap = stubs.program(path / "xmcap", _XMCAP.format(bucket=str(self.bucket), **values) + body)
    stubs.program(path / "uv", _UV.format(xmcap=xmcap, **values))
    stubs.program(path / "gcloud", _GCLOUD.format(bucket=shlex.quote(str(self.bucket))))

  def gcloud(
    self, argv: Sequence[str], capture_output: bool = False, **_
  ) -> subprocess.CompletedProcess[bytes]:
    """Stands for the launcher's `subprocess.run`."""
    assert argv[0] == "gcloud", argv
    try:
      code, out = self._answer(argv[1:], capture_output)
      error = b""
    except _Refused as refusal:
      code, out, error = 1, b"", f"{refusal}\n".encode()
    if not capture_output:
      sys.stdout.write(out.decode())
      sys.stderr.write(error.decode())
    return subprocess.CompletedProcess(argv, code, out, error)

  def _answer(self, words: Sequence[str], captured: bool) -> tuple[int, bytes]:
    kind, verb = words[2:4]
    options = dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)
    with open(self.folder / "calls", "a") as file:
      file.write(json.dumps([kind, verb, options]) + "\n")
    if verb in (self.folder / "refuse").read_text().split():
      raise _Refused("ERROR: (gcloud) the stub refuses")
    state = (self.folder / "state").read_text()
    workers = sorted(self.folder.glob("worker-*"))
    if verb == "describe":
      # A node that was created directly has no queued resource; a queued resource has a node.
      other = kind == "queued-resources" and (self.folder / "kind").read_text() != kind
      if state == "ABSENT" or other:
        raise _Refused("ERROR: (gcloud) NOT_FOUND: Resource 'x' was not found\n- details")
      if options["format"].startswith("value(createTime"):
        return 0, (self.folder / "created").read_bytes()
      active = kind == "queued-resources" and state in ("READY", "PREEMPTED")
      return 0, b"ACTIVE" if active else state.encode()
    if verb == "create":
      for index in range(self.workers):
        (self.folder / f"worker-{index}").mkdir()
      self.set("state", "READY")
      self.set("kind", kind)
    elif verb == "delete":
      for worker in workers:
        shutil.rmtree(worker)
      self.set("state", "ABSENT")
    elif state != "READY":
      raise _Refused("ERROR: (gcloud) the TPU is in an unusable state")
    elif verb == "scp":
      for worker in workers:
        shutil.copy(words[4], worker / words[5].partition(":")[2])
    elif verb == "ssh":
      chosen = workers if options["worker"] == "all" else [workers[int(options["worker"])]]
      return self._ssh(chosen, options["command"], captured)
    return 0, b""

  def _ssh(self, workers: Sequence[pathlib.Path], command: str, captured: bool) -> tuple[int, bytes]:
    environment = {**os.environ, "PATH": f"{self._path}:{os.environ['PATH']}"}
    answers = [
      subprocess.run(
        ["bash", "-c", command], env={**environment, "HOME": str(worker)}, capture_output=captured
      )
      for worker in workers
    ]
    code = next((answer.returncode for answer in answers if answer.returncode), 0)
    return code, b"".join(answer.stdout for answer in answers) if captured else b""

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
      time.sleep(0.1)
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
    end = time.monotonic() + 120
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
