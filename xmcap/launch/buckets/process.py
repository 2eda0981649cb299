"""The server in a process of its own, which the launcher's forks and interrupts do not touch."""

import contextlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator

from xmcap.launch.buckets import server


@contextlib.contextmanager
def served(folder: pathlib.Path) -> Iterator[dict[str, str]]:
  """Serves a folder as the bucket of its name; gives the variables by which other processes find it."""
  # -P: as for the run's own processes.
  command = [sys.executable, "-P", "-m", "xmcap.launch.buckets.process", str(folder.parent), folder.name]
  # The server ends with this process, however that ends: its input is then at its end.
  with subprocess.Popen(
    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
  ) as process:
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())


def main() -> None:
  """Serves until the end of the standard input."""
  folder, bucket = sys.argv[1:]
  with server.Server(pathlib.Path(folder), bucket) as serving:
    serving.start()
    print(json.dumps(serving.environment()), flush=True)
    sys.stdin.read()
    serving.shutdown()


if __name__ == "__main__":
  main()
