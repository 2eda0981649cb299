"""The command line: exit codes, one-line errors, and lazy imports."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import termios

import pytest

from tests.make import files as make_files
from tests.make.command import xmcap, xmcap_without
from xmcap import cli

KEYS = ("00000000000000aa", "00000000000000bb")


@pytest.fixture
def files(tmp_path):
  """References of two pictures in two languages, and predictions that equal them."""
  texts = {"en": ("a red ball", "two green cars"), "de": ("ein roter Ball", "zwei grüne Autos")}
  captions = {key: {code: pair[number] for code, pair in texts.items()} for number, key in enumerate(KEYS)}
  make_files.captions(tmp_path / "references.jsonl", captions)
  make_files.captions(tmp_path / "predictions.jsonl", captions)
  return tmp_path


def score(files, *extra):
  named = [
    f"--references={files}/references.jsonl",
    f"--predictions={files}/predictions.jsonl",
    f"--out={files}/out",
  ]
  return xmcap("score", *named, *extra)


def test_score_command_writes_all_table_formats(files):
  score(files, "--metrics=cider_d,exact").succeeded("German")
  assert {path.name for path in (files / "out").iterdir()} == {
    "table.csv", "table.json", "table.md", "table.tex", "report.html", "predictions.jsonl",
    "scores.npz", "slices.csv", "captions.csv", "health.csv", "health.md",
  }  # fmt: skip
  table = json.loads((files / "out/table.json").read_text(encoding="utf-8"))
  assert table["languages"]["de"]["images"] == 2 and table["means"]["2 languages"]["exact"] == 1.0


@pytest.mark.parametrize(
  "arguments, message",
  [
    (["trian"], "trian"),
    (["train"], "needs gin files"),
    (["train", "--gin_fil=x"], "did you mean --gin_file"),
    (["score", "--out=x"], "required: --references, --predictions"),
    (["score", "--gin.X=1"], "unknown argument --gin.X=1"),
    (["score", "zero-shot"], "--pictures"),
    (["score", "retreival"], "retreival"),
    (["train", "--gin_file=models/no.gin"], "no such file"),
    (["caption", "--model_dir=/nowhere", "--languages=xx", "a.jpg"], "unknown language 'xx'"),
    (["caption", "--model_dir=/nowhere", "/nowhere/a.jpg"], "cannot be read"),
    (["eval", "--model_dir=/nowhere"], "not a model folder"),
    (["data", "stats", "/nowhere"], "/nowhere"),
    (["data", "stats", "g://b/x"], "unknown scheme 'g://'; did you mean gs://?"),
    (["runs", "g://b/runs"], "g://b/runs: unknown scheme 'g://'; did you mean gs://?"),
    (["runs", "gs:/b/runs"], "unknown scheme 'gs:/'; did you mean gs://?"),
    (["runs", "https://b.c/runs"], "unknown scheme 'https://' here: give a path, gs://"),
    (["eval", "--model_dir=g://b/x"], "unknown scheme 'g://'; did you mean gs://?"),
    (["caption", "--model_dir=/nowhere", "g://b/x"], "unknown scheme 'g://'; did you mean gs://?"),
    (["doctor", "--bucket=gcs://b"], "unknown scheme 'gcs://'; did you mean gs://?"),
    (["data", "build", "coco"], "coco"),
  ],
)
def test_bad_usage_is_one_line_and_exits_2(arguments, message):
  assert xmcap(*arguments).refused(message).err.count("\n") == 1


@pytest.mark.parametrize(
  "words, listed",
  [
    ([], ["train", "score", "doctor"]),
    (["data"], ["build", "stats"]),
    (["data", "build"], ["folder", "xm3600"]),
  ],
)
def test_without_a_command_the_commands_are_listed(words, listed):
  said = xmcap(*words).succeeded()
  assert not said.err and f"usage: {' '.join(['xmcap', *words])} " in said.out
  assert all(re.search(rf"^ +{name} ", said.out, re.MULTILINE) for name in listed)


@pytest.mark.parametrize("command", cli._COMMANDS)
def test_a_command_alone_is_parsed_as_among_all(command, capsys):
  told = []
  for parser in (cli._parser(command), cli._parser()):
    with pytest.raises(SystemExit):
      parser.parse_args([command, "--help"])
    told.append(capsys.readouterr().out)
  assert told[0] == told[1] and told[0].startswith(f"usage: xmcap {command} ")


def test_score_table_fits_the_terminal_width(files):
  """A process of its own in a pseudo-terminal of 60 columns; its table has 132 in a pipe."""
  ours, its = pty.openpty()
  termios.tcsetwinsize(its, (24, 60))
  words = [
    "score", f"--references={files}/references.jsonl", f"--predictions={files}/predictions.jsonl",
    f"--out={files}/out", "--metrics=all", "--bootstrap=2",
  ]  # fmt: skip
  environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
  with subprocess.Popen([sys.executable, "-m", "xmcap.cli", *words], stdout=its, env=environment) as process:
    os.close(its)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: the process has closed its end
      while part := os.read(ours, 1 << 16):
        shown += part
  os.close(ours)
  lines = shown.decode().splitlines()
  rules = [line for line in lines if re.fullmatch(r"-+(  -+)+", line)]
  assert process.returncode == 0 and len(rules) >= 2 and max(map(len, rules)) <= 60
  assert any(line.startswith("Too wide for 60 columns, so without: ") for line in lines)
  assert f"{files}/out/table.md" in "".join(lines)


@pytest.mark.parametrize(
  "line, message",
  [
    (b'{"image/key": "cc", "language"', "line 5: broken JSON"),
    (b"\xff\xfe", "line 5: not UTF-8"),
    (b'{"image/key": "cc", "language": "xx", "caption": ""}', "line 5: unknown language 'xx'"),
  ],
)
def test_score_command_names_file_and_line_of_a_bad_line(files, line, message):
  with open(files / "predictions.jsonl", "ab") as predictions:
    predictions.write(line + b"\n")
  score(files).refused("predictions.jsonl", message)


def test_a_missing_prediction_is_refused(files):
  lines = (files / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
  (files / "predictions.jsonl").write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")
  score(files).refused("1 of 4 predictions are missing")
  assert not (files / "out").exists()


def test_score_command_refuses_a_file_as_output_folder(files):
  (files / "out").write_text("a file where the folder should be")
  score(files).refused("cannot make the folder")


@pytest.mark.parametrize("command", [[], ["score"], ["train"], ["human", "rubric"]])
def test_help_imports_nothing_heavy(command):
  heavy = ("jax", "tensorflow", "numpy", "PIL", "gin", "flax", "scipy", "seqio")
  (result,) = xmcap_without(heavy, [*command, "--help"])
  result.succeeded("usage: xmcap")


@pytest.mark.parametrize(("words", "named"), [
  (["convert", "--input=gs://bucket/model", "--out=out"], "--input=gs://bucket/model"),
  (["compare", "gs://bucket/a", "gs://bucket/b"], "DIR=gs://bucket/a"),
  (["human", "sxs", "--ratings=r.csv", "--scores=a=gs://bucket/a"], "--scores=gs://bucket/a"),
])  # fmt: skip
def test_command_for_local_files_refuses_a_bucket_address(words, named):
  xmcap(*words).refused(f"{named}: this command reads and writes local files")


@pytest.mark.parametrize(
  "error, message",
  [
    (RecursionError("maximum recursion depth exceeded"), "an input is nested too deeply"),
    (RuntimeError("Could not determine home directory."), "this user has no home folder: set HOME"),
    (KeyError("getpwuid(): uid not found: 54321"), "this user has no home folder: set HOME"),
  ],
)
def test_what_a_deep_input_or_a_user_without_a_name_raises_is_one_line(monkeypatch, error, message):
  def fail(*arguments):
    raise error

  monkeypatch.setattr(cli.base, "overrides", fail)
  xmcap("doctor").refused(message)
