"""Copies of a picture in several splits of a release, and the hashes that find them."""

import shutil

import numpy as np
import pytest
from PIL import Image

from tests.corpora import release_folders as releases
from tests.make.command import xmcap
from tests.make.images import encode
from xmcap.corpora.building import duplicates
from xmcap.corpora.building.problems import KINDS
from xmcap.data import images


def build(release, out, *options):
  command = ("data", "build", "coco35l", f"--release={release.folder}", f"--out={out}", "--processes=1")
  return xmcap(*command, *options)


@pytest.fixture
def leaking(tmp_path):
  """A release of COCO-35L whose first validation picture is also a training picture."""
  folder = tmp_path / "release"
  release = releases.write_coco35l(folder, images=5, dev=2, languages=("de",))
  keys = {split: list(records_of) for split, records_of in release.expected.items()}
  train, validation = (next(folder.rglob(f"*{keys[split][0]}.jpg")) for split in ("train", "validation"))
  shutil.copy(train, validation)
  return release, keys


def test_pictures_in_several_splits_of_a_release_are_counted(leaking, tmp_path):
  release, keys = leaking
  train, validation = keys["train"][0], keys["validation"][0]
  pair = f"{validation}: validation: the same pixels as {train} of train"
  kept = build(release, tmp_path / "out").succeeded(
    f"1  in_other_split: {KINDS['in_other_split'].text}; used. First: {pair}"
  )
  assert "Karpathy's" in kept.err and "restval" in kept.err
  refused = build(release, tmp_path / "refused", "--duplicates=refuse")
  refused.refused("1 pictures are in several splits", "or give --duplicates=keep", code=1)
  merged = build(release, tmp_path / "merged", "--duplicates=merge")
  merged.refused("--duplicates=merge: the records of a release stay as they are: choose keep or refuse")
  said = xmcap("data", "check", tmp_path / "out", "--processes=1").succeeded().out
  assert f"first: {validation}: the same pixels as {train} of train" in said


def photo(seed):
  """A smooth picture of random colours, with some noise, as a photograph has."""
  random = np.random.default_rng(seed)
  coarse = Image.fromarray(random.integers(0, 256, (5, 6, 3), np.uint8)).resize(
    (240, 180), Image.Resampling.BICUBIC
  )
  return Image.fromarray(
    (np.asarray(coarse) + random.normal(0, 4, (180, 240, 3))).clip(0, 255).astype(np.uint8)
  )


def hashes(data):
  pixels = images.decode(data, "a")
  return duplicates.pixel_hash(pixels), duplicates.difference_hash(pixels)


def test_pixels_are_hashed_whatever_the_file():
  jpeg = encode(photo(1), "JPEG")
  commented = jpeg[:2] + b"\xff\xfe\x00\x07about" + jpeg[2:]
  png = encode(images.decode(jpeg, "a"))
  assert hashes(jpeg) == hashes(commented) == hashes(png)
  turned = np.zeros((2, 3, 3), np.uint8)
  assert duplicates.pixel_hash(turned) != duplicates.pixel_hash(turned.transpose(1, 0, 2))


def test_resized_and_compressed_pictures_look_alike_and_others_do_not():
  made = [photo(seed) for seed in range(20)]
  smaller = [image.resize((160, 120), Image.Resampling.LANCZOS) for image in made]
  looks = np.array([hashes(encode(image, "JPEG", quality=95))[1] for image in made], np.uint64)
  others = np.array([hashes(encode(image, "JPEG", quality=70))[1] for image in reversed(smaller)], np.uint64)
  pairs = list(duplicates.alike(looks, others, "", None))
  assert len(pairs) >= 15 and all(index + nearest == 19 for index, nearest in pairs)
  plain = duplicates.difference_hash(np.full((20, 20, 3), 7, np.uint8))
  assert plain == 0 and list(duplicates.alike(np.zeros(3, np.uint64), others, "", None)) == []


def test_looks_of_too_many_pairs_are_not_compared_and_that_is_said(monkeypatch):
  looks, said = np.full(3, 0x0F0F0F0F, np.uint64), []
  assert list(duplicates.alike(looks, looks, "a, b", said.append)) == [(0, 0), (1, 0), (2, 0)] and not said
  monkeypatch.setattr(duplicates, "MOST_COMPARED", 8)
  assert list(duplicates.alike(looks, looks, "a, b", said.append)) == []
  assert said == ["a, b: too many pictures to look for those that are alike"]
