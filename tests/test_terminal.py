"""Foreign text in messages and on the terminal: escaping, and the guard of the standard streams."""

import json
import os
import pathlib
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.make.command import xmcap
from xmcap import languages, terminal
from xmcap.commands import base
from xmcap.errors import UsageError, one_line

# An escape sequence that clears the screen, C1's way to begin one, an override of the direction, a forged line, and
# the byte \xff of a file name.
HOSTILE = "a\x1b[2J\x9b1mb\u202ecod.exe\nxmcap: all is well\r\x7f\u2028\udcff"


@pytest.mark.parametrize(
  "character, escaped",
  [
    ("\x00", "\\u0000"), ("\x1b", "\\u001b"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\x7f", "\\u007f"),
    ("\x85", "\\u0085"), ("\x9b", "\\u009b"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"), ("\u202a", "\\u202a"),
    ("\u202e", "\\u202e"), ("\u2066", "\\u2066"), ("\u2069", "\\u2069"), ("\u200b", "\\u200b"),
    ("\ufeff", "\\ufeff"), ("\u2060", "\\u2060"), ("\ud800", "\\ud800"), ("\udcff", "\\udcff"),
    ("\ue000", "\\ue000"), ("\u0378", "\\u0378"), ("\U000e0041", "\\udb40\\udc41"), ("\U0010ffff", "\\udbff\\udfff"),
  ],
)  # fmt: skip
def test_shown_escapes_control_and_invisible_characters(character, escaped):
  assert terminal.shown(f"a{character}b") == f"a{escaped}b"
  assert not terminal.is_plain(character)


@pytest.mark.parametrize(
  "text",
  [
    *(language.native_name for language in languages.LANGUAGES.values()),
    "می\u200cخواهم",  # Persian, with the non-joiner that its spelling needs
    "क्\u200dष র\u200d্য",  # Hindi and Bengali, with joiners
    "שלום\u200f! \u061cمرحبا",
    "ภาพถ่าย　写真\u00a0!\u202f?",
    "👩\u200d🚒 🏳️\u200d🌈 e\u0301 C:\\new",
  ],
)
def test_shown_keeps_text_of_all_languages(text):
  assert terminal.shown(text) == text and terminal.is_plain(text)


def test_shown_truncates_long_text():
  assert terminal.shown("a" * 200) == "a" * 200
  assert terminal.shown("a" * 201) == "a" * 197 + "..."
  assert len(terminal.shown("\x1b" * 10**6)) == 200
  assert terminal.shown("a" * 10_000, limit=None) == "a" * 10_000


@given(st.text(st.characters()) | st.text(st.sampled_from(HOSTILE)))
def test_shown_is_one_plain_line_and_shown_again_the_same(text):
  line = terminal.shown(text, limit=None)
  assert terminal.is_plain(line) and terminal.shown(line, limit=None) == line and len(line.splitlines()) <= 1
  assert not {unicodedata.category(character) for character in line} & {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(st.dictionaries(st.text(), st.text()))
def test_shown_json_parses_to_the_same_value(value):
  text = json.dumps(value, ensure_ascii=False)
  assert json.loads(terminal.shown(text, limit=None)) == value


def test_an_error_is_one_escaped_line(monkeypatch):
  def fail(arguments):
    raise UsageError(f"{HOSTILE}: {'x' * 10_000}")

  monkeypatch.setattr("xmcap.commands.data._stats", fail)
  line = xmcap("data", "stats", "/nowhere").refused().err
  assert line.count("\n") == 1 and len(line) < 4_100 and terminal.is_plain(line[:-1])
  assert line.startswith(
    "xmcap: error: a\\u001b[2J\\u009b1mb\\u202ecod.exe\\nxmcap: all is well\\r\\u007f\\u2028\\udcff"
  )


def test_progress_and_reasons_are_one_escaped_line(capsys):
  base.say(HOSTILE)
  line = capsys.readouterr().err
  assert line.count("\n") == 1 and terminal.is_plain(line[:-1])
  assert terminal.is_plain(one_line(ValueError(HOSTILE)))


_GUARDED = """
import sys
from xmcap import terminal
terminal.guard()
terminal.guard()
text = {text!r}
print(text)
print(text, file=sys.stderr, flush=True)
sys.stdout.writelines([text, "\\n"])
from absl import logging
logging.warning("left out: %s", text)
import warnings
warnings.warn(text)
import faulthandler
faulthandler.dump_traceback(sys.stderr)
raise ValueError(text)
"""


def test_guard_escapes_all_output_of_a_process():
  done = subprocess.run(
    [sys.executable, "-c", _GUARDED.format(text=HOSTILE)],
    capture_output=True,
    env={"PATH": "/usr/bin", "PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)},
  )
  for stream in (done.stdout, done.stderr):
    assert all(byte == 10 or 32 <= byte < 127 for byte in stream)
  assert done.stdout.count(rb"a\u001b[2J\u009b1mb\u202ecod.exe") == 2
  assert rb"left out: a\u001b[2J\u009b1mb\u202ecod.exe\nxmcap: all is well" in done.stderr
  assert b"ValueError" in done.stderr and b"Current thread" in done.stderr


def test_xmcap_command_output_is_guarded(tmp_path):
  """A folder's name comes back in the error of a command that was really started."""
  done = subprocess.run(
    [sys.executable, "-m", "xmcap.cli", "data", "stats", f"{tmp_path}/\x1b[31m\u202e"], capture_output=True
  )
  assert done.returncode == 2 and rb"\u001b[31m\u202e" in done.stderr and b"\x1b" not in done.stderr


_LOST = "what was printed is lost, files were written"
_OUTPUTS = """
import os, sys
from xmcap import cli, terminal
from xmcap.commands import data
from xmcap.files import files
import pathlib
def run(arguments):
  for number in range(3):
    print("x" * 100_000, flush=True)  # more than a pipe takes
    files.write_text(pathlib.Path(sys.argv[1], str(number)), "written")
    if sys.argv[2] == "only prints":
      terminal.check_reader()
data._stats = run
main = cli.main
cli.main = lambda: main(["data", "stats", "."])
cli.console()
"""


@pytest.mark.parametrize(
  ("output", "code", "said"),
  [
    (">&-", 1, f"xmcap: error: the standard output: closed: {_LOST}\n"),
    ("> /dev/full", 1, f"xmcap: error: the standard output: No space left on device: {_LOST}\n"),
    ("| true", 1, ""),
    ("> /dev/null", 0, ""),
    ("> /dev/null 2>&-", 0, ""),
  ],
)  # fmt: skip
def test_command_writes_its_files_with_stdout_closed(output, code, said, tmp_path):
  script = f'"$1" -c "$2" "$3" writes {output}; exit ${{PIPESTATUS[0]}}'
  done = subprocess.run(
    ["bash", "-c", script, "bash", sys.executable, _OUTPUTS, str(tmp_path)], capture_output=True, text=True
  )
  assert (done.returncode, done.stderr) == (code, said)
  assert [path.read_text() for path in sorted(tmp_path.iterdir())] == ["written"] * 3


def test_printing_command_ends_on_a_broken_pipe(tmp_path):
  script = '"$1" -c "$2" "$3" "only prints" | head -c 1; exit ${PIPESTATUS[0]}'
  done = subprocess.run(
    ["bash", "-c", script, "bash", sys.executable, _OUTPUTS, str(tmp_path)], capture_output=True, text=True
  )
  assert (done.returncode, done.stdout, done.stderr) == (1, "x", "")
  assert [path.name for path in tmp_path.iterdir()] == ["0"]


def test_closed_standard_streams_are_reopened(tmp_path):
  script = "import os, sys; from xmcap import terminal; terminal.guard(); print(os.open(os.devnull, 0))"
  script += "; print(1, file=sys.stderr)"
  done = subprocess.run(
    ["bash", "-c", '"$1" -c "$2" 0<&- 2>&-', "bash", sys.executable, script], capture_output=True, text=True
  )
  assert int(done.stdout) > 2


def test_removed_working_folder_is_one_line(tmp_path):
  script = 'mkdir "$2"; cd "$2"; rmdir "$2"; "$1" -m xmcap.cli data select candidates.csv --out=out.csv'
  done = subprocess.run(
    ["bash", "-c", script, "bash", sys.executable, str(tmp_path / "gone")], capture_output=True, text=True,
    env={**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parents[1])},
  )  # fmt: skip
  assert done.returncode == 2
  assert (
    done.stderr
    == "xmcap: error: the working folder was removed: change to another one (cd), and start again\n"
  )
