"""The release layout of XM3600."""

import json

import pytest

from xmcap.corpora.building.release import write_release
from xmcap.data.records import Caption, Record
from xmcap.errors import XmcapError

IMAGES = [
  Record("00a1", b"png one", [Caption("en", "a dog"), Caption("th", "หมา"), Caption("th", "สุนัข")]),
  Record("00a2", b"png two", [Caption("en", "a cat")], locale="en"),
]


def test_write_release_uses_the_xm3600_layout(tmp_path):
  write_release(tmp_path / "test", iter(IMAGES))
  lines = (tmp_path / "test" / "captions.jsonl").read_text("utf-8").splitlines()
  assert json.loads(lines[0]) == {
    "image/key": "00a1",
    "image/locale": "",
    "en": {"caption": ["a dog"]},
    "th": {"caption": ["หมา", "สุนัข"]},
  }
  assert json.loads(lines[1])["image/locale"] == "en"
  assert "หมา" in lines[0]
  assert (tmp_path / "test" / "images" / "00a2.png").read_bytes() == b"png two"


def test_write_release_replaces_an_older_release(tmp_path):
  write_release(tmp_path / "test", iter(IMAGES))
  write_release(tmp_path / "test", iter(IMAGES[1:]))
  assert [path.name for path in (tmp_path / "test" / "images").iterdir()] == ["00a2.png"]
  assert [path.name for path in tmp_path.iterdir()] == ["test"]


def test_failed_write_release_keeps_the_old_release(tmp_path):
  def failing():
    yield IMAGES[1]
    raise OSError(28, "No space left on device")

  write_release(tmp_path / "test", iter(IMAGES))
  with pytest.raises(XmcapError, match="No space left on device"):
    write_release(tmp_path / "test", failing())
  assert len((tmp_path / "test" / "captions.jsonl").read_text("utf-8").splitlines()) == 2
  assert [path.name for path in tmp_path.iterdir()] == ["test"]
