"""The journal of a run: each answer is appended as it comes, so that nothing is asked twice.

A line is a JSON object with the number of its question (`id`), `image/key`, `language`, and the fields of `Answer`. A
line is appended by one write, so a killed process leaves whole lines, or a torn last one, which the next run removes.
"""

import hashlib
import json
import os
import pathlib
import time
from collections.abc import Mapping
from typing import Any

from xmcap.endpoint.answers import Answer, State, Tokens
from xmcap.errors import UsageError, XmcapError, one_line

SUFFIX = ".answers.jsonl"
_SYNC_SECONDS = 5.0


def question_id(request: Mapping[str, Any]) -> str:
  """Returns the id of a question: 32 hex digits of what decides its answer, with hashes in place of pictures."""
  canonical = json.dumps(request, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
  return hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest()


class Journal:
  """Answers in a file, which only one process may write.

  Attributes:
    path: the file.
    states: id -> state of its last answer.
    tokens: of all answers.
  """

  def __init__(self, path: str | os.PathLike):
    self.path = pathlib.Path(path)
    self.states: dict[str, State] = {}
    self.tokens = Tokens()
    self._starts: dict[str, int] = {}  # id -> where the line of its last answer starts
    self._synced = time.monotonic()
    try:
      self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
      self._cut_torn_line()
    except OSError as error:
      raise UsageError(f"{path}: cannot be written ({error.strerror})") from None
    start = 0
    with self.path.open("rb") as lines:
      for number, line in enumerate(lines, 1):
        try:
          question, answer = _parsed(line)
        except (ValueError, LookupError, TypeError, RecursionError):
          raise UsageError(
            f"{path}, line {number:,}: not an answer of an endpoint: move the file away"
          ) from None
        self.states[question], self._starts[question] = answer.state, start
        self.tokens = self.tokens.plus(answer.tokens)
        start += len(line)
    self._size = start

  def append(self, question: str, key: str, language: str, answer: Answer) -> None:
    """Appends an answer; XmcapError if the disk refuses."""
    line = {
      "id": question,
      "image/key": key,
      "language": language,
      **answer._asdict(),
      "tokens": list(answer.tokens),
    }
    data = json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
    try:
      written = os.write(self._file, data)
      if written < len(data):
        raise OSError(0, "the disk is full")
      if time.monotonic() > self._synced + _SYNC_SECONDS:
        os.fsync(self._file)
        self._synced = time.monotonic()
    except OSError as error:
      raise XmcapError(
        f"{self.path}: cannot be written ({error.strerror or one_line(error)}): the answers before are in it, "
        "and the same command continues"
      ) from None
    self.states[question], self._starts[question] = answer.state, self._size
    self.tokens = self.tokens.plus(answer.tokens)
    self._size += len(data)

  def answer(self, question: str) -> Answer:
    """Reads the last answer of a question; KeyError if there is none."""
    start = self._starts[question]
    line = b""
    while not line.endswith(b"\n"):
      line += (block := os.pread(self._file, 1 << 12, start + len(line)))
      line = line[: line.find(b"\n") + 1] or line
      assert block, f"{self.path} was cut while it was written"
    return _parsed(line)[1]

  def close(self) -> None:
    """Waits until all answers are on the disk."""
    os.fsync(self._file)
    os.close(self._file)

  def _cut_torn_line(self) -> None:
    size = os.fstat(self._file).st_size
    start = max(0, size - (1 << 24))
    tail = os.pread(self._file, size - start, start)
    whole = tail.rfind(b"\n") + 1
    if whole < len(tail):
      os.ftruncate(self._file, start + whole)


def _parsed(line: bytes) -> tuple[str, Answer]:
  """The id and the answer of a line; ValueError, LookupError or TypeError if it is none."""
  fields = json.loads(line)
  values = {name: fields[name] for name in Answer._fields}
  values |= {"state": State(fields["state"]), "tokens": Tokens(*fields["tokens"])}
  return fields["id"], Answer(**values)
