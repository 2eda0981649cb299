"""Signs of life between the processes of a run.

A thread in each process reports every few seconds, through jax's coordination service, that the process is alive and
where it is, even while the main thread computes, waits or hangs. It ends the process when another one has failed, is
lost, or hangs. A run of one process has the same thread, which ends it when it hangs.
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
# A process that ends waits this many seconds, so that the others can read why before their collectives break. Process 0
# runs the service that they read from, so it ends last.
_LAST_WORDS, _LAST_WORDS_PROCESS_0 = BEAT + 1, 2 * BEAT + 3


class Alone(dict):
  """Stands in for the client of jax's coordination service in a run of one process."""

  def key_value_set(self, key: str, value: str, allow_overwrite: bool = False) -> None:
    self[key] = value

  def key_value_dir_get(self, prefix: str) -> list[tuple[str, str]]:
    return list(self.items())


class Heartbeat:
  """Sends this process's signs of life and watches those of the others, until `stop`.

  Each process reports one of {"alive": number, "state": State}, {"failed": line, "code": exit code}, {"hangs": line}.

  Args:
    client: client of jax's coordination service, or `Alone`.
    index, count: the number of this process, and how many there are.
    lost: seconds without a sign of life after which a process counts as lost.
    watch: watches this process for hangs; None: it is not watched.
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
    last_words = _LAST_WORDS if index else _LAST_WORDS_PROCESS_0
    self._last_words = last_words if count > 1 else 0.0
    self._stopped = threading.Event()
    self._ending = threading.Event()
    self._thread = threading.Thread(target=self._work, name="heartbeat", daemon=True)
    self._thread.start()

  def stop(self) -> None:
    self._stopped.set()
    self._thread.join()

  def await_end(self) -> None:
    """Never returns if this process is being ended; an error of the main thread then has the same cause."""
    if self._ending.is_set():
      self._thread.join()

  def tell_failure(self, code: int, line: str) -> None:
    """Ends the other processes with the same exit code and this line."""
    self._stopped.set()
    with contextlib.suppress(Exception):
      self._say({"failed": line, "code": code})
      time.sleep(self._last_words)

  def _say(self, words: dict[str, Any]) -> None:
    self._client.key_value_set(f"xmcap/alive/{self._index}", json.dumps(words), allow_overwrite=True)

  def _work(self) -> None:
    beats = 0
    heard: dict[int, str] = {}
    heard_at = dict.fromkeys(range(self._count), time.monotonic())
    while not self._stopped.wait(BEAT):
      beats += 1
      state = self._watch.look() if self._watch else watch_lib.State()
      try:
        self._say({"alive": beats, "state": dataclasses.asdict(state)})
        said = {
          int(key.rsplit("/", 1)[1]): text for key, text in self._client.key_value_dir_get("xmcap/alive/")
        }
      except Exception:
        # Process 0 and its service are gone. jax then ends this process, unless the main thread hangs.
        if state.hangs:
          self._hang(state)
        continue
      now = time.monotonic()
      heard_at |= {number: now for number, text in said.items() if text != heard.get(number)}
      heard = said
      words = {number: json.loads(text) for number, text in said.items()}
      for number in words.keys() - {self._index}:
        if "failed" in words[number]:
          line = f"{self._describe([number])} failed: {words[number]['failed']}"
          self._end(words[number]["code"], line)
        elif "hangs" in words[number]:
          self._end(RestartError.exit_code, words[number]["hangs"])
      if silent := [number for number, seconds in heard_at.items() if now - seconds > self._lost]:
        self._end(
          RestartError.exit_code,
          f"lost {self._describe(silent)}: no sign of life for {self._lost:g} s; start the run again to resume from its"
          " newest checkpoint",
        )
      states = {number: watch_lib.State(**word["state"]) for number, word in words.items() if "state" in word}
      if state.hangs and self._index in watch_lib.behind(states):
        self._hang(state)

  def _hang(self, state: watch_lib.State) -> None:
    if self._stopped.is_set():
      return
    me = self._describe([self._index])
    line = state.describe(me)
    with contextlib.suppress(Exception):
      self._say({"hangs": line})
    watch_lib.write_stacks(f"{me} hangs in '{state.what}'")
    self._end(RestartError.exit_code, line)

  def _end(self, code: int, line: str) -> None:
    if not self._stopped.is_set():
      self._ending.set()
      watch_lib.end(code, line, self._last_words)
