"""Images of releases: found in folders and archives, and checked before they are stored."""

import contextlib
import io
import os
import pickle

import pytest
from PIL import Image

from tests.corpora import release_pictures
from tests.make.files import tarred
from xmcap.corpora.building import image_check, image_search
from xmcap.corpora.building.options import BuildInProgress
from xmcap.corpora.building.problems import Problems
from xmcap.errors import UsageError, XmcapError


def opened(places, folder, key_map=None, on_bad="skip"):
  """The pictures of places, with their problems."""
  problems = Problems(on_bad)
  places = places if isinstance(places, list) else [places]
  source = image_search.ImageSearch.search(
    BuildInProgress(folder, problems=problems), places, key_map=key_map, name=""
  )
  source.problems = problems
  return source


def write_files(folder, files):
  for name, data in files.items():
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def test_image_is_found_by_path_name_and_stem(tmp_path):
  write_files(
    tmp_path / "a", {"val2014/1.jpg": b"val", "train2014/1.jpg": b"train", "2.PNG": b"two", "x.y": b"xy"}
  )
  found = opened(tmp_path / "a", tmp_path / "work")
  source = pickle.loads(pickle.dumps(found))
  assert len(source) == 4 and not source.has_urls and sorted(source.names()) == ["1", "1", "2", "x.y"]
  assert source.read("val2014/1.jpg") == b"val" and source.read("train2014/1.jpg") == b"train"
  assert source.read("coco/val2014/1.jpg") == b"val"
  assert source.read("2") == source.read("2.png") == source.read("a/2.PNG") == b"two"
  assert source.read("elsewhere/2.jpg") == b"two" and source.read("x.y") == b"xy"
  assert source.read("1") == b"train"  # the first by name
  assert found.problems.counts == {"duplicate_picture": 1}
  for absent in ("3", "test2014/1.jpg", "../a/9.jpg", "/etc/passwd", ""):
    with pytest.raises(KeyError):
      source.read(absent)
  with pytest.raises(KeyError):
    source.by_url("http://a")


def test_image_search_is_independent_of_scandir_order(tmp_path, monkeypatch):
  write_files(tmp_path / "a", {f"{number}.jpg": b"x" for number in range(9)})
  scandir = os.scandir

  @contextlib.contextmanager
  def backwards(folder):
    with scandir(folder) as entries:
      yield sorted(entries, key=lambda entry: entry.name, reverse=True)

  with monkeypatch.context() as patch:
    patch.setattr(os, "scandir", backwards)
    source = image_search.ByPath.search(BuildInProgress(tmp_path / "work"), [tmp_path / "a"])
  assert list(source.names()) == [str(number) for number in range(9)]
  assert [path for _, path in source.paths()] == [f"{number}.jpg" for number in range(9)]


def test_first_of_duplicate_images_is_used(tmp_path):
  write_files(tmp_path / "a", {"k.png": b"a png", "k.jpg": b"a jpg"})
  write_files(tmp_path / "b", {"k.jpg": b"b"})
  for order, expected in (("ab", b"a jpg"), ("ba", b"b")):
    source = opened([tmp_path / name for name in order], tmp_path / f"work{order}")
    assert source.read("k") == expected and source.problems.counts == {"duplicate_picture": 2}
  with pytest.raises(XmcapError, match="duplicate_picture"):
    opened([tmp_path / "a"], tmp_path / "stopped", on_bad="stop")


def test_complete_image_index_is_reused(tmp_path, monkeypatch):
  write_files(tmp_path / "a", {"1.jpg": b"one"})
  opened(tmp_path / "a", tmp_path / "work")
  searched = []
  fill = image_search._fill
  monkeypatch.setattr(image_search, "_fill", lambda *arguments: searched.append(1) or fill(*arguments))
  assert opened(tmp_path / "a", tmp_path / "work").read("1") == b"one"
  assert not searched


def test_interrupted_image_search_restarts(tmp_path, monkeypatch):
  for number in range(3):
    write_files(tmp_path / "a", {f"{number}/{number}.jpg": b"%d" % number})

  def killed(*arguments):
    raise KeyboardInterrupt

  with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
    patch.setattr(image_search, "_bytes", killed)
    opened(tmp_path / "a", tmp_path / "work")
  assert not list((tmp_path / "work").iterdir())
  source = opened(tmp_path / "a", tmp_path / "work")
  assert [source.read(str(number)) for number in range(3)] == [b"0", b"1", b"2"]


def test_tgz_image_search_does_not_write_outside_the_work_folder(tmp_path):
  path = tmp_path / "in" / "images.tgz"
  path.parent.mkdir()
  names = ("../../out.jpg", "/tmp/xmcap-test-out.jpg", "a/b.jpg")
  tarred(path, *((name, b"abc") for name in names), mode="w:gz")
  source = opened(path, tmp_path / "work")
  assert source.read("b") == b"abc" and source.problems.counts == {"unsafe_path": 2}
  found = [name for _, _, names in os.walk(tmp_path) for name in names if name.endswith(".jpg")]
  assert not found and not os.path.exists("/tmp/xmcap-test-out.jpg")


def test_key_map_assigns_images_to_keys(tmp_path):
  write_files(tmp_path / "a", {"00/x.jpg": b"00", "01/x.jpg": b"01", "y.jpg": b"y"})
  rows = [
    "7\t01/x.jpg",
    "0008\t00/x.jpg",
    "http://a/1\ty.jpg",
    f"named\t{tmp_path}/a/y.jpg",
    "gone\tz.jpg",
    "",
  ]
  (tmp_path / "map.tsv").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(rows).encode())
  source = opened(tmp_path / "a", tmp_path / "work", key_map=tmp_path / "map.tsv")
  assert source.has_urls
  assert source.read("00000007") == b"01" and source.read("8") == b"00" and source.read("named") == b"y"
  assert source.by_url("http://a/1") == b"y"
  for absent in ("gone", "y", "9"):  # what the map does not name is not looked for by its own name
    with pytest.raises(KeyError):
      source.read(absent)


@pytest.mark.parametrize(
  "text, message",
  [
    ("1 a.jpg\n", "line 1: give a key, a tab"),
    ("1\ta.jpg\n1\tb.jpg\n", "has this key twice"),
    ("\t\t\n", "line 1"),
    (f"1\ta.jpg\n2\t{'b' * (1 << 16)}\n", "map.tsv, line 2: give .* in less than 64 KB"),
  ],
)
def test_malformed_key_map_is_refused(tmp_path, text, message):
  write_files(tmp_path / "a", {"a.jpg": b"a", "b.jpg": b"b"})
  (tmp_path / "map.tsv").write_text(text)
  with pytest.raises(UsageError, match=message):
    opened(tmp_path / "a", tmp_path / "work", key_map=tmp_path / "map.tsv")


def test_folders_without_images_are_refused(tmp_path):
  (tmp_path / "empty").mkdir()
  (tmp_path / "empty" / "about.txt").write_text("none")
  with pytest.raises(UsageError, match="empty: contains no pictures"):
    opened(tmp_path / "empty", tmp_path / "work")
  with pytest.raises(UsageError, match="absent: No such file"):
    opened(tmp_path / "absent", tmp_path / "work")
  write_files(tmp_path / "a", {"1.jpg": b"1"})
  source = opened(tmp_path / "a", tmp_path / "work")
  (tmp_path / "a" / "1.jpg").unlink()
  with pytest.raises(XmcapError, match=r"a/1\.jpg: has changed since the search"):
    source.read("1")


@pytest.mark.parametrize(
  "size, expected", [((60, 40), (48, 32)), ((40, 80), (32, 64)), ((33, 500), (32, 485))]
)
def test_image_size_scales_the_shorter_side(size, expected):
  data = release_pictures.encode(release_pictures.draw(1).resize(size), "PNG")
  picture = image_check.examine(data, "key", image_size=32)
  with Image.open(io.BytesIO(picture.data)) as image:
    assert image.format == "JPEG" and image.size == expected
  assert not picture.kind


def test_image_size_applies_exif_rotation_and_keeps_small_images():
  turned = release_pictures.rotated(3)
  with Image.open(io.BytesIO(turned)) as image:
    width, height = image.size
  with Image.open(io.BytesIO(image_check.examine(turned, "key", image_size=24).data)) as image:
    assert (image.width > image.height) == (height > width) or width == height
  assert image_check.examine(turned, "key", image_size=min(width, height)).data == turned
  assert len(image_check.examine(turned, "key", image_size=24, quality=30).data) < len(
    image_check.examine(turned, "key", image_size=24, quality=95).data
  )


def test_truncated_jpeg_is_rejected():
  whole = release_pictures.encode(release_pictures.draw(5).resize((640, 480)))
  for missing in (20, 200, len(whole) // 2, len(whole) - 30):
    assert not image_check.examine(whole[:-missing], "key").data, missing


def test_too_many_duplicate_images_are_refused(tmp_path, monkeypatch):
  monkeypatch.setattr(image_search, "MAX_PROBLEMS", 3)
  write_files(tmp_path / "a", {f"{number}.jpg": b"x" for number in range(5)})
  with pytest.raises(XmcapError, match=r"more than 3 problems, the last of the kind duplicate_picture"):
    opened([tmp_path / "a", tmp_path / "a"], tmp_path / "work")
