"""A command whose disk is full, or that is killed, leaves the earlier results whole or the new ones."""

import argparse
import errno
import itertools
import os

import numpy as np
import pytest

from tests.make import files
from tests.make.command import xmcap
from xmcap import cli
from xmcap.files import files as files_lib
from xmcap.files import outputs, whole_files

_ONE_FILE = "one file, which is renamed when it is whole"
_TOGETHER = "several files, by outputs.together"
_RESUMES = "parts, which a mark completes: the same call goes on"
_NOTHING = "no results"

WRITES = {
  _ONE_FILE: (
    "caption", "data select", "data show", "data vocabulary", "human quality", "plan", "retrieval scores",
    "results coco", "results every-eval-ever", "results hub", "retrieval top", "tag",
  ),
  _TOGETHER: (
    "check", "compare", "convert", "data check", "data index", "data labels", "data tags", "data words", "eval",
    "export", "features", "human annotate", "human annotations", "human choose", "human judgements", "human rate",
    "human rubric", "human sxs", "human thumb", "published babel-imagenet", "published coco-cn", "published thumb",
    "published xm3600", "published xm3600-draft", "retrieval fuse", "score", "score correlation", "score retrieval",
    "score tags", "score zero-shot", "translate",
  ),
  _RESUMES: (
    "data build babel_imagenet", "data build cc3m35l", "data build coco35l", "data build coco_cn",
    "data build emoji100", "data build emoji36", "data build emoji_tags", "data build folder", "data build xm3600",
    "embed", "train",
  ),
  _NOTHING: (
    "data stats", "doctor", "launch local", "launch slurm", "launch tpu-vm", "launch xpk", "runs", "serve",
  ),
}  # fmt: skip
"""How each command writes; `human quality` writes its findings together, and drawn captions in one file."""

CALLS = {
  "score": "score --references=r.jsonl --predictions={}.jsonl --processes=1 --save_df=out/x.df --out=out",
  "compare": "compare one={}1 two={}2 --resamples=20 --title={} --out=out",
  "data labels": "data labels --labels={}_labels.json --english=english.py --prompts=p.json --out=out/labels.json",
  "human sxs": "human sxs --comparisons=core={}.csv --resamples=2 --out=out",
  "human rate": "human rate --protocol=sxs --predictions A={}.jsonl B=r2.jsonl --out=out/page.html",
  "human annotations": "human annotations {}_annotations.jsonl --out=out",
  "score tags": "score tags --references=old_tags.jsonl --predictions={}_tags.jsonl --k=1 --out=out",
  "retrieval fuse": "retrieval fuse --scores={}.npy --scores=m.npy --validation_scores={}.npy "
  "--validation_scores=m.npy --validation_targets=t.txt --out=out/f.npy",
}
"""The same call with earlier and with new inputs: `old` and `new`."""


def _leaves(parser, name=""):
  subcommands = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
  if not subcommands or parser.get_default("run"):
    yield name
  for action in subcommands:
    for word, child in action.choices.items():
      yield from _leaves(child, f"{name} {word}".strip())


def test_how_each_command_writes_is_listed():
  assert sorted(name for names in WRITES.values() for name in names) == sorted(_leaves(cli._parser()))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
  """A folder with the inputs of all calls."""
  folder = tmp_path_factory.mktemp("place")
  files.release(folder / "r.jsonl", {key: {"en": [f"a {key}"]} for key in ("dog", "cat")}, locale="en")
  files.captions(folder / "r2.jsonl", {key: {"en": f"some {key}"} for key in ("dog", "cat")})
  names = ", ".join(f'"thing {number}"' for number in range(1_000))
  files.lines(folder / "english.py", f"classes = [{names}]", "prompts = ['a {}.', 'the {}.']")
  files.json(folder / "p.json", {"DE": ["ein {}"]})
  np.save(folder / "m.npy", np.array([[0.4, 0.6], [0.2, 0.1]], np.float32))
  files.lines(folder / "t.txt", "0", "1")
  for number, name in enumerate(("old", "new")):
    files.captions(folder / f"{name}.jsonl", {key: {"en": f"a {name} {key}"} for key in ("dog", "cat")})
    files.lines(
      folder / f"{name}.csv", "m1,m2,lang,delta_sxs,delta_x", f"A,B,en,{number},2", "A,C,en,3,1", "B,C,en,2,9",
      "A,D,en,5,4", "B,D,en,7,3", "C,D,en,1,8",
    )  # fmt: skip
    row = {
      "image/key": "dog",
      "language": "en",
      "annotator": "anna",
      "caption": name,
      "tags": [name],
      "events": [],
    }
    files.jsonl(folder / f"{name}_annotations.jsonl", {**row, "suggested": {"sentences": [], "tags": []}})
    files.json(folder / f"{name}_labels.json", {"DE": [[0, 1], [name, "Hund"]]})
    tags = [{"image/key": key, "language": "en", "tags": [name]} for key in ("dog", "cat")]
    files.jsonl(folder / f"{name}_tags.jsonl", *tags)
    np.save(folder / f"{name}.npy", np.array([[1, 0], [number, 1]], np.float32))
  working = os.getcwd()
  os.chdir(folder)
  try:
    for name in ("old", "new"):
      for number in (1, 2):
        predictions = name if number == 1 else "r2"
        xmcap(
          "score", "--references=r.jsonl", f"--predictions={predictions}.jsonl", "--processes=1",
          f"--title={name}", f"--out={name}{number}",
        ).succeeded()  # fmt: skip
  finally:
    os.chdir(working)
  return folder


def _tree(out):
  """Name -> bytes of what lies in a folder, without locks."""
  return {path.name: path.read_bytes() for path in out.iterdir() if not path.name.endswith(".lock")}


def _put(out, tree):
  for path in out.iterdir():
    path.unlink()
  for name, content in tree.items():
    (out / name).write_bytes(content)


def _stopped(words, stop, number):
  """Runs a command in a process that is stopped at one of its steps of writing; its exit code, and its errors."""
  read, write = os.pipe()
  process = os.fork()
  if not process:
    os.close(read)
    _stop_at(stop, number)
    done = xmcap(*words)
    os.write(write, done.err.encode()[-4_000:])
    os._exit(done.code)
  os.close(write)
  with os.fdopen(read, "rb") as said:
    errors = said.read().decode()
  return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), errors


def _stop_at(stop, number):
  steps = iter(range(number, -1, -1))

  def before(function):
    def call(*arguments, **options):
      if next(steps, None) == 0:
        if stop == "kill":
          os._exit(99)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
      return function(*arguments, **options)

    return call

  os.replace = before(os.replace)
  write = before(lambda: None)

  def write_or_stop(self, data):
    with whole_files.write_errors_name(self._known_as):
      write()
    return super(files_lib._Output, self).write(data)

  files_lib._Output.write = write_or_stop
  whole_files.Batch.prepare = before(whole_files.Batch.prepare)


@pytest.mark.parametrize("command", CALLS)
def test_a_stopped_command_leaves_old_or_new_results_whole(command, place, tmp_path, monkeypatch):
  for path in place.iterdir():
    (tmp_path / path.name).symlink_to(path)
  monkeypatch.chdir(tmp_path)
  out = tmp_path / "out"
  trees = {}
  for name in ("new", "old"):
    for path in out.iterdir() if out.exists() else ():
      path.unlink()
    xmcap(*CALLS[command].format(*[name] * 3).split()).succeeded()
    trees[name] = _tree(out)
  assert trees["old"] != trees["new"] and len(trees["new"]) > 1
  words = CALLS[command].format(*["new"] * 3).split()
  for stop in ("full", "kill"):
    for number in itertools.count():
      _put(out, trees["old"])
      code, errors = _stopped(words, stop, number)
      left = _tree(out)
      journals = [name for name in left if name.endswith(".results")]
      if stop == "full" and code:
        assert errors.count("xmcap: error: ") == 1 and "Traceback" not in errors, errors
        assert "No space left on device" in errors.splitlines()[-1], errors
        assert journals or left == trees["old"], (number, sorted(left))
      for journal in journals:  # as the next call begins, or one that reads
        name = journal.removeprefix(".").removesuffix(".results")
        outputs.settle(*(out, True) if journal == whole_files.FOLDER_JOURNAL else (out / name, False))
      whole = {name: content for name, content in _tree(out).items() if not name.endswith(".incomplete")}
      assert whole in (trees["old"], trees["new"]), (stop, number)
      if code == 0:
        break
    assert number > len(trees["new"])
  # What a killed call left behind is removed by the next.
  _put(out, trees["old"])
  _stopped(words, "kill", 2)
  xmcap(*words).succeeded()
  assert _tree(out) == trees["new"]
