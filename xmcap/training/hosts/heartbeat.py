"""Signs of life between the processes of a run: each says every few seconds that it runs and where it is.

A thread does this, over jax's coordination service, so it goes on while the main thread computes, waits or hangs. It
ends the process when another one failed, is lost, or hangs.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from xmcap.errors import RestartError
from xmcap.training.hosts import watch as watch_lib

BEAT = watch_lib.BEAT
# Until all have read what a process says last; process 0 holds the service that they read it from.
_READ, _READ_LAST = BEAT + 1, BEAT + 3
# The end of one that hangs, or of the first that read of it, breaks the collectives of the others, so each waits until
# all have read it, and process 0 until the others have ended.
_HUNG, _HUNG_LAST = _READ, _READ + BEAT + 2


class Heartbeat:
  """The signs of life of this process, and its watch over the others; runs from its making to `stop`.

  What a process says is one of `alive NUMBER STATE`, `failed CODE LINE` and `hangs LINE`.

  Args:
    client: of jax's coordination service.
    index: of this process.
    count: of processes.
    lost: seconds without a sign of life after which a process counts as lost.
    watch: over this process; None: nobody notices where it hangs.
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
    self._ended = threading.Event()
    self._ending = threading.Event()
    self._thread = threading.Thread(target=self._work, name="heartbeat", daemon=True)
    self._thread.start()

  def stop(self) -> None:
    """Ends the thread."""
    self._ended.set()
    self._thread.join()

  def await_end(self) -> None:
    """Does not return where this process is being ended: an error of the main thread then is of the same cause."""
    if self._ending.is_set():
      self._thread.join()

  def tell_failure(self, code: int, line: str) -> None:
    """Ends the others with the same exit code and this line."""
    self._ended.set()
    with contextlib.suppress(Exception):
      self._say(f"failed {code} {line}")
      time.sleep(_READ if self._index else _READ_LAST)

  def _say(self, words: str) -> None:
    self._client.key_value_set(f"xmcap/alive/{self._index}", words, allow_overwrite=True)

  def _heard(self) -> dict[int, str]:
    found = self._client.key_value_dir_get("xmcap/alive/")
    return {int(key.rsplit("/", 1)[1]): said for key, said in found}

  def _work(self) -> None:
    beats, seen = 0, {}
    start = time.monotonic()
    while not self._ended.wait(BEAT):
      beats += 1
      state = self._watch.look() if self._watch else watch_lib.State()
      try:
        self._say(f"alive {beats} {state.encode()}")
        heard = self._heard()
      except Exception:
        # Process 0, whose service this is, is gone or going; jax ends this process, which it learns for sure.
        if state.hangs:
          self._hang(state)
        continue
      now = time.monotonic()
      for number, said in heard.items():
        if number != self._index:
          self._obey(number, said)
        if seen.get(number, (None,))[0] != said:
          seen[number] = (said, now)
      silent = [
        number for number in range(self._count) if now - seen.get(number, ("", start))[1] > self._lost
      ]
      if silent and not self._ended.is_set():
        self._end(
          RestartError.exit_code,
          f"lost {self._describe(silent)}: no sign of life for {self._lost:g} s; the run goes on from its newest"
          " checkpoint when it is started again",
        )
      if state.hangs and self._index in watch_lib.behind(_states(heard)):
        self._hang(state)

  def _obey(self, number: int, said: str) -> None:
    """Ends this process where another says that it failed or hangs."""
    if self._ended.is_set():
      return
    kind, _, rest = said.partition(" ")
    if kind == "failed":
      code, _, line = rest.partition(" ")
      self._end(int(code), f"{self._describe([number])} failed: {line}")
    elif kind == "hangs":
      self._end(RestartError.exit_code, rest, hung=True)

  def _hang(self, state: watch_lib.State) -> None:
    if self._ended.is_set():
      return
    me = self._describe([self._index])
    line = state.describe(me)
    with contextlib.suppress(Exception):
      self._say(f"hangs {line}")
    watch_lib.write_stacks(f"{me} hangs in '{state.what}'")
    self._end(RestartError.exit_code, line, hung=True)

  def _end(self, code: int, line: str, hung: bool = False) -> None:
    self._ending.set()
    # The end of process 0 ends the others, who would like to say the same.
    seconds, last = (_HUNG, _HUNG_LAST) if hung else (0.0, _READ_LAST)
    watch_lib.end(code, line, seconds if self._index else last)


def _states(heard: dict[int, str]) -> dict[int, watch_lib.State]:
  """The states of the processes that are alive."""
  found = {}
  for number, said in heard.items():
    kind, _, rest = said.partition(" ")
    if kind == "alive":
      found[number] = watch_lib.State.decode(rest.partition(" ")[2])
  return found
