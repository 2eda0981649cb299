"""Files of captions: several as one corpus, the language in their names, captions by line, and damaged files."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.corpora.folder.test_build import held, jpeg, made
from tests.make import files
from tests.make.refusals import refusal
from xmcap.corpora.folder import sources
from xmcap.corpora.folder.split_choice import SplitRule
from xmcap.corpora.folder.table import ColumnNames
from xmcap.errors import XmcapError

ALL, ENGLISH = SplitRule("train:1"), ColumnNames(default_language="en")
TEXTS = {"en": "a red ball {}", "de": "ein roter Ball {}", "th": "ลูกบอลสีแดง {}"}


@pytest.fixture
def photos(tmp_path):
  for number in range(9):
    files.text(tmp_path / f"photos/p{number}.jpg", jpeg(number))
  return tmp_path / "photos"


def csv(path, language, count=2):
  rows = ((f"p{number}.jpg", TEXTS[language].format(number)) for number in range(count))
  return files.csv(path, ("file", "caption"), *rows)


def jsonl(path, language):
  return files.jsonl(path, *({"image": f"p{n}", "text": TEXTS[language].format(n)} for n in range(2)))


def by_line(path, language, count=2):
  return files.lines(path, *(TEXTS[language].format(number) for number in range(count)))


def expected(*languages, count=2):
  return {
    f"p{number}": {language: [TEXTS[language].format(number)] for language in languages}
    for number in range(count)
  }


@pytest.mark.parametrize(
  ("write", "names"),
  [
    (csv, {"captions_de.csv": "de", "captions_th.csv": "th"}),
    (csv, {"German.csv": "de", "test-th-00000-of-00001.csv": "th"}),
    (csv, {"de_train.csv": "de", "th_train.csv": "th"}),
    (jsonl, {"de/test.jsonl": "de", "th/test.jsonl": "th"}),
    (jsonl, {"deu_Latn.jsonl": "de", "tha_Thai.jsonl": "th"}),
    (by_line, {"train.de": "de", "train.th": "th"}),
    (by_line, {"test_1k_de.txt": "de", "test_1k_th.txt": "th"}),
  ],
)
@pytest.mark.parametrize("way", ["folder", "files", "pattern"])
def test_files_named_by_their_languages_are_one_corpus(tmp_path, photos, write, names, way):
  paths = [write(tmp_path / "set" / name, language) for name, language in names.items()]
  files.lines(tmp_path / "set/train_test_images.txt", "p0.jpg", "p1.jpg")
  common = tmp_path / "set"
  captions = {"folder": common, "files": paths, "pattern": common / "**/*[!s].*"}[way]
  assert held(made(tmp_path, captions, photos, None, ALL).out) == expected("de", "th")


def test_a_single_file_is_read_in_the_language_of_its_name(tmp_path, photos):
  report = made(tmp_path, csv(tmp_path / "captions_de.csv", "de"), photos, None, ALL)
  assert held(report.out) == expected("de")
  path = csv(tmp_path / "image_id.csv", "de")
  assert "the language of 'caption' is unknown" in refusal(made, tmp_path, path, photos, None, ALL, "out2")


def test_language_that_contradicts_file_names_is_refused_or_counted(tmp_path, photos):
  paths = [csv(tmp_path / f"c_{language}.csv", language) for language in ("de", "th")]
  message = refusal(made, tmp_path, paths, photos, ENGLISH, ALL)
  assert "--language=en, but the files are named by several languages, such as c_de.csv by de" in message
  report = made(tmp_path, paths[0], photos, ENGLISH, ALL)
  assert report.problems.examples["other_language"] == [
    ("c_de.csv", "is named by de, but read as --language=en")
  ]
  own = ColumnNames(captions=("de=caption",))
  assert not made(tmp_path, paths[1], photos, own, ALL, out="own").problems.counts.get("other_language")


@pytest.mark.parametrize("language", ["de", "th"])
def test_captions_in_another_language_are_noticed(tmp_path, photos, language):
  report = made(tmp_path, csv(tmp_path / "c.csv", language, 9), photos, ENGLISH, ALL)
  ((_, what),) = report.problems.examples["other_language"]
  assert what.startswith("9 of 9 captions in 'en' look like ") and f"({language})" in what
  report = made(tmp_path, csv(tmp_path / "e.csv", "en", 9), photos, ENGLISH, ALL, out="right")
  assert "other_language" not in report.problems.counts


def test_captions_by_line_need_as_many_pictures(tmp_path, photos):
  by_line(tmp_path / "set/train.de", "de", 3)
  assert "or put a list of the pictures" in refusal(made, tmp_path, tmp_path / "set", photos, None, ALL)
  files.lines(tmp_path / "set/train_images.txt", "p0.jpg#0", "p1.jpg#0")
  files.lines(tmp_path / "set/val_images.txt", "p2.jpg#0")
  message = refusal(made, tmp_path, tmp_path / "set", photos, None, ALL)
  assert "train_images.txt: line 3 has no partner in the other" in message
  files.lines(tmp_path / "set/train_images.txt", *(f"p{number}.jpg#0" for number in range(3)))
  assert held(made(tmp_path, tmp_path / "set", photos, None, ALL).out) == expected("de", count=3)


@pytest.mark.parametrize(
  ("names", "message"),
  [
    (("a.csv", "b.csv"), "contains several tables, not all named by a language (a.csv, b.csv): give those to read"),
    (("c_en.csv", "c_de.csv", "stats.csv"), "not all named by a language (stats.csv, c_de.csv, c_en.csv)"),
    (("readme.md",), "contains no .tar, .parquet or .arrow file, no table"),
    (("a.jpg", "a.prompt"), "no .txt beside a picture: rename those with captions (.prompt) to .txt"),
  ],
)  # fmt: skip
def test_folders_without_one_set_of_captions_are_refused(tmp_path, names, message):
  for name in names:
    files.text(tmp_path / name, "file,caption\np0.jpg,x\n")
  assert message in refusal(sources.find, tmp_path, ColumnNames())


def test_files_of_several_kinds_are_refused(tmp_path):
  paths = [files.text(tmp_path / name) for name in ("a.csv", "b.tar")]
  assert "of several kinds" in refusal(sources.find, paths, ColumnNames())
  assert "does not exist" in refusal(sources.find, tmp_path / "no_*.csv", ColumnNames())


def _tar(path, numbers):
  entries = [(f"{n}.jpg", jpeg(n)) for n in numbers] + [(f"{n}.txt", b"a ball") for n in numbers]
  return files.tarred(path, *sorted(entries)).read_bytes()


def _parquet(path, numbers):
  rows = [{"image": {"bytes": jpeg(n), "path": f"{n}.jpg"}, "text": "a ball"} for n in numbers]
  pq.write_table(pa.Table.from_pylist(rows), path)
  return path.read_bytes()


def _arrow(path, numbers):
  rows = [{"image": {"bytes": jpeg(n), "path": f"{n}.jpg"}, "text": "a ball"} for n in numbers]
  table = pa.Table.from_pylist(rows)
  with pa.ipc.new_stream(path, table.schema) as stream:
    stream.write_table(table)
  return path.read_bytes()


def _gzip(path, numbers):
  del path
  text = "".join(f'{{"image": "p{n}.jpg", "text": "a ball"}}\n' for n in numbers)
  return gzip.compress(text.encode())


@pytest.mark.parametrize(
  ("name", "write", "cut", "left"),
  [
    ("{}.tar", _tar, lambda data: data[:2600], 5),
    ("{}.tar", _tar, lambda data: b"", 4),
    ("{}.tar", _tar, lambda data: b"<html>" * 200, 4),
    ("{}.parquet", _parquet, lambda data: data[:-300], 4),
    ("{}.arrow", _arrow, lambda data: data[:-700], 4),
    ("{}.jsonl.gz", _gzip, lambda data: data[:-10], 4),
  ],
)
def test_a_damaged_file_of_several_costs_its_own_pictures(tmp_path, photos, name, write, cut, left):
  (tmp_path / "set").mkdir()
  for place, numbers in enumerate(((0, 1), (2, 3), (4, 5))):
    path = tmp_path / "set" / name.format(place)
    data = write(path, numbers)
    path.write_bytes(cut(data) if place == 1 else data)
  captions = tmp_path / "set/*.gz" if name.endswith("gz") else tmp_path / "set"
  report = made(tmp_path, captions, photos if name.endswith("gz") else None, ENGLISH, ALL)
  assert len(held(report.out)) == left
  ((where, what),) = report.problems.examples["truncated"]
  assert where == name.format(1) and "is lost" in what
  alone = tmp_path / "set" / name.format(1)
  if left == 4:
    with pytest.raises(XmcapError, match=str(alone)):
      made(tmp_path, alone, photos, ENGLISH, ALL, out="alone")


def test_pictures_are_found_by_the_url_of_img2dataset(tmp_path):
  for number in range(2):
    files.text(tmp_path / f"set/00000000{number}.jpg", jpeg(number))
    files.json(tmp_path / f"set/00000000{number}.json", {"url": f"https://x.org/{number}.jpg?w=1"})
  urls = [f"https://x.org/{number}.jpg?w=1" for number in range(3)]
  tables = {
    "a.tsv": "caption\turl\n" + "".join(f"a ball\t{url}\n" for url in urls),
    "sbu.json": {"image_urls": urls, "captions": ["a ball"] * 3},
    "redcaps.json": {"annotations": [{"image_id": f"x{n}", "url": urls[n], "caption": "a ball"} for n in range(3)]},
  }  # fmt: skip
  for name, content in tables.items():
    path = files.write(tmp_path / name, content)
    report = made(tmp_path, path, tmp_path / "set", ENGLISH, ALL, out=f"out of {name}")
    assert held(report.out) == {f"00000000{number}": {"en": ["a ball"]} for number in range(2)}
    assert report.problems.counts["missing"] == 1


def test_coco_captions_without_their_pictures_are_found_by_id(tmp_path):
  rows = [{"image_id": number, "id": number, "caption": "a ball"} for number in (1, 2)]
  files.text(tmp_path / "photos/000000000001.jpg", jpeg(1))
  files.text(tmp_path / "photos/COCO_val2014_000000000002.jpg", jpeg(2))
  path = files.json(tmp_path / "captions.json", {"annotations": rows})
  out = made(tmp_path, path, tmp_path / "photos", ENGLISH, ALL).out
  assert held(out) == {"000000000001": {"en": ["a ball"]}, "COCO_val2014_000000000002": {"en": ["a ball"]}}
