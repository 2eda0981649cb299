"""Locks of outputs: one process writes each, and no output is an input."""

import concurrent.futures
import contextlib
import errno
import fcntl
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from xmcap.errors import UsageError, XmcapError
from xmcap.files import outputs

_HOLDER = """
import os, sys, time
from xmcap.files import outputs
with outputs.held(sys.argv[1], "xmcap score", folder=sys.argv[2] == "folder"):
  if len(sys.argv) > 3 and os.fork() == 0:
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(60)
  os.write(1, b"held\\n")
  time.sleep(60)
"""


def _holder(path, kind="folder", *more):
  process = subprocess.Popen(
    [sys.executable, "-c", _HOLDER, str(path), kind, *more], stdout=subprocess.PIPE, text=True
  )
  lines = [process.stdout.readline().strip() for _ in range(1 + len(more))]
  assert "held" in lines
  return process, [int(line) for line in lines if line != "held"]


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_locked_output_is_refused_and_names_its_writer(tmp_path, kind):
  path = tmp_path / "new" / "out"
  holder, _ = _holder(path, kind)
  try:
    with pytest.raises(XmcapError) as refused, outputs.held(path, "xmcap score", folder=kind == "folder"):
      pass
  finally:
    holder.kill()
    holder.wait()
  today = time.strftime("%Y-%m-%d ")
  start = (
    f"{path}: is being written by process {holder.pid} on {socket.gethostname()} (xmcap score, since {today}"
  )
  assert str(refused.value).startswith(start)
  assert str(refused.value).endswith("): wait until it ends, or give another --out")


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_lock_of_a_killed_process_is_released(tmp_path, kind):
  path = tmp_path / "out"
  holder, _ = _holder(path, kind)
  holder.kill()
  holder.wait()
  left = path / ".xmcap.lock" if kind == "folder" else tmp_path / ".out.lock"
  assert left.exists()
  with outputs.held(path, "xmcap score", folder=kind == "folder"):
    assert f"process {os.getpid()} on" in left.read_text()
  assert not left.exists()


def test_child_of_a_killed_process_does_not_keep_its_lock(tmp_path):
  holder, (child,) = _holder(tmp_path, "folder", "fork")
  try:
    holder.kill()
    holder.wait()
    os.kill(child, 0)
    with outputs.held(tmp_path, "xmcap score"):
      pass
  finally:
    os.kill(child, signal.SIGKILL)


def test_a_forked_child_that_ends_does_not_free_its_parents_lock(tmp_path):
  with outputs.held(tmp_path, "xmcap score"):
    child = os.fork()
    if child == 0:
      os._exit(0)
    os.waitpid(child, 0)
    with open(tmp_path / ".xmcap.lock") as other, pytest.raises(BlockingIOError):
      fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_output_lock_is_reentrant(tmp_path):
  with outputs.held(tmp_path, "xmcap score"):
    with outputs.held(tmp_path, "xmcap score"):
      pass
    assert (tmp_path / ".xmcap.lock").exists()
  assert not (tmp_path / ".xmcap.lock").exists()


def test_a_folder_that_another_process_removes_while_it_is_made_is_locked(tmp_path, monkeypatch):
  """As when that process releases an empty folder between `mkdir` and the look whether it is a folder."""
  made = os.makedirs
  left = [FileExistsError(errno.EEXIST, "File exists"), FileNotFoundError(errno.ENOENT, "No such file")]

  def makedirs(*arguments, **options):
    if left:
      raise left.pop()
    made(*arguments, **options)

  monkeypatch.setattr(os, "makedirs", makedirs)
  with outputs.held(tmp_path / "out", "xmcap score"):
    assert (tmp_path / "out/.xmcap.lock").exists()


def test_output_lock_follows_a_link_to_a_folder(tmp_path):
  (tmp_path / "out").mkdir()
  (tmp_path / "link").symlink_to("out")
  holder, _ = _holder(tmp_path / "link")
  try:
    with pytest.raises(XmcapError), outputs.held(tmp_path / "out", "xmcap score"):
      pass
  finally:
    holder.kill()
    holder.wait()


def test_unused_output_folder_is_removed(tmp_path):
  with outputs.held(tmp_path / "a", "xmcap score"):
    assert (tmp_path / "a").is_dir()
  assert not list(tmp_path.iterdir())
  with outputs.held(tmp_path / "a" / "b", "xmcap score"):
    (tmp_path / "a" / "b" / "kept").write_text("")
  assert [path.name for path in tmp_path.rglob("*")] == ["a", "b", "kept"]


def test_unsupported_lock_is_a_warning(tmp_path, monkeypatch, capsys):
  def flock(*_):
    raise OSError(errno.ENOLCK, "No locks available")

  monkeypatch.setattr(fcntl, "flock", flock)
  with outputs.held(tmp_path / "out", "xmcap score"):
    pass
  (line,) = capsys.readouterr().err.splitlines()
  assert "cannot be locked" in line and "No locks" in line
  assert not list(tmp_path.rglob("*"))


def test_output_in_a_bucket_warns_that_it_is_not_locked(capsys):
  with outputs.held("gs://bucket/run", "xmcap train", bucket=True):
    pass
  line = "xmcap: gs://bucket/run: a bucket cannot be locked: start only one writer\n"
  assert capsys.readouterr().err == line


def test_local_output_refuses_a_bucket():
  with (
    pytest.raises(
      UsageError, match="^--out=gs://bucket/tables: is not written to a bucket: give a path here"
    ),
    outputs.held("gs://bucket/tables", "xmcap score"),
  ):
    pass


def test_output_lock_ignores_unwritable_paths(tmp_path, capsys):
  (tmp_path / "file").write_text("")
  for path in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
    with outputs.held(path, "xmcap score"):
      pass
  with outputs.held("/dev/null", "xmcap score", folder=False):
    pass
  assert not capsys.readouterr().err


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path, capsys):
  (tmp_path / "victim").write_text("mine")
  (tmp_path / "out").mkdir()
  (tmp_path / "out" / ".xmcap.lock").symlink_to(tmp_path / "victim")
  with outputs.held(tmp_path / "out", "xmcap score"):
    pass
  assert len(capsys.readouterr().err.splitlines()) == 1 and (tmp_path / "victim").read_text() == "mine"


def test_name_of_a_lock_holder_is_escaped(tmp_path):
  with open(tmp_path / ".xmcap.lock", "w+") as other:
    other.write("process 1\x1b[2J\nxmcap: all is well")
    other.flush()
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(XmcapError) as refused, outputs.held(tmp_path, "xmcap score"):
      pass
  assert "process 1\\u001b[2J\\nxmcap" in str(refused.value)


@contextlib.contextmanager
def _locked(folder, host):
  """As a process of another host would lock it; gives the open file."""
  with open(folder / ".xmcap.lock", "w+") as other:
    other.write(f"process 1 on {host} (xmcap train, since 2020-01-01 12:01)")
    other.flush()
    fcntl.flock(other, fcntl.LOCK_EX)
    yield other


def test_output_lock_of_another_host_expires_after_its_lease(tmp_path, capsys):
  with _locked(tmp_path, "elsewhere") as other:
    with pytest.raises(XmcapError, match="process 1 on elsewhere"), outputs.held(tmp_path):
      pass
    assert not capsys.readouterr().err
    threading.Timer(0.3, lambda: fcntl.flock(other, fcntl.LOCK_UN)).start()
    with outputs.held(tmp_path, lease=60):
      (line,) = capsys.readouterr().err.splitlines()
      assert "held by process 1 on elsewhere" in line


def test_output_lock_of_this_host_is_not_waited_for(tmp_path, capsys):
  with (
    _locked(tmp_path, socket.gethostname()),
    pytest.raises(XmcapError),
    outputs.held(tmp_path, lease=60),
  ):
    pass
  assert not capsys.readouterr().err


def _take_turns(folder):
  """Adds one to a number under the lock, again and again; returns how often."""
  number = pathlib.Path(folder, "number")
  done = 0
  for _ in range(200):
    try:
      with outputs.held(folder, "xmcap score"):
        before = int(number.read_text())
        number.write_text(str(before + 1))
        done += 1
    except XmcapError:
      time.sleep(0.001)
  return done


def test_output_lock_is_exclusive_among_many_processes(tmp_path):
  (tmp_path / "number").write_text("0")
  with concurrent.futures.ProcessPoolExecutor(4) as pool:
    done = list(pool.map(_take_turns, [str(tmp_path)] * 4))
  assert int((tmp_path / "number").read_text()) == sum(done)
  assert min(done) > 0


def test_outputs_are_locked_in_one_order(tmp_path):
  pairs = [("--out", tmp_path / "b", True), ("--save_df", tmp_path / "a", False)]
  with outputs.held_all(pairs, "xmcap score"):
    assert (tmp_path / "b" / ".xmcap.lock").exists() and (tmp_path / ".a.lock").exists()
  assert not list(tmp_path.iterdir())


def test_an_output_that_is_an_input_is_refused(tmp_path):
  ratings = tmp_path / "ratings.jsonl"
  ratings.write_text("")
  (tmp_path / "link").symlink_to(ratings)
  os.link(ratings, tmp_path / "hard")
  for out in (ratings, tmp_path / "link", tmp_path / "hard", tmp_path / ".." / tmp_path.name / ratings.name):
    with pytest.raises(UsageError, match=r"^--out=.*would overwrite the input --ratings.*: name another$"):
      outputs.keep_apart({"--out": out}, {"--ratings": [tmp_path / "other", ratings]})


def test_outputs_at_the_same_missing_path_are_refused(tmp_path):
  (tmp_path / "link").symlink_to(tmp_path)
  with pytest.raises(UsageError, match="--save_df=.*: --out=.* is the same file"):
    outputs.keep_apart({"--out": tmp_path / "new", "--save_df": tmp_path / "link" / "new"}, {})
  with pytest.raises(UsageError, match="gs://bucket-a/b"):
    outputs.keep_apart({"--out": "gs://bucket-a/b/"}, {"--input": "gs://bucket-a/b"})


def test_keep_apart_allows_other_files_and_devices(tmp_path):
  for name in ("a", "b"):
    (tmp_path / name).write_text("")
  outputs.keep_apart(
    {"--out": tmp_path / "a", "--save_df": "", "--json": None, "--log": "/dev/null"},
    {"--input": tmp_path / "b", "--other": "/dev/null"},
  )


@pytest.mark.parametrize(
  "path, folder, message",
  [
    ("", True, "--out is empty: give the path of a folder"),
    ("", False, "--out is empty: give the path of a file"),
    ("pages/", False, "--out=pages/ is the path of a folder: give the path of a file"),
  ],
)
def test_output_of_an_empty_path_is_refused(tmp_path, monkeypatch, path, folder, message):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(UsageError, match=message), outputs.held(path, folder=folder):
    pass
  assert list(tmp_path.iterdir()) == []
