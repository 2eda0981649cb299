"""Files written together: a kill at any moment leaves the old files or the new ones."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from xmcap.errors import XmcapError
from xmcap.files import files, outputs, whole_files

NAMES = ("table.csv", "table.json", "health.csv")


def _write(folder, words):
  """Results of the words' own; the second kind has no health."""
  with outputs.together(folder):
    files.write_text(folder / "table.csv", words)
    files.write_lines(folder / "table.json", [words, words])
    if words == "old":
      files.write_text(folder / "health.csv", words)
    else:
      files.remove(folder / "health.csv")


def _contents(folder):
  return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.fixture
def folders(tmp_path):
  """A folder of the user's with old results, and what it is to hold with new ones."""
  for name in ("out", "new"):
    (tmp_path / name).mkdir()
    (tmp_path / name / "thesis.tex").write_text("mine")
  _write(tmp_path / "out", "old")
  _write(tmp_path / "new", "new")
  return tmp_path / "out", _contents(tmp_path / "out"), _contents(tmp_path / "new")


def _killed_at(moment, folder, write=lambda folder: _write(folder, "new")):
  """Writes new results in a child that ends, without a word, at its so-manyth call to the file system."""
  child = os.fork()
  if child == 0:
    calls = iter(range(moment))

    def dying(call):
      def called(*arguments, **options):
        if next(calls, None) is None:
          os._exit(9)
        return call(*arguments, **options)

      return called

    for name in ("open", "replace", "unlink", "mkdir", "ftruncate"):
      setattr(os, name, dying(getattr(os, name)))
    import builtins
    import io

    io.open = builtins.open = dying(builtins.open)
    try:
      write(folder)
    finally:
      os._exit(0)
  return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_kill_at_any_moment_leaves_the_old_or_the_new(folders):
  folder, old, new = folders
  seen = []
  for moment in range(1, 100):
    _write(folder, "old")
    assert _contents(folder) == old
    code = _killed_at(moment, folder)
    outputs.settle(folder)
    found = {name: text for name, text in _contents(folder).items() if not name.startswith(".")}
    assert found in (old, new)
    seen.append("old" if found == old else "new")
    if code == 0:
      break
  # All moments were tried, and once they are the new ones it stays so.
  assert code == 0 and seen == sorted(seen, reverse=True)
  assert seen.count("old") > 5 and seen.count("new") > 4


def test_rewriting_removes_files_of_a_killed_process(folders):
  folder, old, new = folders
  for moment in range(1, 30, 7):
    _killed_at(moment, folder)
    _write(folder, "new")
    assert _contents(folder) == new
    _write(folder, "old")


_LOOP = """
import itertools, pathlib, sys
from tests.files.test_whole_files import _write
print("ready", flush=True)
for words in itertools.cycle(["new", "old"]):
  _write(pathlib.Path(sys.argv[1]), words)
"""


def test_sigkill_leaves_old_or_new_files(folders):
  folder, old, new = folders
  root = pathlib.Path(__file__).parents[2]
  for turn in (0, 4):
    process = subprocess.Popen(
      [sys.executable, "-c", _LOOP, str(folder)], stdout=subprocess.PIPE, text=True, cwd=root
    )
    process.stdout.readline()
    time.sleep(0.01 + 0.007 * turn)
    process.send_signal(signal.SIGKILL)
    process.wait()
    outputs.settle(folder)
    found = {name: text for name, text in _contents(folder).items() if not name.startswith(".")}
    assert found in (old, new)


def test_failed_write_keeps_old_files(folders, monkeypatch):
  folder, old, _ = folders
  with pytest.raises(ZeroDivisionError), outputs.together(folder):
    files.write_text(folder / "table.csv", "new")
    files.remove(folder / "health.csv")
    _ = 1 / 0
  assert _contents(folder) == old
  (folder / "table.md").mkdir()
  with (
    pytest.raises(XmcapError, match="cannot write .*table.md: Is a directory"),
    outputs.together(folder),
  ):
    files.write_text(folder / "table.csv", "new")
    files.write_text(folder / "table.md", "new")
  (folder / "table.md").rmdir()
  assert _contents(folder) == old


def _write_below(folder, name):
  with outputs.together(folder, below=True):
    for other in {"anna", "bo"} - {name}:
      files.remove(folder / other / "page.html")
    files.write_text(folder / name / "page.html", name)
    files.write_text(folder / "list", name)


def test_a_kill_at_any_moment_leaves_old_or_new_files_in_folders_below(tmp_path):
  def tree():
    return {
      str(path.relative_to(tmp_path)): path.read_text() if path.is_file() else ""
      for path in tmp_path.rglob("*")
      if path.name != ".xmcap.lock"
    }

  found = {}
  for name in ("bo", "anna"):
    _write_below(tmp_path, name)
    found[name] = tree()
  assert found["anna"] == {"anna": "", "anna/page.html": "anna", "list": "anna"}
  for moment in range(1, 100):
    _write_below(tmp_path, "anna")
    code = _killed_at(moment, tmp_path, lambda folder: _write_below(folder, "bo"))
    outputs.settle(tmp_path)
    left = {path: text for path, text in tree().items() if text and not path.endswith(".incomplete")}
    assert left in [{path: text for path, text in of.items() if text} for of in found.values()]
    if code == 0:
      break
  # What killed processes left in the folders is gone.
  assert code == 0 and tree() == found["bo"]


def test_settle_names_the_process_that_writes(folders):
  folder, _, _ = folders
  journal = folder / whole_files.FOLDER_JOURNAL
  journal.write_text('{"renamed": {}, "removed": []}')
  command = [
    sys.executable, "-c", "import sys, time; from xmcap.files import outputs\n"
    "with outputs.held(sys.argv[1], 'xmcap score'):\n"
    "  open(sys.argv[2], 'w').write('{}'); print('held', flush=True); time.sleep(60)", str(folder), str(journal),
  ]  # fmt: skip
  process = subprocess.Popen(command, stdout=subprocess.PIPE)
  try:
    process.stdout.readline()
    with pytest.raises(XmcapError, match=rf"is being written by process {process.pid} on .*xmcap score"):
      outputs.settle(folder)
  finally:
    process.kill()
    process.wait()


@pytest.mark.parametrize(
  "content",
  [
    "",
    "[]",
    "[" * 100_000,
    '{"renamed": {"../victim": "..victim.1.incomplete"}, "removed": []}',
    '{"renamed": {"victim": "../.victim.1.incomplete"}, "removed": []}',
    '{"renamed": {"table.csv": "table.json"}, "removed": []}',
    '{"renamed": {}, "removed": ["../victim"]}',
    '{"renamed": {}, "removed": [".."]}',
    '{"renamed": {}, "removed": "victim"}',
    '{"renamed": {}, "removed": ["below/../../victim"]}',
    '{"renamed": {}, "removed": ["/victim"]}',
    '{"renamed": {}, "removed": ["link/victim"]}',
    '{"renamed": {"link/victim": "link/.victim.1.incomplete"}, "removed": []}',
    '{"renamed": {"below/victim": ".victim.1.incomplete"}, "removed": []}',
    '{"renamed": [], "removed": []}',
  ],
)
def test_foreign_journal_is_refused_and_changes_no_file(folders, content):
  folder, old, _ = folders
  victim = folder.parent / "victim"
  victim.write_text("mine")
  (folder / whole_files.FOLDER_JOURNAL).write_text(content)
  (folder / "link").symlink_to("..")
  with pytest.raises(XmcapError, match="not a journal that xmcap wrote: remove it"):
    outputs.settle(folder)
  (folder / whole_files.FOLDER_JOURNAL).unlink()
  (folder / "link").unlink()
  assert victim.read_text() == "mine"
  assert {**_contents(folder), ".xmcap.lock": ""} == {**old, ".xmcap.lock": ""}


def test_journal_that_is_a_named_pipe_is_refused(folders):
  os.mkfifo(folders[0] / whole_files.FOLDER_JOURNAL)
  with pytest.raises(XmcapError, match="not a journal"):
    outputs.settle(folders[0])


def test_incomplete_files_of_live_processes_are_kept(tmp_path):
  living, dead = tmp_path / f".a.{os.getpid()}.incomplete", tmp_path / f".a.{2**22 + 1}.incomplete"
  for path in (living, dead, tmp_path / ".a.incomplete", tmp_path / "a.7.incomplete"):
    path.write_text("")
  (tmp_path / f".folder.{2**22 + 1}.incomplete").mkdir()
  with outputs.held(tmp_path):
    pass
  assert not dead.exists() and len(list(tmp_path.iterdir())) == 3


def test_devices_are_written_themselves(tmp_path):
  reading, writing = os.pipe()
  files.write_text(f"/dev/fd/{writing}", "words")
  os.close(writing)
  assert os.read(reading, 100) == b"words"
  os.close(reading)


def test_a_page_and_its_key_appear_together(tmp_path):
  page, key = tmp_path / "page.html", tmp_path / "page.key.jsonl"
  with outputs.together(key, folder=False):
    files.write_text(key, "key")
    files.write_text(page, "page")
    assert not key.exists() and not page.exists()
  assert _contents(tmp_path) == {"page.html": "page", "page.key.jsonl": "key"}
  (tmp_path / f".page.html.{2**22 + 1}.incomplete").write_text("new page")
  content = {"renamed": {"page.html": f".page.html.{2**22 + 1}.incomplete"}, "removed": []}
  (tmp_path / ".page.key.jsonl.results").write_text(json.dumps(content))
  outputs.settle(key, folder=False)
  assert _contents(tmp_path) == {"page.html": "new page", "page.key.jsonl": "key"}


def test_incomplete_journal_of_a_dead_process_is_removed(tmp_path):
  for name in ("page.html", ".page.html.results", "other.html"):
    (tmp_path / f".{name}.{2**22 + 1}.incomplete").write_text("")
  with outputs.held(tmp_path / "page.html", folder=False):
    pass
  assert [path.name for path in tmp_path.iterdir()] == [f".other.html.{2**22 + 1}.incomplete"]


def test_outputs_together_with_a_name_that_is_not_utf8(tmp_path):
  path = tmp_path / os.fsdecode(b"caf\xe9.csv")
  with outputs.together(path, folder=False):
    files.write_text(path, "whole")
  assert path.read_text() == "whole"
