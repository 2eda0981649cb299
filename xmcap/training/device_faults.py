"""What a run does when a device fails: it asks for another start, but not twice at the same step."""

import datetime
import json
import os
import socket
from typing import Any

import jax
from absl import logging

from xmcap.errors import RestartError, XmcapError, one_line
from xmcap.files.bucket_paths import epath
from xmcap.training.checkpoints import small_json
from xmcap.training.hosts import devices
from xmcap.training.hosts import join as hosts
from xmcap.training.metrics import TrainingProgress

FILE = "device-failure.json"
"""In a run's folder: `step`, `host`, `time` and `error` of the last failure, until the run gets past its step."""


class DeviceFaults:
  """As a context of the training loop, turns errors of a device into errors for the user.

  They are a RestartError, but an XmcapError in the first step of a program, whose cause may be the program, and at the
  step at which the last start failed too. All processes must make this object, before the first step: process 0 reads
  the file for all, since the others may be the first to write it in this start.
  """

  def __init__(self, model_dir: str | os.PathLike, progress: TrainingProgress):
    self._file = epath.Path(model_dir) / FILE
    self._progress = progress
    self._first = progress.done
    mine = json.dumps(self._read()) if jax.process_index() == 0 else ""
    self._before: dict[str, Any] = json.loads(hosts.agree("the last failure of a device", mine)[0])

  def __enter__(self) -> "DeviceFaults":
    return self

  def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
    if isinstance(error, Exception) and (fault := devices.fault(error)):
      raise self._failure(fault) from error

  def check(self) -> None:
    """Forgets the last failure once its step is done."""
    if self._before and self._progress.done >= self._before["step"]:
      self.forget()

  def forget(self) -> None:
    """Removes the file, unless another host has just written it."""
    if self._before and jax.process_index() == 0 and self._read() == self._before:
      try:
        self._file.unlink(missing_ok=True)
      except Exception as error:
        logging.warning("%s: not removed (%s)", self._file, one_line(error))
    self._before = {}

  def _failure(self, fault: str) -> XmcapError:
    step, has_run = self._progress.undone()
    now = f"a device of {hosts.here()} failed: {fault}"
    if not has_run:
      return XmcapError(
        f"step {step}: {now}: no restart, since it was the program's first step in this process: try another machine"
        " or version of jax"
      )
    before, self._before = self._before, {}
    self._write({"step": step, "host": hosts.here(), "error": fault})
    if before.get("step") != step:
      return RestartError(f"step {step}: {now}: start the run again to resume from its newest checkpoint")
    return XmcapError(
      f"step {step}: {now}. The start before ended at this step too, at {before['time']} on {before['host']}:"
      f" {before['error']}. Tried: a restart from step {self._first}. Try another machine; if it fails there too, the"
      " program and not the device is the cause: another version of jax"
    )

  def _read(self) -> dict[str, Any]:
    try:
      record = small_json.read(self._file) if self._file.exists() else {}
      if record and not (type(record["step"]) is int and {"host", "time", "error"} <= record.keys()):
        raise ValueError(f"{self._file}: not what a run writes")
    except Exception as error:  # of a bucket, too: it only counts failures
      logging.warning("%s: not used (%s)", self._file, one_line(error))
      return {}
    return record

  def _write(self, record: dict[str, Any]) -> None:
    now = datetime.datetime.now(datetime.UTC).isoformat(" ", "seconds")
    # Under a name of its own: several hosts may fail at once, and one of their records remains, whole.
    part = self._file.parent / f"{FILE}.{socket.gethostname()}-{os.getpid()}.part"
    try:
      part.write_text(json.dumps({**record, "time": now}))
      part.replace(self._file)
    except Exception as error:
      logging.warning("%s: not written (%s)", self._file, one_line(error))
