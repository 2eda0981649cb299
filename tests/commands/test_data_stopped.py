"""SIGINT and SIGTERM during `xmcap data build` and `check`: one line, no process left, no output marked complete."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from tests.corpora import release_folders as releases
from tests.make import small_corpus
from tests.sessions import alive
from xmcap import cli
from xmcap.corpora.building import options

pytestmark = pytest.mark.slow


ROOT = pathlib.Path(__file__).parents[2]


def small_shards():
  """A small release makes more than one shard and piece of captions, so that workers begin."""
  init = options.Options.__init__
  options.Options.__init__ = lambda self, **given: init(
    self, **{"shard_pictures": 8, "chunk_bytes": 2_000, **given}
  )
  return init


_COMMAND = """
from tests.commands import test_data_stopped
from xmcap.cli import console
test_data_stopped.small_shards()
console()
"""


@pytest.fixture(autouse=True)
def _small_shards():
  init = small_shards()
  yield
  options.Options.__init__ = init


def children(process):
  found = []
  for task in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
    found += [int(child) for child in task.read_text().split()]
  return [child for child in found if b"spawn_main" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes()]


def stopped(arguments, number, after, log):
  """Runs a command with worker processes, and sends a signal to all of its group when they have begun."""
  with open(log, "wb") as said:
    process = subprocess.Popen(
      [sys.executable, "-c", _COMMAND, *arguments], stdout=said, stderr=said, cwd=ROOT, start_new_session=True
    )
    workers = []
    while process.poll() is None and len(workers) < 2:
      try:
        workers = children(process.pid)
      except OSError:
        break
      time.sleep(0.05)
    assert len(workers) == 2, log.read_text()
    time.sleep(after)
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    code = process.wait(60)
  end = time.monotonic() + 20
  while any(map(alive, workers)) and time.monotonic() < end:
    time.sleep(0.1)
  assert not any(map(alive, workers))
  return code, log.read_text()


def judged(code, said, number, done):
  """A quick machine may have been done, and on its way out of Python."""
  assert "Traceback" not in said and "Error" not in said, said
  if done:
    assert code in (0, 130, -number), said
  elif number == signal.SIGINT:
    assert code == 130 and said.splitlines()[-1] == "xmcap: stopped by the keyboard", said
  else:
    assert code == -number


@pytest.mark.parametrize(
  "number, after",
  [(signal.SIGINT, 0.0), (signal.SIGTERM, 0.5), pytest.param(signal.SIGINT, 4.0, marks=pytest.mark.full)],
)
def test_data_build_stops_on_sigint_and_sigterm(number, after, tmp_path):
  release = releases.write_coco35l(tmp_path / "release", images=100, dev=4, languages=("de", "th"))
  arguments = [f"--{part}={path}" for part, path in release.paths.items()]
  arguments = ["data", "build", "coco35l", f"--out={tmp_path}/out", *arguments]
  code, said = stopped([*arguments, "--processes=2"], number, after, tmp_path / "log")
  judged(code, said, number, (tmp_path / "out" / "coco_35l.json").exists())
  assert cli.main([*arguments, "--processes=1"]) == 0
  assert release.differences(tmp_path / "out") == []


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  return small_corpus.write(tmp_path_factory.mktemp("corpus") / "c", train=600, languages=("de", "th"))


@pytest.mark.parametrize(
  "number, after",
  [
    (signal.SIGINT, 3.0),
    pytest.param(signal.SIGINT, 0.0, marks=pytest.mark.full),
    pytest.param(signal.SIGTERM, 0.5, marks=pytest.mark.full),
  ],
)
def test_data_check_stops_on_sigint_and_sigterm(number, after, corpus, tmp_path):
  out = tmp_path / "out"
  code, said = stopped(
    ["data", "check", str(corpus), f"--out={out}", "--processes=2"], number, after, tmp_path / "log"
  )
  done = (out / "check.json").exists()
  judged(code, said, number, done)
  assert (out / "check.jsonl").exists() == done
