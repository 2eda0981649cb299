"""Signs of life between the processes of a run.

A thread of each process says every few seconds that it is alive and where it is, through jax's coordination service,
also while the main thread computes, waits or hangs. It ends the process when another one has failed, is lost, or hangs.
"""

import contextlib
import dataclasses
import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from xmcap.errors import RestartError
from xmcap.training.hosts import watch as watch_lib

BEAT = watch_lib.BEAT
# Seconds until all others have read the last words of a process, and have ended. Process 0 holds the service that they
# read from, so it ends later.
_READ, _READ_BY_ALL = BEAT + 1, BEAT + 3
# When a process that hangs ends, the collectives of the others break; so each waits until all know the cause.
_HUNG, _HUNG_PROCESS_0 = _READ, _READ + BEAT + 2


class Heartbeat:
  """The signs of life of this process, and its watch over the others, until `stop`.

  Each process says one of {"alive": number, "state": State}, {"failed": line, "code": exit code}, {"hangs": line}.

  Args:
    client: of jax's coordination service.
    index, count: of this process, and of the processes.
    lost: seconds without a sign of life until a process counts as lost.
    watch: over this process; None: it may hang unnoticed.
    describe: names processes by their numbers.
  """

  def __init__(
    self, client: Any, index: int, count: int, lost: float, watch: watch_lib.Watch | None,
    describe: Callable[[Sequence[int]], str],
  ):  # fmt: skip
    self._client = client
    self._index = index
    self._count = count
    self._lost = lost
    self._watch = watch
    self._describe = describe
    self._stopped = threading.Event()
    self._ending = threading.Event()
    self._thread = threading.Thread(target=self._work, name="heartbeat", daemon=True)
    self._thread.start()

  def stop(self) -> None:
    """Ends the thread."""
    self._stopped.set()
    self._thread.join()

  def await_end(self) -> None:
    """Never returns if this process is being ended: an error of the main thread then has the same cause."""
    if self._ending.is_set():
      self._thread.join()

  def tell_failure(self, code: int, line: str) -> None:
    """Ends the other processes with the same exit code and this line."""
    self._stopped.set()
    with contextlib.suppress(Exception):
      self._say({"failed": line, "code": code})
      time.sleep(_READ if self._index else _READ_BY_ALL)

  def _say(self, words: dict[str, Any]) -> None:
    self._client.key_value_set(f"xmcap/alive/{self._index}", json.dumps(words), allow_overwrite=True)

  def _listen(self) -> dict[int, str]:
    found = self._client.key_value_dir_get("xmcap/alive/")
    return {int(key.rsplit("/", 1)[1]): said for key, said in found}

  def _work(self) -> None:
    beats, start = 0, time.monotonic()
    last_said, last_time = {}, dict.fromkeys(range(self._count), start)
    while not self._stopped.wait(BEAT):
      beats += 1
      state = self._watch.look() if self._watch else watch_lib.State()
      try:
        self._say({"alive": beats, "state": dataclasses.asdict(state)})
        heard = self._listen()
      except Exception:
        # Process 0 and its service are gone; jax ends this process, unless the main thread hangs.
        if state.hangs:
          self._hang(state)
        continue
      now = time.monotonic()
      for number, said in heard.items():
        if last_said.get(number) != said:
          last_said[number], last_time[number] = said, now
      words = {number: json.loads(said) for number, said in heard.items()}
      for number in words.keys() - {self._index}:
        self._obey(number, words[number])
      silent = [number for number, seconds in last_time.items() if now - seconds > self._lost]
      if silent and not self._stopped.is_set():
        self._end(
          RestartError.exit_code,
          f"lost {self._describe(silent)}: no sign of life for {self._lost:g} s; the run goes on from its newest"
          " checkpoint when it is started again",
        )
      states = {number: watch_lib.State(**said["state"]) for number, said in words.items() if "state" in said}
      if state.hangs and self._index in watch_lib.behind(states):
        self._hang(state)

  def _obey(self, number: int, words: dict[str, Any]) -> None:
    """Ends this process if another says that it failed or hangs."""
    if self._stopped.is_set():
      return
    if "failed" in words:
      self._end(words["code"], f"{self._describe([number])} failed: {words['failed']}")
    elif "hangs" in words:
      self._end(RestartError.exit_code, words["hangs"], hung=True)

  def _hang(self, state: watch_lib.State) -> None:
    if self._stopped.is_set():
      return
    me = self._describe([self._index])
    line = state.describe(me)
    with contextlib.suppress(Exception):
      self._say({"hangs": line})
    watch_lib.write_stacks(f"{me} hangs in '{state.what}'")
    self._end(RestartError.exit_code, line, hung=True)

  def _end(self, code: int, line: str, hung: bool = False) -> None:
    self._ending.set()
    if self._index == 0:
      seconds = _HUNG_PROCESS_0 if hung else _READ_BY_ALL
    else:
      seconds = _HUNG if hung else 0.0
    watch_lib.end(code, line, seconds)
