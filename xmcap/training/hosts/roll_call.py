"""The roll call before several processes of a run join: who is there, and who is missing, by name.

jax's own start only knows numbers, and ends the process where one is missing. So each process first tells process 0
its number and host, over TCP at the very address where jax's service will listen a moment later.
"""

import json
import socket
import time

from xmcap.errors import RestartError, UsageError, XmcapError

_RETRY = 0.2


def roll_call(address: str, count: int, index: int, seconds: float, me: str | None = None) -> list[str]:
  """Returns the hosts' names by process number, when all have answered.

  Args:
    address: HOST:PORT of process 0.
    count: processes.
    index: this one.
    seconds: to wait for the others.
    me: this host's name.

  Raises:
    RestartError: some are missing after `seconds`; says which, and who is there.
    UsageError: the processes were started with counts or numbers that contradict each other.
    XmcapError: the port cannot be listened at.
  """
  host, port = split_address(address)
  me = me or socket.gethostname()
  if index == 0:
    return _call(host, port, count, seconds, me)
  return _answer(host, port, count, index, seconds, me)


def split_address(address: str) -> tuple[str, int]:
  """HOST and PORT.

  Raises:
    UsageError: it is no such pair.
  """
  host, _, port = address.rpartition(":")
  if not host or not port.isdigit() or not 0 < int(port) < 65536:
    raise UsageError(f"coordinator address {address!r}: give HOST:PORT of process 0, such as 10.0.0.2:8476")
  return host.strip("[]"), int(port)


def _call(host: str, port: int, count: int, seconds: float, me: str) -> list[str]:
  names, lines = {0: me}, {}
  deadline = time.monotonic() + seconds
  try:
    server = _listen(port)
  except OSError as error:
    raise XmcapError(
      f"process 0 on {me}: port {port} cannot be listened at ({error.strerror}): give another port in"
      " --coordinator_address"
    ) from None
  problem = None
  with server:
    while len(names) < count and problem is None and (left := deadline - time.monotonic()) > 0:
      server.settimeout(left)
      try:
        line, _ = server.accept()
        line.settimeout(5)
        said = _read(line)
        number, named, total = int(said["process"]), str(said["host"]), int(said["processes"])
      except (OSError, ValueError, KeyError, TypeError, OverflowError):
        continue  # somebody else's connection, or time is up
      if total != count or not 0 <= number < count:
        problem = (
          f"process {number} on {named} was started for {total} processes, process 0 on {me} for {count}"
        )
      elif number in names and not _hung_up(lines.get(number)):
        problem = f"two processes have the number {number}: on {names[number]} and on {named}"
      lines[-1 if problem else number] = line
      if not problem:
        names[number] = named
    missing = sorted(set(range(count)) - set(names))
    answer = {"hosts": [names.get(number) for number in range(count)], "missing": missing, "problem": problem}
    for line in lines.values():
      try:
        line.sendall(json.dumps(answer).encode() + b"\n")
        line.settimeout(5)
        line.recv(1)  # they hang up first, so that the port is free at once
      except OSError:
        pass
      line.close()
  return _result(answer, seconds)


def _hung_up(line: socket.socket | None) -> bool:
  if line is None:
    return False
  line.setblocking(False)
  try:
    return line.recv(1, socket.MSG_PEEK) == b""
  except BlockingIOError:
    return False
  except OSError:
    return True


def _listen(port: int) -> socket.socket:
  if socket.has_dualstack_ipv6():
    return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
  return socket.create_server(("", port), backlog=1024)


def _answer(host: str, port: int, count: int, index: int, seconds: float, me: str) -> list[str]:
  # Process 0 may have been started later; its answer names all that are missing, so it gets the time to say it.
  deadline = time.monotonic() + seconds + 5
  while (left := deadline - time.monotonic()) > 0:
    try:
      with socket.create_connection((host, port), timeout=min(left, 10)) as line:
        said = {"process": index, "host": me, "processes": count}
        line.sendall(json.dumps(said).encode() + b"\n")
        line.settimeout(left)
        answer = _read(line)
      return _result(answer, seconds)
    except (OSError, ValueError, KeyError, TypeError):
      time.sleep(_RETRY)
  raise RestartError(
    f"process {index} on {me}: process 0 at {host}:{port} did not answer for {seconds:g} s: is it running, and can"
    " this host reach that port?"
  )


def _result(answer: dict, seconds: float) -> list[str]:
  if answer["problem"]:
    raise UsageError(
      f"{answer['problem']}: start each with its own --process_id and the same --num_processes"
    )
  if answer["missing"]:
    there = ", ".join(f"{n} ({host})" for n, host in enumerate(answer["hosts"]) if host)
    missing = ", ".join(map(str, answer["missing"]))
    raise RestartError(
      f"after {seconds:g} s process {missing} of {len(answer['hosts'])} had not come; there are {there}"
    )
  return answer["hosts"]


def _read(line: socket.socket) -> dict:
  """The object that the other end says; ValueError: somebody else's words."""
  try:
    said = json.loads(_read_line(line))
  except RecursionError:
    raise ValueError("nested too deeply") from None
  if not isinstance(said, dict):
    raise ValueError("no object")
  return said


def _read_line(line: socket.socket) -> bytes:
  data = b""
  while not data.endswith(b"\n"):
    more = line.recv(4096)
    if not more or len(data) > 1 << 20:
      raise ValueError("no line")
    data += more
  return data
