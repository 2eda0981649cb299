"""The roll call before the processes of a run join: names the hosts that are present and those that are missing.

`jax.distributed.initialize` knows only numbers, and aborts if a process is missing. So each process first sends its
number and host to process 0, over TCP at the address where jax's service will listen a moment later.
"""

import contextlib
import json
import os
import socket
import time

from xmcap.errors import RestartError, UsageError, XmcapError

_LONGEST = 1 << 20  # bytes of a message
# A foreign client on the port, or a dropped connection, leads to one of these.
_NO_MESSAGE = (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)


def roll_call(address: str, count: int, index: int, seconds: float, me: str) -> list[str]:
  """Waits for all processes, and returns the names of their hosts by process number.

  `address` is HOST:PORT of process 0, and `me` the name of this host. Raises RestartError if some of the `count`
  processes are missing after `seconds`, UsageError if two have the same number or they disagree about `count`.
  """
  host, port = split_address(address)
  mine = {"process": index, "host": me, "pid": os.getpid(), "processes": count}
  answer = _report(host, port, mine, seconds) if index else _collect(port, mine, seconds)
  if answer["problem"]:
    raise UsageError(
      f"{answer['problem']}: start each with its own --process_id and the same --num_processes"
    )
  names = answer["hosts"]
  missing = ", ".join(str(number) for number, name in enumerate(names) if not name)
  if missing:
    present = ", ".join(f"{number} ({name})" for number, name in enumerate(names) if name)
    raise RestartError(f"after {seconds:g} s process {missing} of {count} was missing; present: {present}")
  return names


def split_address(address: str) -> tuple[str, int]:
  """Returns host and port; UsageError if the address lacks one."""
  host, _, port = address.rpartition(":")
  if not host or not port.isdigit() or not 0 < int(port) < 65536:
    raise UsageError(f"coordinator address {address!r}: give HOST:PORT of process 0, such as 10.0.0.2:8476")
  return host.strip("[]"), int(port)


def _collect(port: int, mine: dict, seconds: float) -> dict:
  """Process 0: collects the reports of the others, and answers all of them."""
  count, dual = mine["processes"], socket.has_dualstack_ipv6()
  family = socket.AF_INET6 if dual else socket.AF_INET
  try:
    server = socket.create_server(("", port), family=family, dualstack_ipv6=dual, backlog=1024)
  except OSError as error:
    raise XmcapError(
      f"process 0 on {mine['host']}: cannot listen on port {port} ({error.strerror}): give another port in"
      " --coordinator_address"
    ) from None
  present, connections, problem = {0: mine}, [], None
  deadline = time.monotonic() + seconds
  with server, contextlib.ExitStack() as stack:
    while len(present) < count and problem is None and (left := deadline - time.monotonic()) > 0:
      server.settimeout(left)
      try:
        connection = stack.enter_context(server.accept()[0])
        connection.settimeout(5)
        message = _read(connection)
        numbers = {name: int(message[name]) for name in ("process", "pid", "processes")}
        process = {"host": str(message["host"]), **numbers}
      except _NO_MESSAGE:
        continue
      connections.append(connection)
      number, host = process["process"], process["host"]
      # A process whose connection broke reports again.
      other = present.setdefault(number, process)
      if process["processes"] != count or not 0 <= number < count:
        problem = (
          f"process {number} on {host} was started with {process['processes']} processes, process 0 on {mine['host']}"
          f" with {count}"
        )
      elif process != other:
        problem = f"two processes have the number {number}: on {other['host']} and on {host}"
    hosts = [present[number]["host"] if number in present else None for number in range(count)]
    answer = {"hosts": hosts, "problem": problem}
    for connection in connections:
      with contextlib.suppress(OSError):
        connection.sendall(json.dumps(answer).encode() + b"\n")
        connection.recv(1)  # the client closes first, so that the port is free at once
  return answer


def _report(host: str, port: int, mine: dict, seconds: float) -> dict:
  """Any other process: reports to process 0, and waits for the answer."""
  # Process 0 may start later, and answers with the missing processes only when its own time is up.
  deadline = time.monotonic() + seconds + 5
  while (left := deadline - time.monotonic()) > 0:
    try:
      with socket.create_connection((host, port), timeout=min(left, 10)) as connection:
        connection.sendall(json.dumps(mine).encode() + b"\n")
        connection.settimeout(left)
        answer = _read(connection)
        return {"hosts": answer["hosts"], "problem": answer["problem"]}
    except _NO_MESSAGE:
      time.sleep(0.2)
  raise RestartError(
    f"process {mine['process']} on {mine['host']}: process 0 at {host}:{port} did not answer for {seconds:g} s: is it"
    " running, and can this host reach that port?"
  )


def _read(connection: socket.socket) -> dict:
  with connection.makefile("rb") as stream:
    return json.loads(stream.readline(_LONGEST))
