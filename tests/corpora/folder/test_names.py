"""Image file names in another case or Unicode normal form, ambiguous names, and keys in any script."""

import os
import unicodedata

from tests.corpora.folder.test_build import held, jpeg, made, write_table
from xmcap.corpora.folder.split_choice import SplitRule
from xmcap.evaluation import image_files
from xmcap.files import keys
from xmcap.pages.report import pictures

ALL = SplitRule("train:1")


def folder_of(tmp_path, *names):
  for number, name in enumerate(names):
    path = tmp_path / "photos" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(jpeg(number))
  return tmp_path / "photos"


def built(tmp_path, photos, *names):
  rows = [(name, f"a ball of {place}") for place, name in enumerate(names)]
  report = made(tmp_path, write_table(tmp_path / "t.csv", ("file", "en"), rows), photos, rule=ALL)
  return {texts["en"][0][-1]: key for key, texts in held(report.out).items()}, report.problems


def test_image_names_match_in_another_case_and_normal_form(tmp_path):
  decomposed = unicodedata.normalize("NFD", "ñan")
  photos = folder_of(tmp_path, f"{decomposed}.jpg", "IMG_2.JPG", "Day/IMG_3.jpg", "IMG_4.png")
  found, problems = built(tmp_path, photos, "ñan.jpg", "img_2.jpg", r"C:\photos\day\img_3.JPG", "img_4")
  assert found == {"0": "ñan", "1": "IMG_2", "2": "IMG_3", "3": "IMG_4"} and not problems.counts


def test_image_names_differing_in_case_are_ambiguous(tmp_path):
  photos = folder_of(tmp_path, "Img.jpg", "IMG.jpg", "cats/0.jpg", "dogs/0.jpg", "one.jpg")
  found, problems = built(tmp_path, photos, "img.jpg", "0.jpg", "one.jpg", "cats/0")
  assert set(found) == {"2", "3"} and problems.counts["same_name"] == 2
  assert problems.examples["same_name"][1] == ("t.csv, line 3", "0.jpg may be cats/0.jpg or dogs/0.jpg")
  assert built(tmp_path / "exact", folder_of(tmp_path / "exact", "Img.jpg", "IMG.jpg"), "IMG.jpg")[0] == {
    "0": "IMG"
  }


def test_image_keys_in_any_script_match_predictions(tmp_path):
  names = ["عکس ۱.jpg", "ห้าง.jpg", unicodedata.normalize("NFD", "Qosqo ñan (1).jpg"), "a/猫.jpg", "b/猫.jpg"]
  photos = folder_of(tmp_path, *names)
  found, problems = built(tmp_path, photos, *names)
  assert found["1"] == "ห้าง" and found["0"].startswith("عکس_۱-") and found["2"].startswith("Qosqo_ñan_1_-")
  assert found["3"] != found["4"] and found["3"].startswith("猫-")
  assert problems.counts == {"renamed_key": 4} and all(map(keys.is_key, found.values()))
  of_captions = image_files.keys(image_files.find([f"{photos}/**/*.jpg"]), "key")
  assert sorted(of_captions) == sorted(found.values())
  assert pictures.find_all(photos, found.values()).keys() == set(found.values())


def test_invalid_image_keys_are_refused():
  for text in (
    "",
    "a/b",
    "..",
    ".a",
    "_a",
    "a b",
    "a\u202eb",
    "a" * 129,
    unicodedata.normalize("NFD", "ñ"),
    os.fsdecode(b"\xff"),
  ):
    assert not keys.is_key(text)
