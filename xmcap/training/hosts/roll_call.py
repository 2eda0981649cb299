"""The roll call before the processes of a run join: says by name which are there and which are missing.

`jax.distributed.initialize` knows only numbers, and aborts if a process is missing. So each process first tells process
0 its number and host, over TCP at the address where jax's service will listen a moment later.
"""

import contextlib
import json
import os
import socket
import time

from xmcap.errors import RestartError, UsageError, XmcapError

_LONGEST = 1 << 20  # bytes of a message
# A stranger on the port, or a process that hangs up, leads to one of these.
_NO_MESSAGE = (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)


def roll_call(address: str, count: int, index: int, seconds: float, me: str) -> list[str]:
  """Returns the names of all hosts by process number, when all processes have come.

  Args:
    address: HOST:PORT of process 0.
    count, index: of the processes, and of this one.
    seconds: to wait for the others.
    me: this host's name.

  Raises:
    RestartError: some are missing after `seconds`.
    UsageError: the processes were started with numbers or counts that contradict each other.
    XmcapError: process 0 cannot listen on the port.
  """
  host, port = split_address(address)
  answer = (
    _collect(port, count, seconds, me) if index == 0 else _report(host, port, count, index, seconds, me)
  )
  if answer["problem"]:
    raise UsageError(
      f"{answer['problem']}: start each with its own --process_id and the same --num_processes"
    )
  names = answer["hosts"]
  missing = ", ".join(str(number) for number, name in enumerate(names) if not name)
  if missing:
    there = ", ".join(f"{number} ({name})" for number, name in enumerate(names) if name)
    raise RestartError(f"after {seconds:g} s process {missing} of {count} had not come; there are {there}")
  return names


def split_address(address: str) -> tuple[str, int]:
  """Returns host and port; UsageError if the address has not both."""
  host, _, port = address.rpartition(":")
  if not host or not port.isdigit() or not 0 < int(port) < 65536:
    raise UsageError(f"coordinator address {address!r}: give HOST:PORT of process 0, such as 10.0.0.2:8476")
  return host.strip("[]"), int(port)


def _collect(port: int, count: int, seconds: float, me: str) -> dict:
  """Process 0: collects the numbers and hosts of the others, and answers all of them."""
  dual = socket.has_dualstack_ipv6()
  family = socket.AF_INET6 if dual else socket.AF_INET
  try:
    server = socket.create_server(("", port), family=family, dualstack_ipv6=dual, backlog=1024)
  except OSError as error:
    raise XmcapError(
      f"process 0 on {me}: port {port} cannot be listened at ({error.strerror}): give another port in"
      " --coordinator_address"
    ) from None
  hosts, pids, connections, problem = {0: me}, {}, [], None
  deadline = time.monotonic() + seconds
  with server, contextlib.ExitStack() as stack:
    while len(hosts) < count and problem is None and (left := deadline - time.monotonic()) > 0:
      server.settimeout(left)
      try:
        connection = stack.enter_context(server.accept()[0])
        connection.settimeout(5)
        said = _read(connection)
        number, host, their_count = int(said["process"]), str(said["host"]), int(said["processes"])
        pid = int(said["pid"])
      except _NO_MESSAGE:
        continue
      connections.append(connection)
      if their_count != count or not 0 <= number < count:
        problem = (
          f"process {number} on {host} was started for {their_count} processes, process 0 on {me} for {count}"
        )
      # A process whose connection broke comes again.
      elif number in hosts and (hosts[number], pids.get(number)) != (host, pid):
        problem = f"two processes have the number {number}: on {hosts[number]} and on {host}"
      else:
        hosts[number], pids[number] = host, pid
    answer = {"hosts": [hosts.get(number) for number in range(count)], "problem": problem}
    for connection in connections:
      with contextlib.suppress(OSError):
        connection.sendall(json.dumps(answer).encode() + b"\n")
        connection.recv(1)  # they hang up first, so that the port is free at once
  return answer


def _report(host: str, port: int, count: int, index: int, seconds: float, me: str) -> dict:
  """Any other process: tells process 0 that it is there, and waits for the answer."""
  said = {"process": index, "host": me, "pid": os.getpid(), "processes": count}
  # Process 0 may start later, and names all that are missing only when its own time is up.
  deadline = time.monotonic() + seconds + 5
  while (left := deadline - time.monotonic()) > 0:
    try:
      with socket.create_connection((host, port), timeout=min(left, 10)) as connection:
        connection.sendall(json.dumps(said).encode() + b"\n")
        connection.settimeout(left)
        answer = _read(connection)
        return {"hosts": answer["hosts"], "problem": answer["problem"]}
    except _NO_MESSAGE:
      time.sleep(0.2)
  raise RestartError(
    f"process {index} on {me}: process 0 at {host}:{port} did not answer for {seconds:g} s: is it running, and can"
    " this host reach that port?"
  )


def _read(connection: socket.socket) -> dict:
  with connection.makefile("rb") as stream:
    return json.loads(stream.readline(_LONGEST))
