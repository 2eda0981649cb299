"""Images shared by two corpora (by id and by pixels), and builds that exclude them."""

import pytest

from tests.corpora import release_folders as releases
from tests.corpora.building.test_duplicates import photo
from tests.make import files, tiny_corpus
from tests.make.command import xmcap
from tests.make.images import encode
from xmcap.corpora.checking import shared
from xmcap.data import record_writer, records
from xmcap.data.records import Caption, Record


def record(key, shade):
  return Record(key, encode(tiny_corpus.colour(shade)), [Caption("en", "a dog")])


def write(folder, **splits):
  """A corpus of splits of (key, shade)."""
  written = [
    record_writer.write_split(
      folder, split, [pictures], lambda made: [record(*one) for one in made], dataset="toy", processes=1
    )
    for split, pictures in splits.items()
  ]
  record_writer.write_metadata(folder, written, dataset="toy")
  return folder


@pytest.fixture
def corpora(tmp_path):
  one = write(
    tmp_path / "one",
    test=[("COCO_val2014_000000000007", 1), ("a", 2), ("COCO_train2014_000000000008", 3), ("alone", 4)],
    train=[("b", 5)],
  )
  other = write(
    tmp_path / "other",
    train=[
      ("000000000007", 1),
      ("renamed", 2),
      ("again", 2),
      ("000000000008", 30),
      ("00000008", 40),
      ("b", 50),
    ],
  )
  return one, other


def test_shared_images_are_found_by_id_and_by_pixels(corpora, tmp_path):
  found = shared.find(corpora[0], [corpora[1]], tmp_path / "out", processes=1)
  name = str(corpora[1])
  assert found == [
    shared.SharedCounts("test", name, "train", by_id=2, by_pixels=2, pictures=3),
    shared.SharedCounts("train", name, "train", by_id=1, by_pixels=0, pictures=1),
  ]
  rows = files.rows(tmp_path / "out" / "shared.jsonl")
  assert [(row["key"], row["other_key"], row["by"]) for row in rows] == [
    ("COCO_val2014_000000000007", "000000000007", ["id", "pixels"]),
    ("a", "renamed", ["pixels"]),
    ("a", "again", ["pixels"]),
    ("COCO_train2014_000000000008", "000000000008", ["id"]),
    ("b", "b", ["id"]),
  ]
  assert [path.name for path in (tmp_path / "out").iterdir()] == ["shared.jsonl"]


def test_shared_images_of_a_split_with_several_corpora(corpora, tmp_path):
  third = write(tmp_path / "third", test=[("b", 9)])
  found = shared.find(corpora[0], [corpora[1], third], tmp_path / "out", splits=["train"], processes=1)
  assert [(row.split, row.other_split, row.pictures) for row in found] == [
    ("train", "train", 1),
    ("train", "test", 1),
  ]


def test_pictures_that_look_alike_are_counted_apart(tmp_path):
  small, large = (encode(photo(1).resize(size), "JPEG") for size in ((120, 90), (240, 180)))

  def corpus(folder, **pictures):
    made = [Record(key, data, [Caption("en", "a dog")]) for key, data in pictures.items()]
    written = record_writer.write_split(folder, "train", [made], list, dataset="toy", processes=1)
    record_writer.write_metadata(folder, [written], dataset="toy")
    return folder

  one = corpus(tmp_path / "one", a=small, b=encode(photo(2)))
  other = corpus(tmp_path / "other", c=large, d=large, b=encode(photo(2)), e=encode(photo(3)))
  counts = shared.find(one, [other], tmp_path / "out", processes=1)
  assert counts == [shared.SharedCounts("train", str(other), "train", 1, 1, 1, alike=1)]
  rows = files.rows(tmp_path / "out/shared.jsonl")
  assert [(row["key"], row["other_key"], row["by"]) for row in rows] == [
    ("b", "b", ["id", "pixels"]), ("a", "c", ["look"]),
  ]  # fmt: skip


def test_data_check_against_reports_shared_images(corpora, tmp_path):
  one, other = corpora
  said = xmcap("data", "check", one, f"--against={other}", "--processes=1").succeeded().out
  assert ["test", str(other), "train", "3", "2", "2", "0"] in [line.split() for line in said.splitlines()]
  assert (one / "shared.jsonl").exists()
  third = write(tmp_path / "third", test=[("c", 9)])
  result = xmcap("data", "check", one, f"--against={third}", f"--out={tmp_path}/out", "--processes=1")
  result.succeeded("no picture is in another corpus")


@pytest.mark.parametrize(
  ("against", "message"), [("absent", "absent is not a corpus"), ("one", "the corpus itself: name another")]
)
def test_data_check_against_usage_errors_are_one_line(corpora, against, message):
  folder = corpora[0].parent / against
  xmcap("data", "check", corpora[0], f"--against={folder}", "--processes=1").refused(message)


def build(release, out, *options):
  command = ("data", "build", "coco35l", f"--release={release.folder}", f"--out={out}", "--processes=1")
  return xmcap(*command, *options)


@pytest.fixture(scope="module")
def coco(tmp_path_factory):
  return releases.write_coco35l(tmp_path_factory.mktemp("coco"), images=5, dev=2, languages=("de", "th"))


def test_excluded_pictures_are_not_in_train(coco, tmp_path):
  build(coco, tmp_path / "whole").succeeded()
  keys = {
    split: [one.key for one in records.RecordSource(tmp_path / "whole", split)]
    for split in ("train", "validation")
  }
  # As COCO-CN's lists have them: with the folder in the name, and the second list without a final line end.
  (tmp_path / "test.txt").write_text(f"COCO_train2014_{keys['train'][1]}\n{int(keys['train'][3])}\n")
  (tmp_path / "val.txt").write_text(f"COCO_val2014_{keys['validation'][0]}")
  lists = [f"--exclude={tmp_path / name}" for name in ("test.txt", "val.txt")]
  excluded = "2  excluded: pictures that --exclude names; left out. First: test.txt, line 1: "
  build(coco, tmp_path / "part", *lists, "--on_bad=stop").succeeded(excluded)
  train = [one.key for one in records.RecordSource(tmp_path / "part", "train")]
  assert train == [key for place, key in enumerate(keys["train"]) if place not in (1, 3)]
  assert len(records.RecordSource(tmp_path / "part", "validation")) == 2
  whole = {one.key: one for one in records.RecordSource(tmp_path / "whole", "train")}
  assert all(one == whole[one.key] for one in records.RecordSource(tmp_path / "part", "train"))


def test_changed_exclude_list_is_another_build(coco, tmp_path):
  (tmp_path / "none.txt").write_text("42424242\n")
  build(coco, tmp_path / "out", f"--exclude={tmp_path / 'none.txt'}").succeeded()
  build(coco, tmp_path / "out").refused("with exclude0=")


def test_exclude_list_with_two_ids_on_a_line_is_refused(coco, tmp_path):
  (tmp_path / "ids.txt").write_text("COCO_val2014_000000000001COCO_val2014_000000000002\n")
  result = build(coco, tmp_path / "out", f"--exclude={tmp_path / 'ids.txt'}")
  result.refused("ids.txt, line 1: COCO_val2014_000000000001COCO")
