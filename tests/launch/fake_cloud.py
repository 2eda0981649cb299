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
from xmcap.launch import runner, scripts, tpu_vm
from xmcap.launch.gcloud import TpuVm
from xmcap.launch.package import Package

VM = TpuVm("bb", "my-project", "us-central2-b", "v4-16")

_SCRIPTS = {
  path.stem.removeprefix("tpu_vm_"): scripts.text(path.name) for path in scripts.folder().glob("tpu_vm_*.sh")
}

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

# The metadata server and the TPU API, as the workers see them.
_CURL = """#!/bin/bash
case "$*" in
  *metadata.google.internal*) echo '{{"access_token": "secret", "expires_in": 3599}}' ;;
  *"--request DELETE"*)
    read -r header
    [ "$header" = "Authorization: Bearer secret" ] || exit 1
    if [ -e {cloud}/forbidden ]; then printf 403; exit; fi
    if [[ ${{@: -1}} =~ /xmcap-[0-9]+$ ]]; then printf 404; exit; fi
    echo "${{@: -1}}" >>{cloud}/deleted_itself
    printf 200
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

  `cloud` holds: state, kind, calls, worker-N/ (their home folders); refuse, hang and gone name the verbs and scripts of
  workers that now fail, do not end or find no gcloud. Time passes where the launcher sleeps or waits for its gcloud.

  Attributes:
    now, deleted_at: the simulated time, and that of the last deletion (0: none), in seconds since 1970.
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
    for fault in ("refuse", "hang", "gone"):
      self.set(fault, "")
    self.now, self.deleted_at = time.time(), 0.0
    self.set("kind", "tpu-vm")
    values = {"python": sys.executable, "cloud": str(self.folder), "workers": workers}
    values |= {"lock": scripts.folder() / "requirements.lock", "pinned": scripts.folder() / "pinned.py"}
    self.path = path = folder / "path"
    xmcap = stubs.program(path / "xmcap", _XMCAP.format(bucket=str(self.bucket), **values) + body)
    stubs.program(path / "uv", _UV.format(xmcap=xmcap, **values))
    stubs.program(path / "curl", _CURL.format(cloud=shlex.quote(str(self.folder))))
    stubs.program(path / "gcloud", _GCLOUD.format(bucket=shlex.quote(str(self.bucket))))

  def gcloud(
    self, argv: Sequence[str], limit: float | None, stdin: bytes = b"", captured: bool = False
  ) -> subprocess.CompletedProcess[bytes]:
    """Stands for `runner.execute`."""
    assert argv[0] == "gcloud", argv
    try:
      code, out, error = self._answer(argv[1:], captured)
    except _Refused as refusal:
      code, out, error = 1, b"", f"{refusal}\n".encode()
    except TimeoutError:
      assert limit is not None, f"would wait for ever: {argv[:6]}"
      self.now += limit
      code, out, error = 124, b"", f"ERROR: no end after {limit:.0f} seconds\n".encode()
    if not captured:
      sys.stdout.write(out.decode())
      sys.stderr.write(error.decode())
    return subprocess.CompletedProcess(argv, code, out, error)

  def _answer(self, words: Sequence[str], captured: bool) -> tuple[int, bytes, bytes]:
    kind, verb = words[2:4]
    options = dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)
    name = verb
    if verb == "ssh":
      name = next(name for name, text in _SCRIPTS.items() if text in options["command"])
    missing = verb == "delete" and not self._has(kind)
    if not missing:
      with open(self.folder / "calls", "a") as file:
        file.write(json.dumps([kind, verb, options]) + "\n")
    if self.is_now("gone", name):
      raise runner.no_program("gcloud", FileNotFoundError(2, "No such file or directory"))
    if self.is_now("hang", name):
      if verb == "create":  # it works, only gcloud does not end
        self._create(kind)
      raise TimeoutError
    if self.is_now("refuse", name):
      raise _Refused("ERROR: (gcloud) the stub refuses")
    if missing:
      raise _Refused("ERROR: (gcloud) NOT_FOUND: Resource 'x' was not found\n- details")
    state = (self.folder / "state").read_text()
    workers = sorted(self.folder.glob("worker-*"))
    if verb == "describe":
      if not self._has(kind):
        raise _Refused("ERROR: (gcloud) NOT_FOUND: Resource 'x' was not found\n- details")
      if options["format"].startswith("value(createTime"):
        return 0, (self.folder / "created").read_bytes(), b""
      active = kind == "queued-resources" and state in ("READY", "PREEMPTED")
      return 0, b"ACTIVE" if active else state.encode(), b""
    if verb == "create":
      self._create(kind)
    elif verb == "delete":
      self._kill_timers()
      for worker in workers:
        shutil.rmtree(worker)
      self.set("state", "ABSENT")
      self.deleted_at = self.now
    elif state != "READY":
      raise _Refused("ERROR: (gcloud) the TPU is in an unusable state")
    elif verb == "scp":
      for worker in workers:
        shutil.copy(words[4], worker / words[5].partition(":")[2])
    elif verb == "ssh":
      chosen = workers if options["worker"] == "all" else [workers[int(options["worker"])]]
      return self._ssh(chosen, options["command"], captured)
    return 0, b"", b""

  def is_now(self, fault: str, name: str) -> bool:
    return name in (self.folder / fault).read_text().split()

  def _has(self, kind: str) -> bool:
    """A node that was created directly has no queued resource; a queued resource has a node."""
    other = kind == "queued-resources" and (self.folder / "kind").read_text() != kind
    return (self.folder / "state").read_text() != "ABSENT" and not other

  def _create(self, kind: str) -> None:
    for index in range(self.workers):
      (self.folder / f"worker-{index}").mkdir()
    self.set("state", "READY")
    self.set("kind", kind)

  def _ssh(self, workers: Sequence[pathlib.Path], command: str, captured: bool) -> tuple[int, bytes, bytes]:
    environment = {**os.environ, "PATH": f"{self.path}:{os.environ['PATH']}"}
    answers = [
      subprocess.run(
        ["bash", "-c", command], env={**environment, "HOME": str(worker)}, capture_output=captured
      )
      for worker in workers
    ]
    code = next((answer.returncode for answer in answers if answer.returncode), 0)
    if not captured:
      return code, b"", b""
    return code, b"".join(answer.stdout for answer in answers), b"".join(answer.stderr for answer in answers)

  def run(
    self,
    vm: TpuVm = VM,
    package: str | Package = "xmcap==0.1.0",
    command: Sequence[str] = ("train",),
    events: Sequence[Callable[["Cloud"], None]] = (),
    logs: str = "",
    restart: int = 3,
    wait: float = 0.15,
    pace: float = 0.1,
    **following,
  ) -> None:
    """Runs `xmcap COMMAND` to its end.

    Args:
      vm, package, command, logs, restart, wait, following: as for `TpuVmRun`.
      events: functions, one before each look at the run.
      pace: seconds that a worker has between two looks.
    """
    waiting = list(events)

    def sleep(seconds):
      self.now += seconds
      time.sleep(pace)
      if waiting:
        waiting.pop(0)(self)

    installed = Package(package) if isinstance(package, str) else package
    options = tpu_vm.Following(wait=wait, restart=restart, **following)
    tpu_vm.TpuVmRun(
      vm, installed, options, ["xmcap", *command], sleep, logs, lambda: self.now, price=3.22
    ).run()

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
    self._kill_timers()
    for file in self.folder.glob("worker-*/xmcap/*/process"):
      if not workers or int(file.parts[-4].split("-")[1]) in workers:
        with contextlib.suppress(ProcessLookupError):
          os.killpg(int(file.read_text().split()[1]), signal.SIGKILL)

  def _kill_timers(self) -> None:
    for file in self.folder.glob("worker-*/xmcap/*/timer"):
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
