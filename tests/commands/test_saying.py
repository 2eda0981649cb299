"""Progress lines of long work (`base.saying`)."""

import time

import pytest

from xmcap.commands import base


def test_saying_prints_at_once_and_repeatedly(capsys):
  with base.saying("compiling", every=0.01):
    assert capsys.readouterr().err.splitlines()[0] == "compiling"
    deadline = time.monotonic() + 120
    said = ""
    while "compiling: 0 s so far" not in said and time.monotonic() < deadline:
      said += capsys.readouterr().err
    assert "compiling: 0 s so far" in said


def test_saying_ends_on_an_error(capsys):
  with pytest.raises(ValueError), base.saying("compiling", every=0.01):
    raise ValueError
  capsys.readouterr()
  time.sleep(0.05)
  assert not capsys.readouterr().err
