"""Every block of code in README, CONTRIBUTING and docs runs, from top to bottom of its page.

How a block runs follows from the language behind its fence:

- none, `sh`, `bash`: commands. Bash reads the blocks of a page as one session, with the variables that the text
  exports; each command that it finds goes the way of the tables below. `console`: the same behind `$ `, and the other
  lines must be printed;
- `python`: executed; the blocks of a page share their names;
- `gin`: parsed over a run's files; `json`: parsed line by line or whole;
- `text`, `csv`, `mermaid`: not code.

A comment above a block says otherwise for that block, with its reason: `<!-- test: WAY, because REASON -->`. WAY is:

- `run`;
- `run without output`: its figures are of real data;
- `full`: runs with --all alone; otherwise commands are explained and Python is compiled;
- `parse`: the options alone;
- `syntax`: bash reads it, and that is all.

Names of files are those of the text; `stand_ins.py` makes small ones, and files that a page shows under their names.
"""

import importlib.util
import io
import itertools
import json
import os
import pathlib
import re
import shutil

import gin
import jax
import pytest

from tests import setup_py
from tests.pages import blocks, stand_ins
from xmcap import cli, configuration
from xmcap.commands import base, launch_checks

ROOT = pathlib.Path(__file__).parents[2]
SHELL = ("", "sh", "bash", "console")
NO_CODE = ("text", "csv", "mermaid")
PAGES = [
  page
  for page in sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
  if any(block.language not in NO_CODE for block in blocks.of_page(page))
]
WAYS = ("run", "run without output", "full", "parse", "syntax")

RUN = {"score", "compare", "human", "caption", "convert", "runs", "check", "show", "stats", "index"}
"""Subcommands that run for real: small input makes them cheap."""
EXPLAINED = {"train", "eval", "plan"}
"""Take minutes to days: their options are parsed and their gin files resolved, by --explain."""
PARSED = {
  "build": "downloads or needs gigabytes of a release; tests/corpora/building builds small ones",
  "serve": "goes on until it is stopped",
  "export": "compiles for seconds; its own tests export",
  "vocabulary": "trains for seconds",
  "embed": "loads a model of its own",
  "published": "asks the network",
}  # fmt: skip
"""Of these only the options are parsed, because ..."""
OUTSIDE = {
  "gcloud": "rents machines",
  "ssh-add": "needs a key",
  "tensorboard": "is a server",
  "vllm": "is a server",
  "xprof": "is a server",
  "mkdir": "is the shell's",
  "cat": "is the shell's",
  "cd": "is the shell's",
  "curl": "needs a server that is running",
  "tfds": "needs a release and Apache Beam",
}
"""Programs that are not xmcap's: bash reads their lines, nothing runs, because ..."""

_NO_RUN = ["--gin_file=models/bb.gin", "--gin_file=runs/train_coco35l.gin"]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
  folder = tmp_path_factory.mktemp("pages")
  stand_ins.make(folder, ROOT / "docs/scoring.md")
  return folder


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch):
  """The working folder of a page: the stand-ins, and scripts of the checkout where the page runs them."""
  shutil.copytree(prepared, tmp_path / "work")
  for name in ("quickstart.sh", "test.sh", "benchmarks", "tests"):
    (tmp_path / "work" / name).symlink_to(ROOT / name)
  monkeypatch.chdir(tmp_path / "work")
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
  # xmcap sets these, for the processes that it is alone in.
  kept = dict(os.environ)
  yield tmp_path / "work"
  os.environ.clear()
  os.environ.update(kept)
  jax.config.update("jax_enable_compilation_cache", True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_in_docs_run(page, folder, capfd, monkeypatch):
  _run(page, folder, _Session(monkeypatch, capfd))


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if "test: full" in page.read_text(encoding="utf-8")])
def test_costly_code_blocks_in_docs_run(page, folder, capfd, monkeypatch):
  _run(page, folder, _Session(monkeypatch, capfd, full=True))


def _run(page, folder, session):
  found = blocks.of_page(page)
  for name, text in stand_ins.named_files(found, page.read_text(encoding="utf-8")):
    (folder / name).write_text(text, encoding="utf-8")
  shell = [block for block in found if block.language in SHELL and block.way != "syntax"]
  calls = dict(zip([block.line for block in shell], blocks.calls(shell, folder), strict=True))
  for block in found:
    assert block.way in ("", *WAYS), f"{block.where}: no such way: {block.way}; there are {', '.join(WAYS)}"
    assert block.reason or block.way in ("", "run"), f"{block.where}: say why: `{block.way}, because ...`"
    if block.way == "syntax":
      blocks.check_syntax(block)
    elif block.language in SHELL:
      session.run(block, calls[block.line])
    elif block.language == "python":
      session.execute(block)
    elif block.language == "gin":
      _parse_gin(block)
    elif block.language == "json":
      _parse_json(block)
    else:
      assert block.language in NO_CODE, (
        f"{block.where}: nobody knows how to run a block of `{block.language}`"
      )


def test_code_block_without_a_handler_fails(folder, capfd, monkeypatch):
  session = _Session(monkeypatch, capfd)
  for text, error in {
    "step 100/200  loss 1.0": "nobody knows how to run `step`",
    "xmcap frobnicate": "frobnicate",
    "xmcap train --gin_file=models/bb.gin --gin.NO_SUCH=1": "NO_SUCH",
    "xmcap launch tpu-vm --name=bb --zone=z --accelerator_type=v4-8 -- train ...": "project",
    "pip install '.[train,none]'": "none",
    "bash test.sh --no_such": "--no_such",
  }.items():  # fmt: skip
    block = blocks.Block("a page", 1, "", text)
    (words,) = blocks.calls([block], folder)
    with pytest.raises(AssertionError, match=re.escape(error)):
      session.run(block, words)


class _Session:
  """Runs the blocks of one page."""

  def __init__(self, monkeypatch, capfd, full=False):
    self.monkeypatch, self.capfd, self.full = monkeypatch, capfd, full
    self.names: dict = {}
    self.of_a_run = _NO_RUN  # what `...` stands for: the options of the run above it

  def run(self, block: blocks.Block, calls: list[list[str]]) -> None:
    assert calls or not blocks.commands_of(block).strip() or "=" in block.text, f"{block.where}: no command"
    for words in calls:
      self.capfd.readouterr()
      self.call(block, words)
    if block.language == "console" and block.way in ("", "run"):
      printed = iter([line.rstrip() for line in self.capfd.readouterr().out.splitlines()])
      for line in blocks.output_of(block):
        assert line in printed, f"{block.where}: not printed, or not in this place: {line}"

  def call(self, block: blocks.Block, words: list[str]) -> None:
    program, arguments = words[0], words[1:]
    if program == "xmcap":
      self.xmcap(block, arguments)
    elif program == "pip":
      _check_pip(block, arguments)
    elif program == "bash":
      _check_script(block, arguments)
    elif program == "python":
      _check_python(block, arguments)
      if "--" in arguments:  # the command that a tool runs
        self.call(block, arguments[arguments.index("--") + 1 :])
    else:
      assert program in OUTSIDE, (
        f"{block.where}: nobody knows how to run `{program}`: is it output (```text)?"
      )

  def xmcap(self, block: blocks.Block, arguments: list[str]) -> None:
    command = next((word for word in arguments if word not in ("data", "human")), "")
    if command == "launch":
      return self.launch(block, arguments)
    arguments = [stand_ins.put(word) for word in arguments]
    name = "human" if arguments[:1] == ["human"] else command
    if block.way == "parse" or (name in PARSED and block.way != "run"):
      with self.monkeypatch.context() as patched:
        patched.setattr(base, "add_command", _add_idle)
        self.main(block, arguments)
    elif name in EXPLAINED:
      if "..." in arguments:
        place = arguments.index("...")
        arguments = [*arguments[:place], *self.of_a_run, *arguments[place + 1 :]]
      elif name == "train":
        self.of_a_run = [word for word in arguments[1:] if word.startswith("--gin")]
      self.main(block, [*arguments, "--explain"])
      if block.way == "full" and self.full:
        self.main(block, arguments)
    else:
      assert name in RUN or block.way == "run", f"{block.where}: no table says how xmcap {name} runs"
      self.main(block, arguments)

  def launch(self, block: blocks.Block, arguments: list[str]) -> None:
    """The launcher prints its commands, and what every host runs is explained here."""
    place = arguments.index("--") if "--" in arguments else len(arguments)
    options, hosted = arguments[:place], arguments[place + 1 :]
    if "..." in hosted:
      dots = hosted.index("...")
      hosted = [*hosted[:dots], *self.of_a_run, *hosted[dots + 1 :]]
    with self.monkeypatch.context() as patched:
      # The disks of a cluster are not here; all else is resolved as before a run.
      patched.setattr(launch_checks, "_must_exist", lambda *_: None)
      patched.setattr(launch_checks, "_check_weights", lambda *_: None)
      self.main(block, [*options, *({"--dry_run"} - set(options)), *(["--", *hosted] if hosted else [])])
    if hosted:
      self.xmcap(block, hosted)

  def main(self, block: blocks.Block, arguments: list[str]) -> None:
    gin.clear_config()
    try:
      code = cli.main(arguments)
    except SystemExit as ended:
      code = ended.code or 0
    if code:
      error = self.capfd.readouterr().err.splitlines()[-1:]
      raise AssertionError(f"{block.where}: xmcap {' '.join(arguments)}: {code}: {error}")

  def execute(self, block: blocks.Block) -> None:
    code = compile(stand_ins.put(block.text), block.where, "exec")
    if block.way != "full" or self.full:
      exec(code, self.names)


def _add_idle(commands, name, run, *arguments, **settings):
  return _add_command(commands, name, lambda parsed: None, *arguments, **settings)


_add_command = base.add_command


def _check_pip(block: blocks.Block, arguments: list[str]) -> None:
  """The extras that are named are those of setup.py, and so are the packages."""
  extras = setup_py.extras()
  packages = {asked.name for of_extra in (setup_py.scoring(), *extras.values()) for asked in of_extra}
  for word in arguments[1:]:
    named = re.fullmatch(r"(?:\.|.*\.whl)\[([\w,]+)\]", word)
    if named:
      absent = set(named[1].split(",")) - extras.keys()
      assert not absent, f"{block.where}: setup.py has no extra {absent}"
    elif re.fullmatch(r"[a-z][\w-]*", word):
      assert word in packages, f"{block.where}: setup.py does not name {word}"


def _check_script(block: blocks.Block, arguments: list[str]) -> None:
  script, *options = arguments
  text = (ROOT / script).read_text(encoding="utf-8")
  options = list(itertools.takewhile(lambda option: not option.startswith("-m"), options))
  for option in options:
    known = option in text or option.startswith("--durations") or option in ("--co", "-q")
    assert known or (ROOT / option).exists(), f"{block.where}: {script} has no {option}"


def _check_python(block: blocks.Block, arguments: list[str]) -> None:
  """A module or a script that is there, or a line that can be compiled."""
  if arguments[0] == "-c":
    compile(arguments[1], block.where, "exec")
  elif arguments[0] == "-m":
    module = arguments[1]
    ours = module.split(".")[0] in ("xmcap", "tests", "benchmarks")
    assert not ours or importlib.util.find_spec(module), f"{block.where}: there is no module {module}"
  else:
    assert (ROOT / arguments[0]).is_file(), f"{block.where}: there is no script {arguments[0]}"


def _parse_gin(block: blocks.Block) -> None:
  file = pathlib.Path("block.gin")
  file.write_text(block.text, encoding="utf-8")
  configuration.parse(["models/bb.gin", "runs/train_coco35l.gin", str(file)])


def _parse_json(block: blocks.Block) -> None:
  try:
    json.loads(block.text)
  except json.JSONDecodeError:
    for line in io.StringIO(block.text):
      json.loads(line)
