"""A folder with programs that record, first on the path."""

import dataclasses
import pathlib

import pytest

from tests.launch import stubs


@dataclasses.dataclass(frozen=True)
class Place:
  """`bin`: the programs; `log`: what reached them; `work`: where commands run, empty at first."""

  bin: pathlib.Path
  log: pathlib.Path
  work: pathlib.Path

  def record(self, *names: str) -> None:
    for name in names:
      stubs.recorder(self.bin, name, self.log)

  def calls(self) -> list[list[str]]:
    return stubs.recorded(self.log)

  def bash(self, text: str, **variables: str):
    return stubs.bash(text, self.work, self.bin, **variables)


@pytest.fixture
def place(tmp_path):
  found = Place(tmp_path / "bin", tmp_path / "calls", tmp_path / "work")
  found.bin.mkdir()
  found.work.mkdir()
  return found
