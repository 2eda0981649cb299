"""The server of `xmcap launch local --bucket` for tests, which can be told what to refuse.

It is a process of its own: TensorFlow holds the interpreter lock while it closes a file.
"""

import contextlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator

from xmcap.launch.buckets import server
from xmcap.launch.buckets.objects import Objects

_REFUSED = "refused.json"


class Bucket:
  """The bucket `gs://bucket`, whose objects are the files in `folder`; `environment` is how it is found."""

  def __init__(self, root: pathlib.Path, environment: dict[str, str]):
    self.folder, self.environment = root / "bucket", environment
    self._root = root

  def refuse(self, *permissions: str, status: int = 403) -> None:
    """Refuses these permissions from now on, and no others."""
    part = self._root / f"{_REFUSED}.part"
    part.write_text(json.dumps(dict.fromkeys(permissions, status)))
    part.replace(self._root / _REFUSED)

  def names(self, prefix: str = "") -> list[str]:
    """The names of the objects."""
    return Objects(self._root).names("bucket", prefix)


class _Told(server.Server):
  def refused(self, permission: str) -> int:
    return json.loads((self.objects.folder / _REFUSED).read_text()).get(permission, 0)


@contextlib.contextmanager
def served(root: pathlib.Path) -> Iterator[Bucket]:
  """Serves `root/bucket`."""
  (root / "bucket").mkdir(parents=True)
  command = [sys.executable, "-m", "tests.loopback_bucket", str(root)]
  with subprocess.Popen(
    command, cwd=pathlib.Path(__file__).parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE
  ) as process:
    bucket = Bucket(root, json.loads(process.stdout.readline()))
    bucket.refuse()
    yield bucket


def main() -> None:
  with _Told(pathlib.Path(sys.argv[1]), "bucket") as serving:
    serving.start()
    print(json.dumps(serving.environment()), flush=True)
    sys.stdin.read()
    serving.shutdown()


if __name__ == "__main__":
  main()
