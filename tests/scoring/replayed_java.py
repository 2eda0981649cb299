"""pycocoevalcap's Java programs, replayed: what they answered when `.ci/goldens.py` ran them."""

import contextlib
import functools
import json
import pathlib

import pytest

from xmcap.scoring.tokenizers import java

_GOLDENS = pathlib.Path(__file__).parent / "goldens" / "pycocoevalcap.json"


@functools.cache
def goldens() -> dict:
  return json.loads(_GOLDENS.read_text(encoding="utf-8"))


@contextlib.contextmanager
def recorded():
  """Gives a list of what programs are run on, and of what they answer."""
  runs, run = [], java.run

  def record(name, jar, command, text="", folder=None):
    text = _sent(text)
    output = run(name, jar, command, text, folder)
    runs.append({"command": _command(jar, command), "text": text, "output": output})
    return output

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(java, "run", record)
    yield runs


@pytest.fixture
def replayed_java(monkeypatch):
  """Java need not be there; a program, options or text that was not recorded is a KeyError."""

  def run(name, jar, command, text="", folder=None):
    return answers[(*_command(jar, command), _sent(text))]

  answers = {(*run["command"], run["text"]): run["output"] for run in goldens()["runs"]}
  monkeypatch.setattr(java, "run", run)


def _command(jar, command):
  return [word.replace(str(jar), jar.name) for word in command]


def _sent(text):
  return text if isinstance(text, str) else text()
