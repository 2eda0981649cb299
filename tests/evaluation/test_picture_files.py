import pytest
from PIL import Image

from xmcap.errors import UsageError, XmcapError
from xmcap.evaluation import picture_files


@pytest.fixture
def photos(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "photos/more").mkdir(parents=True)
  for name in ("b.jpg", "a.PNG", "more/c.webp", "more/b.png"):
    Image.new("RGB", (4, 4)).save(tmp_path / "photos" / name)
  (tmp_path / "photos/notes.txt").write_text("not a picture")
  return tmp_path


@pytest.mark.parametrize(
  ("names", "wanted"),
  [
    (["photos"], ["photos/a.PNG", "photos/b.jpg"]),
    (["photos/b.jpg", "photos"], ["photos/b.jpg", "photos/a.PNG"]),
    (["photos/*.jpg"], ["photos/b.jpg"]),
    (["photos/**/*.[pw]*"], ["photos/more/b.png", "photos/more/c.webp"]),
  ],
)
def test_files_folders_and_patterns(photos, names, wanted):
  assert picture_files.find(names) == wanted


def test_a_file_may_be_called_as_a_pattern(photos):
  (photos / "photos/b.jpg").rename(photos / "[b].jpg")
  assert picture_files.find(["[b].jpg"]) == ["[b].jpg"]


@pytest.mark.parametrize(
  ("name", "message"),
  [
    ("no.jpg", "no.jpg: cannot be read"),
    ("no*.jpg", r"no\*.jpg: no file is called so"),
    ("empty", "no picture in this folder"),
    ("photos/notes.txt", "not a picture in a known format"),
  ],
)
def test_what_is_no_picture_is_named(photos, name, message):
  (photos / "empty").mkdir()
  with pytest.raises(XmcapError, match=message):
    picture_files.find(["photos", name])


def test_keys(photos):
  assert picture_files.keys(["photos/a.PNG", "x/b.c.jpg"], "stem") == ["a", "b.c"]
  assert picture_files.keys(["photos/a.PNG", "x/a.jpg"], "path") == ["photos/a.PNG", "x/a.jpg"]
  with pytest.raises(
    UsageError, match=r"2 pictures with the name of another \(photos/a.PNG, x/a.jpg\).*--keys=path"
  ):
    picture_files.keys(["photos/a.PNG", "y/b.jpg", "x/a.jpg"], "stem")
