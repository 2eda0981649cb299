"""Images of a report: thumbnails, embedded or linked, found by key in a folder."""

import base64
import io

import pillow_heif
import pytest
from PIL import Image

from tests.make.images import plain
from xmcap.errors import UsageError
from xmcap.files import keys
from xmcap.pages.report import pictures


@pytest.fixture
def folder(tmp_path):
  """A folder with pictures of k0 to k9, of which k3 is broken."""
  folder = tmp_path / "data" / "my images"
  folder.mkdir(parents=True)
  for i in range(10):
    Image.effect_noise((400, 300), 60).save(folder / f"k{i}.{'png' if i == 2 else 'jpg'}")
  (folder / "k3.jpg").write_bytes(b"no picture")
  return folder


_KEYS = [f"k{i}" for i in range(10)] + ["absent"]


def test_thumbnails_of_large_images_are_downscaled(tmp_path):
  path = tmp_path / "k.png"
  Image.effect_noise((1200, 800), 90).convert("RGB").save(path)
  uri = pictures.data_uri(path)
  assert uri.startswith("data:image/jpeg;base64,") and len(uri) < 150_000 < path.stat().st_size


@pytest.mark.parametrize("mode", ["RGBA", "P", "L", "I;16", "CMYK"])
def test_thumbnails_of_every_image_mode(tmp_path, mode):
  Image.new(mode, (500, 10)).save(tmp_path / "k.png" if mode != "CMYK" else tmp_path / "k.jpg")
  path = pictures.find(tmp_path, "k")
  assert pictures.data_uri(path).startswith("data:image/jpeg;base64,")
  assert Image.open(io.BytesIO(pictures.thumbnail(path.read_bytes, 100))).size == (100, 2)


def test_unreadable_images_have_no_thumbnail(tmp_path, monkeypatch):
  path = tmp_path / "k.png"
  Image.new("RGB", (40, 40), "red").save(path)
  monkeypatch.setattr(pictures, "_MAX_PIXELS", 1599)
  assert pictures.data_uri(path) is None and pictures.thumbnail(path.read_bytes, 20) is None
  monkeypatch.undo()
  assert pictures.data_uri(path) is not None and pictures.thumbnail(path.read_bytes, 20) is not None
  path.write_bytes(path.read_bytes()[:60])
  assert pictures.data_uri(path) is None and pictures.thumbnail(path.read_bytes, 20) is None


def test_embedded_images_are_read_by_key_without_a_folder(folder):
  def read(key):
    return pictures.find(folder, key).read_bytes()

  keys = _KEYS[:-1]
  assert pictures.choose("embed", keys, None, "report.html", read) == pictures.choose(
    "embed", keys, folder, "report.html"
  )
  assert pictures.choose("none", keys, None, "report.html", read).blocks == ()


@pytest.mark.parametrize("key", ["../k", "/k", "a/../../k", ".k", "", "k\x00", "k\n", "..", "é"])
def test_image_keys_are_never_paths(tmp_path, key):
  (tmp_path / "images").mkdir()
  Image.new("RGB", (8, 8)).save(tmp_path / "k.png")
  assert pictures.find(tmp_path / "images", key) is None


def test_thumbnails_follow_exif_orientation(tmp_path):
  exif = Image.Exif()
  exif[0x0112] = 6  # "rotate 90 degrees clockwise"
  Image.new("RGB", (400, 100)).save(tmp_path / "k.jpg", exif=exif)
  assert Image.open(io.BytesIO(pictures.thumbnail((tmp_path / "k.jpg").read_bytes, 80))).size == (20, 80)


def test_embedded_images_are_indexed_by_place(folder, tmp_path):
  found = pictures.choose("embed", _KEYS, folder, tmp_path / "r.html")
  assert found.data["of"] == [0, 1, 2, -2, 3, 4, 5, 6, 7, 8, -2] and found.sources == "data:"
  lines = found.blocks[0].split("\n")
  assert base64.b64decode(lines[2]) == pictures.thumbnail((folder / "k2.png").read_bytes, 320)
  assert found.note == "No readable picture in the folder for 2 of 11 images: k3, absent."


def test_embedded_images_stay_within_the_budget(folder, tmp_path, monkeypatch):
  everything = pictures.choose("embed", _KEYS, folder, tmp_path / "r.html")
  monkeypatch.setattr(pictures, "BUDGET", sum(map(len, everything.blocks)) // 2)
  found = pictures.choose("embed", _KEYS, folder, tmp_path / "r.html")
  held = [place for place, number in enumerate(found.data["of"]) if number >= 0]
  assert 2 <= len(held) <= 5 and max(held) > 5  # not the first ones
  assert sum(map(len, found.blocks)) <= pictures.BUDGET
  assert f"{len(held)} pictures are in this file" in found.note


def test_embedded_images_are_spread_evenly():
  order = pictures._spread(3600)
  assert sorted(order) == list(range(3600))
  few = sorted(order[:60])
  assert max(b - a for a, b in zip([0, *few], [*few, 3600], strict=True)) <= 128
  assert pictures._spread(1) == [0] and pictures._spread(0) == []


def test_linked_images_have_paths_relative_to_the_report(folder, tmp_path):
  found = pictures.choose("link", _KEYS, folder, tmp_path / "out" / "r.html")
  assert found.data["folder"] == "../data/my%20images/" and found.sources == "'self' file:"
  # Links are not opened.
  assert found.data["of"][:4] == ["k0.jpg", "k1.jpg", "k2.png", "k3.jpg"] and found.data["of"][-1] == -2


def test_images_that_browsers_do_not_show_are_embedded_but_not_linked(tmp_path):
  pillow_heif.register_heif_opener()
  for name, kind in (("a.heic", "HEIF"), ("b.avif", "AVIF")):
    (tmp_path / name).write_bytes(plain("red", (16, 16), kind))
  assert pictures.choose("embed", ["a", "b"], tmp_path, tmp_path / "r.html").data["of"] == [0, 1]
  linked = pictures.choose("link", ["a", "b"], tmp_path, tmp_path / "r.html")
  assert linked.data["of"] == [-2, "b.avif"] and "1 of 2 images: a" in linked.note


def test_report_images_none_or_without_a_folder(folder, tmp_path):
  assert pictures.choose("embed", _KEYS, None, tmp_path / "r.html").data == {"kind": "none"}
  assert pictures.choose("none", _KEYS, folder, tmp_path / "r.html").sources == "'none'"


def test_report_images_option_refuses_invalid_choices(tmp_path):
  with pytest.raises(UsageError, match="embed, link, none"):
    pictures.choose("draw", _KEYS, None, tmp_path / "r.html")
  with pytest.raises(UsageError, match="give the folder"):
    pictures.choose("link", _KEYS, None, tmp_path / "r.html")


def test_images_are_found_in_subfolders(tmp_path):
  for name in ("a.png", "deep/a.jpg", "deep/b.JPG", "one/c.jpg", "two/c.jpg", "deep/d.gif", "deep/e.txt"):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    Image.new("RGB", (8, 8)).save(path, "PNG")
  found = pictures.find_all(tmp_path, ["a", "b", "c", "d", "e", "../a"])
  # The name of two pictures, c, says nothing.
  assert found == {"a": tmp_path / "a.png", "b": tmp_path / "deep/b.JPG", "d": tmp_path / "deep/d.gif"}
  assert pictures.choose("embed", ["a", "b", "c"], tmp_path, tmp_path / "r.html").data["of"] == [0, 1, -2]
  linked = pictures.choose("link", ["a", "b", "c"], tmp_path, tmp_path / "r.html")
  assert linked.data["of"] == ["a.png", "deep/b.JPG", -2] and linked.note


def test_images_are_found_by_hashed_keys_of_a_folder_corpus(tmp_path):
  for name in ("one/a b.jpg", "one/c.jpg", "two/c.jpg"):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    Image.new("RGB", (8, 8)).save(tmp_path / name)
  own = {keys.hashed(path.stem, str(path.relative_to(tmp_path))): path for path in tmp_path.glob("*/*.jpg")}
  assert len(own) == 3 and pictures.find_all(tmp_path, own) == own
  assert (
    pictures.choose("link", list(own), tmp_path, tmp_path / "r.html").data["of"].count("one/a%20b.jpg") == 1
  )
