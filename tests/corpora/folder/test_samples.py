"""WebDataset samples, and images with text files beside them: which image and which caption are used."""

import json

import pytest

from tests.corpora.folder.test_build import held, jpeg, made
from tests.make.files import tarred
from xmcap.corpora.building.image_search import ByPath
from xmcap.corpora.folder.split_choice import SplitRule
from xmcap.corpora.folder.table import ColumnNames
from xmcap.data import images, records
from xmcap.errors import UsageError, XmcapError

ALL, ENGLISH = SplitRule("train:1"), ColumnNames(default_language="en")


def grey(out):
  """Key -> grey level of its picture."""
  return {
    record.key: images.decode(record.image, "")[0, 0, 0] for record in records.RecordSource(out, "train")
  }


_BALL, _BOX = ("0.txt", b"a ball"), [("1.jpg", jpeg(2)), ("1.txt", b"a box")]
_LONG = json.dumps({"caption": "a ball", "exif": "x" * (1 << 20)}).encode()
_NAN = b'\xef\xbb\xbf{"caption": "a box", "similarity": NaN, "pwatermark": [-Infinity]}'
_DOTTED = [entry for n in range(3) for entry in ((f"b.{n}.jpg", jpeg(1)), (f"b.{n}.txt", b"x y"))]
# Entries of a tar, captions of the images by key, the grey level of the first image, problems.
SAMPLES = {
  "a depth map": ([("0.depth.png", jpeg(9)), ("0.jpg", jpeg(1)), ("0.seg.png", jpeg(8)), _BALL],
                  {"0": "a ball"}, 10, {}),
  "names with dots": ([*_DOTTED, ("1.v1.jpg", jpeg(9)), ("1.v1.txt", b"x"), *_BOX],
                      {"1": "a box"}, 20, {"dotted_name": 2}),
  "two PNG and JPEG": ([("0.jpg", jpeg(1)), ("0.png", jpeg(2)), _BALL, *_BOX], {"1": "a box"}, 20, {"ambiguous": 1}),
  "two of one name": ([("0.jpg", jpeg(1)), ("0.jpg", jpeg(2)), _BALL, *_BOX], {"1": "a box"}, 20, {"ambiguous": 1}),
  "two in other case": ([("0.jpg", jpeg(1)), ("0.JPG", jpeg(2)), _BALL, *_BOX], {"1": "a box"}, 20, {"ambiguous": 1}),
  "byte order marks": ([("0.jpg", jpeg(1)), ("0.txt", b"\xef\xbb\xbfa ball\r\n"), _BOX[0], ("1.json", _NAN)],
                       {"0": "a ball", "1": "a box"}, 10, {"bom": 2}),
  "macOS": ([("._0.jpg", b"x"), ("0.jpg", jpeg(1)), ("._0.txt", b"x"), _BALL], {"0": "a ball"}, 10, {}),
  "two names of captions": ([("0.jpg", jpeg(1)), ("0.cap", b"a ball"), ("1.img", jpeg(2)), ("1.text", b"a box")],
                            {"0": "a ball", "1": "a box"}, 10, {}),
  "JSON over the size limit": ([("0.jpg", jpeg(1)), ("0.json", _LONG), *_BOX], {"1": "a box"}, 20, None),
}  # fmt: skip


@pytest.mark.parametrize(("entries", "captions", "level", "problems"), SAMPLES.values(), ids=SAMPLES)
def test_webdataset_sample_gives_an_image_and_its_caption(tmp_path, entries, captions, level, problems):
  report = made(tmp_path, tarred(tmp_path / "a.tar", *entries), None, ENGLISH, ALL)
  assert held(report.out) == {key: {"en": [text]} for key, text in captions.items()}
  assert next(iter(grey(report.out).values())) == level
  if problems is not None:
    counts = report.problems.counts
    assert {kind: count for kind, count in counts.items() if kind != "no_captions"} == problems


@pytest.mark.parametrize(
  ("name", "content", "lines"),
  [
    ("captions", b"a ball\nthe ball\n", 0),
    ("txt", b"a ball\n\n the ball", 1),
    ("json", b'["a ball", "the ball"]', 0),
    ("json", b'{"caption": ["a ball", "the ball"]}', 0),
  ],
)
def test_several_captions_beside_an_image(tmp_path, name, content, lines):
  path = tarred(tmp_path / "a.tar", ("0.jpg", jpeg(1)), (f"0.{name}", content))
  (tmp_path / "set").mkdir()
  (tmp_path / "set/0.jpg").write_bytes(jpeg(1))
  (tmp_path / f"set/0.{name}").write_bytes(content)
  for place, captions in enumerate((path, tmp_path / "set")):
    report = made(tmp_path, captions, None, ENGLISH, ALL, out=f"out{place}")
    assert held(report.out) == {"0": {"en": ["a ball", "the ball"]}}
    assert report.problems.counts.get("several_lines", 0) == lines


def test_webdataset_text_under_another_suffix_is_a_column(tmp_path):
  path = tarred(
    tmp_path / "a.tar", ("0.jpg", jpeg(1)), ("0.blip", b"a large red ball"), ("0.npy", b"\x93NUMPY\xff")
  )
  with pytest.raises(UsageError, match=r"'blip' \(looks like captions\).*--caption_columns=blip"):
    made(tmp_path, path, None, ENGLISH, ALL)
  asked = ColumnNames(captions=("blip",), default_language="en")
  assert held(made(tmp_path, path, None, asked, ALL).out) == {"0": {"en": ["a large red ball"]}}


def test_webdataset_image_of_another_name_needs_the_option(tmp_path):
  pairs = [(f"{key}.input.jpg", jpeg(1)) for key in range(2)]
  path = tarred(
    tmp_path / "a.tar", *pairs[:1], ("0.txt", b"a red ball"), ("1.jpg", jpeg(2)), ("1.txt", b"two balls")
  )
  report = made(tmp_path, path, None, ENGLISH, ALL)
  assert held(report.out) == {"1": {"en": ["two balls"]}}
  (where, what), *_ = report.problems.examples["missing"]
  assert where == "a.tar: 0" and "if 0.input.jpg is the picture, give --image_column=input" in what
  asked = made(tmp_path, path, None, ColumnNames("input", default_language="en"), ALL, out="asked")
  assert held(asked.out) == {"0": {"en": ["a red ball"]}}


def test_text_files_beside_images_are_captions(tmp_path):
  """img2dataset's folders, and those of kohya's scripts: names may have dots."""
  folder = tmp_path / "set/00000"
  folder.mkdir(parents=True)
  for number, name in enumerate(("000.jpg", "my.photo.png", "a.webp.jpg")):
    (folder / name).write_bytes(jpeg(number))
  about = {"caption": "another", "url": "http://x/0", "key": "000", "similarity": float("nan")}
  (folder / "000.json").write_text(json.dumps(about))
  (folder / "000.txt").write_text("a ball\n")
  (folder / "my.photo.caption").write_text("a box")
  (folder / "a.webp.txt").write_text("a cup")
  (folder / "a.webp.th.txt").write_text("ถ้วยใบหนึ่ง")
  (folder / "README.txt").write_text("notes")
  report = made(tmp_path, tmp_path / "set", None, ENGLISH, ALL)
  assert report.problems.examples == {"missing": [("00000/README.txt", "no picture of this name beside it")]}
  assert held(report.out) == {
    "000": {"en": ["a ball"]},
    "my.photo": {"en": ["a box"]},
    "a.webp": {"en": ["a cup"], "th": ["ถ้วยใบหนึ่ง"]},
  }


def test_json_beside_an_image_over_the_size_limit_is_not_read(tmp_path):
  for name, data in (("0.jpg", jpeg(1)), ("0.json", _LONG), *_BOX):
    (tmp_path / "set").mkdir(exist_ok=True)
    (tmp_path / "set" / name).write_bytes(data)
  assert held(made(tmp_path, tmp_path / "set", None, ENGLISH, ALL).out) == {"1": {"en": ["a box"]}}


def test_two_images_of_a_text_file_are_counted(tmp_path):
  for name in ("0.jpg", "0.png", "1.jpg"):
    (tmp_path / "set").mkdir(exist_ok=True)
    (tmp_path / "set" / name).write_bytes(jpeg(1))
  for name in ("0.txt", "1.txt", "1.caption"):
    (tmp_path / "set" / name).write_text(f"text {name[-3:]}")
  report = made(tmp_path, tmp_path / "set", None, ENGLISH, ALL)
  assert held(report.out) == {"1": {"en": ["text ion"]}}
  assert report.problems.counts == {"ambiguous": 2, "no_captions": 2}


def test_ods_workbook_is_refused(tmp_path):
  (tmp_path / "t.ods").write_bytes(b"PK\3\4")
  with pytest.raises(UsageError, match="a workbook: .* save it as `CSV UTF-8`"):
    made(tmp_path, tmp_path / "t.ods")
  assert list((tmp_path / "out").iterdir()) == []  # nothing of a build that never began


def test_image_lookup_uses_an_sql_index(tmp_path, monkeypatch):
  """Each statement about a picture uses an index, so a build grows in proportion."""
  plans = []
  asked = ByPath._two

  def explained(self, columns, condition, *values, order=""):
    marks = [value.encode() if isinstance(value, str) else value for value in values]
    query = f"EXPLAIN QUERY PLAN SELECT {columns} FROM pictures WHERE {condition} LIMIT 2"
    plans.extend(row[3] for row in self._database.execute(query, marks))
    return asked(self, columns, condition, *values, order=order)

  monkeypatch.setattr(ByPath, "_two", explained)
  made(tmp_path, tarred(tmp_path / "a.tar", ("0.jpg", jpeg(1)), ("0.txt", b"a ball")), None, ENGLISH, ALL)
  folder = tmp_path / "photos/A"
  folder.mkdir(parents=True)
  for name in ("ONE.jpg", "two.jpg"):
    (folder / name).write_bytes(jpeg(1))
  rows = [{"image": name, "en": "a red ball"} for name in ("a/one.jpg", "x/Two", "A/two.jpg", "gone.jpg")]
  (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
  made(tmp_path, tmp_path / "t.jsonl", tmp_path / "photos", rule=ALL, out="table")
  assert len(plans) > 10 and all(plan.startswith("SEARCH") for plan in plans)


@pytest.mark.parametrize("damage", ["checksum", "all of it"])
def test_damaged_first_tar_header_is_refused(damage, tmp_path):
  path = tarred(tmp_path / "a.tar", ("0.jpg", jpeg(1)), ("0.txt", b"a ball"))
  data = path.read_bytes()
  path.write_bytes(data[:148] + b"9999" + data[152:] if damage == "checksum" else b"\xff" * 512 + data[512:])
  with pytest.raises(XmcapError, match="a.tar: not a complete tar file .*: download it again"):
    made(tmp_path, path, None, ENGLISH, ALL)
