"""Programs that stand for gcloud, xpk, sbatch and the like: they record what reaches them."""

import os
import pathlib
import subprocess
import sys

from tests.make import files

# Arguments that a careless launcher would run, split, expand or lose.
HOSTILE = [
  "; touch pwned",
  "&& touch pwned",
  "| touch pwned",
  "& touch pwned &",
  "$(touch pwned)",
  "`touch pwned`",
  "\ntouch pwned\n",
  "a\nXMCAP_SBATCH\ntouch pwned",
  "\n#SBATCH --uid=0\n",
  "' ; touch pwned ; '",
  '" ; touch pwned ; "',
  "');touch pwned;('",
  "$'\\ntouch pwned'",
  "\\",
  "\\'",
  "$HOME",
  "${HOME}",
  "$(HOME)",
  "$$(HOME)",
  "{command}",
  "%%{command}",
  "~",
  "*",
  "!!",
  "-",
  "--",
  "",
  " ",
  "a  b",
  "a\tb",
  "a\r\nb",
  "\x1b[2J",
  "\x85\u2028\u2029",
  "é 猫 🐈 ไทย",
  "\udcff\udcfe",
  "#",
  ": x",
  "--gin.PRETRAINED=['a', \"b\"]",
  "--gin.hooks.evaluators=[@LossEvaluator(), @CaptionEvaluator()]",
]

_RECORDER = """#!{python} -SEI
import json, sys
with open({log!r}, "a") as file:
  file.write(json.dumps([{name!r}, *sys.argv[1:]]) + "\\n")
"""


def recorder(folder: pathlib.Path, name: str, log: pathlib.Path) -> None:
  """Writes a program that adds its name and arguments to `log`."""
  program(folder / name, _RECORDER.format(python=sys.executable, log=str(log), name=name))


def program(path: pathlib.Path, text: str) -> pathlib.Path:
  """Writes an executable file."""
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(text, encoding="utf-8")
  path.chmod(0o755)
  return path


def recorded(log: pathlib.Path) -> list[list[str]]:
  """Returns the calls: name and arguments each."""
  return files.rows(log) if log.exists() else []


def bash(
  text: str, folder: pathlib.Path, path: pathlib.Path, **variables: str
) -> subprocess.CompletedProcess:
  """Runs text with bash in `folder`, the programs of `path` first."""
  environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}", **variables}
  return subprocess.run(
    ["bash"],
    check=False,
    input=text.encode("utf-8", "surrogateescape"),
    capture_output=True,
    cwd=folder,
    env=environment,
    timeout=60,
  )
