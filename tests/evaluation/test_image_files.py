import pytest
from PIL import Image

from xmcap.corpora.building import build
from xmcap.corpora.building.options import Options
from xmcap.corpora.folder import own
from xmcap.corpora.folder.split_choice import SplitRule
from xmcap.data import records
from xmcap.errors import UsageError, XmcapError
from xmcap.evaluation import image_files


@pytest.fixture
def photos(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "photos/more").mkdir(parents=True)
  for name in ("b.jpg", "a.PNG", "more/c.webp", "more/b.png"):
    Image.new("RGB", (8, 8)).save(tmp_path / "photos" / name)
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
def test_find_image_files_by_names_folders_and_patterns(photos, names, wanted):
  assert list(image_files.find(names)) == wanted


def test_image_file_named_like_a_pattern_is_found(photos):
  (photos / "photos/b.jpg").rename(photos / "[b].jpg")
  assert list(image_files.find(["[b].jpg"])) == ["[b].jpg"]


@pytest.mark.parametrize(
  ("name", "message"),
  [
    ("no.jpg", "no.jpg: cannot be read"),
    ("no*.jpg", r"no\*.jpg: no file matches"),
    ("empty", "no pictures in this folder"),
  ],
)
def test_files_that_are_no_images_are_refused(photos, name, message):
  (photos / "empty").mkdir()
  with pytest.raises(XmcapError, match=message):
    image_files.find(["photos", name])


def test_image_keys_by_stem_name_and_path(photos):
  assert image_files.keys({"photos/a.PNG": "a.PNG", "x/b.c.jpg": "b.c.jpg"}, "stem") == ["a", "b.c"]
  found = {"photos/a.PNG": "a.PNG", "y/b.jpg": "b.jpg", "x/a.jpg": "a.jpg"}
  assert image_files.keys(found, "path") == list(found)
  with pytest.raises(
    UsageError, match=r"2 pictures with the same name as another \(photos/a.PNG, x/a.jpg\).*--keys=path"
  ):
    image_files.keys(found, "stem")


def test_keys_are_those_of_a_corpus_of_the_same_folder(photos):
  for name in ("photos/more/a b.jpg", "photos/ภาพ.jpg", "photos/more/a.jpg"):
    Image.new("RGB", (8, 8)).save(photos / name)
  files = sorted(
    path.relative_to(photos / "photos").as_posix() for path in photos.glob("photos/**/*.[jpPw]*")
  )
  (photos / "captions.csv").write_text(
    "".join(["file,en\n", *(f"{name},a dog\n" for name in files)]), "utf-8"
  )
  corpus = own.Folder(photos / "captions.csv", photos / "photos", splits_by=SplitRule("train:1"))
  build.build(corpus, photos / "out", Options(duplicates="keep"), processes=1)
  found = image_files.find(["photos/**/*.[jpPw]*"])
  assert sorted(image_files.keys(found, "key")) == sorted(
    record.key for record in records.RecordSource(photos / "out", "train")
  )


def test_image_keys_of_equal_names_in_two_folders_differ(photos):
  Image.new("RGB", (8, 8)).save(photos / "b.jpg")
  keys = image_files.keys(image_files.find(["b.jpg", "photos/b.jpg", "photos"]), "key")
  assert len(set(keys)) == 3 and keys[2] == "a"
