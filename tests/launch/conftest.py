"""A folder with programs that record, first on the path."""

import dataclasses
import pathlib

import pytest

from tests.launch import stubs
from tests.launch.fake_cloud import Cloud
from xmcap.launch import runner


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


@pytest.fixture
def make(tmp_path, monkeypatch):
  """Returns a function from what xmcap does to the cloud; what still runs ends with the test."""
  made = []

  def cloud(body: str, workers: int = 2) -> Cloud:
    made.append(Cloud(tmp_path, workers, body))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(runner, "execute", made[-1].gcloud)
    return made[-1]

  yield cloud
  for one in made:
    one.kill()
