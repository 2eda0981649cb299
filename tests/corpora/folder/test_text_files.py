"""Captions in CSV, TSV, JSONL, JSON and xlsx: read correctly, or refused in one line that names the remedy."""

import base64
import bz2
import gzip
import io
import json
import lzma
import zipfile

import pytest

from tests.make import images, workbook
from tests.make.command import xmcap
from xmcap.corpora.building.options import BuildInProgress
from xmcap.corpora.folder import sources, staging
from xmcap.corpora.folder.table import ColumnNames
from xmcap.data import records
from xmcap.reading.references import read_references


@pytest.fixture
def photos(tmp_path):
  for number in range(4):
    images.files(tmp_path / "images", f"p{number}.jpg", color=40 * number, size=(16, 12))
  return tmp_path


@pytest.fixture
def build(photos):
  """Builds from a file, with this text if any; returns exit code, what was printed, captions by key, and problems."""

  def run(name, text, *options):
    out = photos / "out"
    if text is not None:
      text = text if isinstance(text, str) else json.dumps(text)
      (photos / name).write_text(text, "utf-8", newline="")
    common = ("--processes=1", "--splits=train:1", f"--out={out}")
    said = xmcap("data", "build", "folder", f"--captions={photos / name}", *common, *options)
    problems = [json.loads(line) for line in _lines(out / "problems.jsonl")]
    held = {}
    if said.code == 0:
      held = {r.key: [(c.language, c.text) for c in r.captions] for r in records.RecordSource(out, "train")}
    return said.code, said.out + said.err, held, problems

  return run


def _lines(path):
  return path.read_text("utf-8").splitlines() if path.exists() else []


def english(*texts):
  return {f"p{number}": [("en", text)] for number, text in enumerate(texts)}


def test_recognized_columns_are_printed_and_kept(build, photos):
  code, said, held, _ = build("c.csv", "File,Quechua,raw\np0.jpg,huk wasi,a b c\np1.jpg,huk misi,d e f\n")
  assert code == 0 and held == {"p0": [("quz", "huk wasi")], "p1": [("quz", "huk misi")]}
  assert "\n  Quechua  caption quz  Cusco Quechua, by its name\n" in said and "the release" not in said
  about = json.loads((photos / "out/folder.json").read_text("utf-8"))
  assert {name: column["role"] for name, column in about["columns"].items()} == {
    "File": "picture", "Quechua": "caption", "raw": "ignored",
  }  # fmt: skip


def test_resumed_build_prints_the_recognized_columns(photos):
  (photos / "c.csv").write_text("file,en,raw\np0.jpg,a dog,a b c\n")
  said, problems = [], []
  for _ in range(2):
    work = BuildInProgress(photos, say=said.append)
    assert staging.read(work, sources.find(photos / "c.csv", ColumnNames()), ColumnNames()) == 1
    problems.append(work.problems.counts)
  assert said[:5] == said[5:] and said[0] == "columns of c.csv:" and problems == [{"unread_column": 1}] * 2
  assert said[4] == "to read all captions: --caption_columns=en=en,LANGUAGE=raw"


def test_unused_column_of_captions_is_a_counted_problem(build):
  text = "file,en,raw,tags\np0.jpg,a,huk jatun wasi,x\np1.jpg,b,huk juchuy misi,y\n"
  _, _, held, problems = build("c.csv", text)
  assert held == english("a", "b")
  (problem,) = [problem for problem in problems if problem["kind"] == "unread_column"]
  assert problem["what"] == "'raw' looks like captions: --caption_columns=en=en,LANGUAGE=raw"


def test_caption_columns_option(build):
  _, _, held, problems = build(
    "c.csv", "file,Persian,x\np0.jpg,گل,misi\n", "--caption_columns=fa=persian,quz=X"
  )
  assert held == {"p0": [("fa", "گل"), ("quz", "misi")]}
  assert {problem["kind"] for problem in problems} == {"no_captions"}


def _coco(id, image_id):
  return {
    "images": [{"id": id, "file_name": "p0.jpg"}, {"id": 6, "file_name": "p1.jpg"}],
    "annotations": [{"id": 1, "image_id": image_id, "caption": "a dog"}],
  }


_QUECHUA = {"p0": [("quz", "misi")]}
_FLICKR30K = """image_name| comment_number| comment
p0.jpg| 0| A "big" dog .
p0.jpg| 1| "Dog" .
p1.jpg| 4   A cat .
"""
CAPTIONS = {
  "Quechua as qu": ("c.csv", "file,language,caption\np0.jpg,qu,misi\n", _QUECHUA),
  "Quechua by its name": ("c.csv", "file,language,caption\np0.jpg,Quechua,misi\n", _QUECHUA),
  "Quechua as quz": ("c.csv", "file,language,caption\np0.jpg,quz,misi\n", _QUECHUA),
  "literal quotation marks": (
    "c.tsv", 'caption\tfile\n"a" dog\tp0.jpg\n5" tall\tp1.jpg\n"open\tp2.jpg\n"whole"\tp3.jpg\n',
    english('"a" dog', '5" tall', '"open', '"whole"'),
  ),
  "balanced quotation marks": (
    "c.tsv", 'caption\tfile\n"a ""red"" dog"\tp0.jpg\n"two\nlines"\tp1.jpg\n', english('a "red" dog', "two lines"),
  ),
  "several lines": (
    "c.csv", 'file,en\np0.jpg,"one, two\nthree, four"\np1.jpg,b\n', english("one, two three, four", "b")
  ),
  "a long cell": (
    "c.csv", f"image,caption,remark\np0.jpg,a dog,x\np1.jpg,a cat,{'a ball ' * 30_000}\n", english("a dog", "a cat")
  ),
  "Flickr30k": (
    "results.csv", _FLICKR30K, {"p0": [("en", 'A "big" dog .'), ("en", '"Dog" .')], "p1": [("en", "A cat .")]}
  ),
  "Flickr8k": ("Flickr8k.token.txt", "p0.jpg#0\ta dog\np1.jpg#0\ta cat\n", english("a dog", "a cat")),
  "Flickr30k's tokens": ("results_20130124.token", "p0.jpg#0\ta dog\np1.jpg#0\ta cat\n", english("a dog", "a cat")),
  "Flickr8k-CN": ("human.txt", "p0#zhm#0 a dog\np1#zhm#0 a cat\n", english("a dog", "a cat")),
  "Flickr8k with a header": ("captions.txt", "image,caption\np0.jpg,a dog\np1.jpg,a cat\n", english("a dog", "a cat")),
  "an index of pandas": ("c.csv", ",file,caption\n0,p0.jpg,a dog\n1,p1.jpg,a cat\n", english("a dog", "a cat")),
  "names with dots": (
    "c.csv", "file,en\n22.05,a\na.v1.jpg,b\n", {"22.05": [("en", "a")], "a.v1": [("en", "b")]}
  ),
  **{
    f"COCO {ids}": ("coco.json", _coco(*ids), english("a dog"))
    for ids in [(5, "5"), ("5", 5), (5, 5.0), (5.0, "5"), (5, "0000005"), ("5.0", 5)]
  },
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "captions"), CAPTIONS.values(), ids=CAPTIONS)
def test_file_gives_these_captions(build, photos, name, content, captions):
  images.files(photos / "images", "22.05.png")
  images.files(photos / "images", "a.v1.jpg", color=99)
  assert build(name, content, "--language=en")[2] == captions


@pytest.mark.parametrize(
  ("text", "line"),
  [
    ('file,en\np0.jpg,a\np1.jpg,"b\np2.jpg,c\np3.jpg,"d"\n', 3),
    ('file,en\np0.jpg,a\np1.jpg,"b\np2.jpg,c\np3.jpg,d\n', 3),
    ('file,en\np0.jpg,"a\np1.jpg,b\np2.jpg,c"\np3.jpg,d\n', 2),
  ],
)
def test_csv_unclosed_quotation_mark_names_the_line(build, text, line):
  code, said, _, _ = build("c.csv", text)
  assert code == 2 and f"c.csv, line {line}: " in said and "quot" in said


@pytest.mark.parametrize(
  ("name", "text"), [("c.csv", "p0.jpg,a ball\np1.jpg,a cat\n"), ("c.tsv", "http://x/1.jpg\ta ball\n")]
)
def test_table_without_a_header_is_refused(build, name, text):
  code, said, _, _ = build(name, text, "--language=en")
  assert code == 2 and "line 1: is a row, not the names of columns" in said


def turns(*answers):
  return [turn for answer in answers for turn in ({"from": "human", "value": "<image>\nx"}, answer)]


def test_conversations_jsonl_is_read(build):
  rows = [
    {"id": "0", "image": "p0.jpg", "conversations": turns({"from": "gpt", "value": "a dog"})},
    {"id": "1", "image": "p1.jpg", "conversations": turns({"role": "assistant", "content": "a cat<image>"})},
    {"id": "2", "image": "p2.jpg", "conversations": turns(*[{"from": "gpt", "value": "red"}] * 2)},
  ]
  _, _, held, problems = build("blip.json", rows, "--language=en")
  assert held == english("a dog", "a cat")
  assert [p["where"] for p in problems if p["kind"] == "several_answers"] == ["blip.json[2]"]


def test_unknown_coco_image_ids_are_counted(build):
  document = {
    "images": [{"id": "05", "file_name": "p0.jpg"}, {"id": "5", "file_name": "p1.jpg"}],
    "annotations": [{"image_id": image, "caption": "a dog"} for image in (5, "x", 5.5, True)],
  }
  code, said, held, problems = build("coco.json", document, "--language=en")
  assert code == 0 and held == {"p1": [("en", "a dog")]}
  what = {problem["kind"]: problem["what"] for problem in problems}
  assert what["unknown_id"] == "image_id x (str) is not among the images, such as 05 (str)"
  assert "True" in what["missing_field"]


def test_ambiguous_image_name_in_two_folders(build, photos):
  images.files(photos / "images", "cats/0.jpg", "dogs/0.jpg")
  text = "file,en\n0.jpg,a\ncats/0.jpg,b\np0.jpg,c\n"
  _, said, _, problems = build("c.csv", text)
  same = [problem for problem in problems if problem["kind"] == "same_name"]
  assert [(p["where"], p["what"]) for p in same] == [
    ("c.csv, line 2", "0.jpg may be cats/0.jpg or dogs/0.jpg")
  ]
  assert "missing:" not in said


def test_captions_with_lost_letters_are_counted(build):
  text = "file,fa,sw\np0.jpg,???? ??,paka\np1.jpg,گل,ua?\np2.jpg,Ø³Ù„Ø§Ù…,5\n" + "p3.jpg,گل,ua\n" * 7
  _, _, held, problems = build("c.csv", text)
  assert held == {
    "p0": [("sw", "paka")], "p1": [("fa", "گل"), ("sw", "ua?")], "p2": [("fa", "Ø³Ù„Ø§Ù…"), ("sw", "5")],
    "p3": [("fa", "گل"), ("sw", "ua")],
  }  # fmt: skip
  found = {problem["kind"]: problem["where"] for problem in problems}
  assert found["lost_letters"] == "c.csv, line 2" and found["other_script"] == "c.csv, line 4"


@pytest.mark.parametrize("options", [(), ("--caption_columns=fa=Persian,sw=Swahili",)])
def test_caption_column_of_question_marks_is_refused(build, photos, options):
  code, said, _, _ = build("c.csv", "file,Persian,Swahili\n" + "p0.jpg,???? ??,paka\n" * 3, *options)
  error = "c.csv: the captions of 'Persian' are question marks: another program lost their letters when it saved them"
  assert code and error in said and "save the table as `CSV UTF-8`" in said and not (photos / "out").exists()
  assert build("c.csv", "file,Persian,Swahili\np0.jpg,?? ??,paka\n", "--caption_columns=sw=Swahili")[0] == 0


def test_table_with_over_10_percent_bad_lines_is_refused(build, photos):
  whole = "p2.jpg,گل,paka\n".encode()
  (photos / "c.csv").write_bytes(b"file,fa,sw\np0.jpg,,\xf1a\np1.jpg,?? ?,ua\n" + 17 * whole)
  code, said, _, problems = build("c.csv", None)
  assert code and "c.csv: 2 of 19 lines have question marks for captions, or are not UTF-8: " in said
  assert {problem["kind"] for problem in problems} == {"bad_utf8", "lost_letters"}
  with open(photos / "c.csv", "ab") as file:
    file.write(whole)
  assert build("c.csv", None)[0] == 0


@pytest.mark.parametrize(
  ("text", "words", "kinds"),
  [
    (
      "Foto;Notiz\nx;zwei große Bälle\n",
      ("no column names the picture", "'Foto'", "'Notiz' (looks like captions", "--image_column=NAME"),
      {"unread_column"},
    ),
    (
      "file,notes\np0.jpg,two big balls\np1.jpg\n",
      ("no column with captions", "'notes'", "--caption_columns=LANGUAGE=notes", "1 missing_field"),
      {"unread_column", "missing_field"},
    ),
    (
      "file,en\np0.jpg\n,b\np2.jpg,a,b\n",
      ("3 missing_field", "c.csv, line 2", "problems.jsonl"),
      {"missing_field"},
    ),
    (
      "file,fa\np9.jpg,b\n,?\nx/p8.jpg,a\n",
      ("2 missing ", "1 missing_field", "2 other_script", "4 no_captions"),
      {"missing", "missing_field", "other_script", "no_captions"},
    ),
  ],
)
def test_table_without_usable_lines_is_refused(build, text, words, kinds):
  code, said, _, problems = build("c.csv", text)
  error = said[said.index("xmcap: error:") :]
  assert code and error.count("\n") == 1 and all(word in error for word in words), error
  assert {problem["kind"] for problem in problems} == kinds


@pytest.mark.parametrize(
  ("size", "words"),
  [
    ("100", ("--vocabulary=train:100: ", "give at least 3", "the records are built")),
    ("99", ("too few", "100 to 9999999")),
    ("10000000", ("too many", "100 to 9999999")),
    ("many", ("no number", "100 to 9999999")),
  ],
)
def test_vocabulary_option_refuses_invalid_sizes(build, size, words):
  code, said, _, _ = build("c.csv", "file,en\np0.jpg,a dog and a cat\n", f"--vocabulary=train:{size}")
  assert code == 2 and all(word in said for word in words) and "INTERNAL" not in said


def test_vocabulary_is_smaller_for_little_text(build):
  code, said, _, _ = build("c.csv", "file,en\np0.jpg,a dog and a cat\n", "--vocabulary=train:9999")
  assert code == 0 and " tokens; the text of train has no more\n" in said


_TEXTS = ["a dog on a mat", "two cats play", "one red house", "a man walks"]
_ROWS = [{"image": f"p{number}.jpg", "caption": text} for number, text in enumerate(_TEXTS)]
_TABLE = "image,caption\n" + "".join(f"{row['image']},{row['caption']}\n" for row in _ROWS)
_BY_ID = {f"p{number}": text for number, text in enumerate(_TEXTS)}
_MSR_VTT = {
  "videos": [{"video_id": key, "split": "train"} for key in _BY_ID],
  "sentences": [{"video_id": key, "caption": text, "sen_id": 0} for key, text in _BY_ID.items()],
}
_TEXTCAPS = {
  "data": [
    {"image_id": key, "image_path": f"train/{key}.jpg", "caption_str": text, "reference_strs": [text, "another"]}
    for key, text in _BY_ID.items()
  ]
}  # fmt: skip


@pytest.mark.parametrize(
  ("name", "text"),
  [
    ("c.csv", "sep=;\n" + _TABLE.replace(",", ";")),
    ("c.csv", "image,captions\n" + "".join(f"{key}.jpg,['{text}']\n" for key, text in _BY_ID.items())),
    (
      "c.csv",
      "image,caption_1,caption_2\n" + "".join(f"{key}.jpg,{text},\n" for key, text in _BY_ID.items()),
    ),
    ("videodatainfo.json", _MSR_VTT),
    ("TextCaps_0.1_train.json", _TEXTCAPS),
    ("ids.json", _BY_ID),
    ("ids.json", {key: [{"caption": text}] for key, text in _BY_ID.items()}),
    ("rows.json", {"rows": _ROWS}),
    ("split.json", {"columns": ["image", "caption"], "data": [list(row.values()) for row in _ROWS]}),
    ("columns.json", {name: {str(n): row[name] for n, row in enumerate(_ROWS)} for name in _ROWS[0]}),
    ("index.json", {str(number): row for number, row in enumerate(_ROWS)}),
    ("lists.json", {name: [row[name] for row in _ROWS] for name in _ROWS[0]}),
  ],
)
def test_folder_build_reads_reference_files_of_score(build, photos, name, text):
  code, said, captions, _ = build(name, text, "--language=en")
  assert code == 0 and captions == english(*_TEXTS), said
  assert len(read_references(photos / name, language="en")) == 4


def _zip(text):
  file = io.BytesIO()
  with zipfile.ZipFile(file, "w") as archive:
    archive.writestr("c.csv", text)
  return file.getvalue()


_LINES = "".join(f"{json.dumps(row)}\n" for row in _ROWS)
_FLICKR8K = "".join(f"{row['image']}#0\t{row['caption']}\n" for row in _ROWS)


@pytest.mark.parametrize(
  ("name", "text", "compress"),
  [
    ("c.csv.gz", _TABLE, gzip.compress),
    ("c.tsv.bz2", _TABLE.replace(",", "\t"), bz2.compress),
    ("c.jsonl.xz", _LINES, lzma.compress),
    ("c.json.gz", json.dumps(_ROWS), gzip.compress),
    ("c.txt.xz", _FLICKR8K, lzma.compress),
    ("c.zip", _TABLE, _zip),
  ],
)
def test_compressed_tables_are_read(build, photos, name, text, compress):
  (photos / name).write_bytes(compress(text.encode()))
  assert build(name, None, "--language=en")[2] == english(*_TEXTS)


def test_xlsx_table_is_read(build, photos):
  pytest.importorskip("python_calamine")
  workbook.write(photos / "c.xlsx", ("image", "caption"), *(tuple(row.values()) for row in _ROWS))
  assert build("c.xlsx", None, "--language=en")[2] == english(*_TEXTS)


def test_utf16_csv_with_bom_is_read(build, photos):
  (photos / "c.csv").write_bytes(_TABLE.encode("utf-16"))
  assert build("c.csv", None, "--language=en")[2] == english(*_TEXTS)


def test_vizwiz_rejected_captions_are_left_out(build):
  """VizWiz's annotations."""
  document = {
    "images": [{"id": number, "file_name": f"p{number}.jpg"} for number in range(4)],
    "annotations": [
      {"id": n, "image_id": n, "caption": text, "is_rejected": n == 3, "is_precanned": False}
      for n, text in enumerate(_TEXTS)
    ],
  }
  code, _, captions, problems = build("val.json", document, "--language=en", "--on_bad=skip")
  assert code == 0 and captions == english(*_TEXTS[:3])
  assert {problem["kind"] for problem in problems} == {"rejected", "no_captions"}


_BASE64 = base64.b64encode(images.plain(200, (16, 12), "JPEG")).decode()
CELLS = {
  "JSON's list": ("c.csv", 'file,captions\np0.jpg,"[""a dog"", ""the dog""]"\n', ["a dog", "the dog"]),
  "Python's list": ("c.csv", "file;captions\np0.jpg;['a dog', 'the dog']\n", ["a dog", "the dog"]),
  "a list as text in JSON": ("c.jsonl", '{"file": "p0.jpg", "captions": "[\'a dog\']"}\n', ["a dog"]),
  "brackets": ("c.csv", "file,caption\np0.jpg,[1] a dog\n", ["[1] a dog"]),
  "Oscar's lines": ("c.tsv", 'p0\t[{"caption": "a dog", "conf": 0.9}]\n', ["a dog"]),
}


@pytest.mark.parametrize(("name", "text", "captions"), CELLS.values(), ids=CELLS)
def test_list_in_a_cell_is_several_captions(build, name, text, captions):
  code, said, held, _ = build(name, text, "--language=en")
  assert code == 0 and held == {"p0": [("en", caption) for caption in captions]}, said


def test_list_without_commas_is_counted(build):
  text = "file,captions,en\np0.jpg,['a dog' 'the dog'],a dog\n"
  code, said, held, _ = build("c.csv", text)
  assert code == 0 and held == english("a dog") and "lists without commas, as NumPy prints them" in said


def test_asked_list_without_commas_is_counted(build):
  text = "file,captions\np0.jpg,['a dog' 'the dog']\np1.jpg,['a cat']\n"
  code, _, held, problems = build("c.csv", text, "--caption_columns=captions", "--language=en")
  assert code == 0 and held == {"p1": [("en", "a cat")]}
  (problem,) = (problem for problem in problems if problem["kind"] == "missing_field")
  assert problem["what"] == "a list without commas, as NumPy prints it; write it as ['a dog', 'the dog']"


@pytest.mark.parametrize(
  ("name", "text"),
  [
    ("c.tsv", f"index\timage\tcaption\n0\t{_BASE64}\ta dog\n"),
    ("c.jsonl", json.dumps({"id": "0", "image": _BASE64[:76] + "\n" + _BASE64[76:], "text": "a dog"})),
    ("c.jsonl", f'{{"id": "0", "image": "data:image/jpeg;base64,{_BASE64}", "text": "a dog"}}\n'),
  ],
)
def test_pictures_in_base64_are_read(build, name, text):
  code, said, held, _ = build(name, text, "--language=en")
  assert code == 0 and held == {"0": [("en", "a dog")]} and _BASE64[:20] not in said


def test_damaged_base64_is_no_picture(build):
  text = f"index\timage\tcaption\n0\t{_BASE64}\ta dog\n1\t{_BASE64[:90]}!\ta cat\n"
  code, said, held, problems = build("c.tsv", text, "--language=en")
  assert code == 0 and held == {"0": [("en", "a dog")]} and "/9j/" not in said
  assert "not_a_picture" in {problem["kind"] for problem in problems}


def test_row_with_base64_in_place_of_names_is_refused(build):
  code, said, _, _ = build("c.tsv", f"0\t0\ta dog\t\t{_BASE64}\n")
  assert code == 2 and "is a row with a picture in base64, not the names of columns" in said
  assert _BASE64[:20] not in said
