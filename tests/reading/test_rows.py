"""Captions in text, CSV and TSV files, one per line."""

import bz2
import lzma
import tarfile

import pytest

from xmcap.errors import UsageError
from xmcap.scoring import read_predictions, read_references

_REFERENCES = {"b": {"en": ["x"], "de": ["x"]}, "a": {"en": ["y"]}, "c": {"de": ["z"]}}


def _write(tmp_path, name, text):
  path = tmp_path / name
  path.write_text(text, encoding="utf-8")
  return path


def test_text_predictions_follow_the_order_of_references(tmp_path):
  path = _write(tmp_path, "ours.txt", " one \r\n\n")
  assert read_predictions(path, "en", _REFERENCES) == {"b": {"en": "one"}, "a": {"en": ""}}
  assert read_predictions(path, "de", _REFERENCES) == {"b": {"de": "one"}, "c": {"de": ""}}


def test_predictions_folder_of_text_and_compressed_files(tmp_path):
  folder = tmp_path / "folder"
  folder.mkdir()
  _write(folder, "en.txt", "one\ntwo\n")
  _write(folder, "de.csv", "key,caption\nc,drei\n")
  wanted = {"c": {"de": "drei"}, "b": {"en": "one"}, "a": {"en": "two"}}
  assert read_predictions(folder, references=_REFERENCES) == wanted
  packed = tmp_path / "ours.txt.bz2"
  packed.write_bytes(bz2.compress(b"one\ntwo"))
  assert read_predictions(packed, "en", _REFERENCES) == {"b": {"en": "one"}, "a": {"en": "two"}}


def test_csv_predictions_with_language_line_breaks_and_extra_columns(tmp_path):
  path = _write(tmp_path, "ours.csv", 'language,image_id,score,caption\nen,7,1,"a, ""b""\nc"\n\nde,7,2,d\n')
  assert read_predictions(path) == {"7": {"en": 'a, "b"\nc', "de": "d"}}


@pytest.mark.parametrize(
  ("name", "text", "language", "message"),
  [
    ("p.txt", "one\n", "en", "1 caption in en without keys, but the references have 2 images"),
    ("p.txt", "one\ntwo\n", None, "line 1: no language; give it with --language=CODE"),
    ("p.csv", "key,text\na,one\n", "en", "line 1: the columns are 'key, text'; wanted are 'caption'"),
    ("p.csv", "key,image_id,caption\na,a,b\n", "en", "line 1: the columns are 'key, image_id, caption'"),
    ("p.csv", "caption,caption\n", "en", "line 1: the columns"),
    (
      "p.csv",
      "name,caption\nc,one\na,two\n",
      "en",
      "line 1: the columns are 'name, caption'; wanted are .* one of image/key, key, image_id, id, and",
    ),
    ("p.csv", "", "en", "line 1: the columns"),
    ("p.csv", "key,caption\n", "en", "contains no predictions"),
    ("p.csv", "key,caption\na,one,two\n", "en", "line 2: 3 cells under 2 headings"),
    ("p.csv", 'key,caption\na,"one\n', "en", "line 2: broken CSV"),
    ("p.csv", "key,caption\n,one\n", "en", "line 2: 'key' is missing"),
    ("p.csv", "key,caption\na,one\na,two\n", "en", r"another caption \(en a, line 3\)"),
    ("p.csv", "key,language,caption\na,de,one\n", "en", "line 2: language is de, but --language says en"),
    ("p.csv", "key,language,caption\na,xx,one\n", None, "line 2: unknown language 'xx'"),
  ],
)
def test_malformed_text_and_csv_predictions_are_refused(tmp_path, name, text, language, message):
  with pytest.raises(UsageError, match=message) as caught:
    read_predictions(_write(tmp_path, name, text), language, _REFERENCES)
  assert "\n" not in str(caught.value)


def test_text_predictions_without_references_are_refused(tmp_path):
  with pytest.raises(UsageError, match="captions without keys; give CSV"):
    read_predictions(_write(tmp_path, "p.txt", "one\n"), "en")


def test_text_references_are_numbered_by_line(tmp_path):
  references = read_references(_write(tmp_path, "r.txt", "one\ntwo\n"), language="en")
  assert references == {"1": {"en": ["one"]}, "2": {"en": ["two"]}}
  assert references.notes == ("references: the images are numbered from 1, a line of text each",)
  held = read_references(_write(tmp_path, "r2.txt", '{"image/key": "a", "caption": "one"}\n'), language="en")
  assert held == {"a": {"en": ["one"]}}


def test_csv_references_of_an_image_are_merged(tmp_path):
  path = _write(tmp_path, "r.csv", "id,language,caption\n7,en,one\n7,en,two\n")
  assert read_references(path) == {"7": {"en": ["one", "two"]}}
  with pytest.raises(UsageError, match="no column of image keys; name it 'image/key'"):
    read_references(_write(tmp_path, "r.csv", "caption\none\n"), language="en")


@pytest.mark.parametrize(
  ("text", "references"),
  [
    (
      "ein Hund\tder Hund\neine Katze\tdie Katze\n",
      {"1": ["ein Hund", "der Hund"], "2": ["eine Katze", "die Katze"]},
    ),
    ("ein Hund\t\neine Katze\tdie Katze", {"1": ["ein Hund"], "2": ["eine Katze", "die Katze"]}),
    ("狗\t小狗\n", {"1": ["狗", "小狗"]}),
    ("ein Hund\tder Hund\neine Katze\n", "line 1: a tab in a caption"),
    ("0001\tein Hund\n0002\teine Katze\n", "each line begins with a key: name it .tsv"),
    ("e\0i\0n\0", "has NUL characters"),
  ],
)
def test_tab_separated_references_of_an_image(tmp_path, text, references):
  """sacreBLEU's --num-refs; an empty cell is no reference."""
  path = _write(tmp_path, "r.txt", text)
  if isinstance(references, str):
    with pytest.raises(UsageError, match=references):
      read_references(path, language="de")
  else:
    assert read_references(path, language="de") == {key: {"de": texts} for key, texts in references.items()}


def test_text_predictions_have_a_single_caption_per_line(tmp_path):
  with pytest.raises(UsageError, match="line 1: 'caption' has 2 captions; a prediction is one"):
    read_predictions(_write(tmp_path, "p.txt", "one\tuno uno\ntwo two\tdos\n"), "en", _REFERENCES)
  path = _write(tmp_path, "p.txt", "one\tuno\ntwo\n")
  assert read_predictions(path, "en", _REFERENCES) == {"b": {"en": "one\tuno"}, "a": {"en": "two"}}


@pytest.mark.parametrize(
  ("name", "code"),
  [
    ("train.de", "de"),
    ("val.1.de", "de"),
    ("test.de-en.en", "en"),
    ("hyp.pt-BR", "pt-BR"),
    ("hyp.de.xz", "de"),
  ],
)
def test_text_file_suffix_is_the_language(tmp_path, name, code):
  """Multi30k's and WMT's names."""
  text = "ein Hund\n"
  path = _write(tmp_path, name, text)
  if name.endswith(".xz"):
    path.write_bytes(lzma.compress(text.encode()))
  assert read_references(path) == {"1": {code: ["ein Hund"]}}
  assert read_predictions(path, references={"a": {code: ["x"]}}) == {"a": {code: "ein Hund"}}


def test_language_option_against_file_suffix_is_noted(tmp_path):
  path = _write(tmp_path, "hyp.de", "a dog\n")
  note = "--language=en is taken, though the file is named hyp.de"
  assert any(note in line for line in read_references(path, language="en").notes)
  assert not any(note in line for line in read_references(path, language="de").notes)


def test_text_with_unknown_suffix_is_refused(tmp_path):
  for name in ("hyp.out", "deu_Latn.devtest", "p.json"):
    with pytest.raises(UsageError, match="text, not JSON: name it .txt"):
      read_references(_write(tmp_path, name, "ein Hund\n"), language="de")
  path = _write(tmp_path, "p.de", '[{"image_id": 7, "caption": "ein Hund"}]')
  assert read_predictions(path) == {"7": {"de": "ein Hund"}}


def test_oscar_tsv_predictions_are_read(tmp_path):
  """run_captioning.py of microsoft/Oscar: KEY, a tab, and a list of captions, without a header."""
  path = _write(
    tmp_path,
    "pred.tsv",
    '7\t[{"caption": "a \\"dog\\"", "conf": 0.9}]\n8\t[{"caption": "a cat", "conf": 1}]\n',
  )
  predictions = read_predictions(path, "en")
  assert predictions == {"7": {"en": 'a "dog"'}, "8": {"en": "a cat"}}
  assert predictions.notes == ("predictions: Oscar's lines: a key, a tab and a list of captions",)
  path = _write(tmp_path, "pred.tsv", '7\t[{"caption": "a"}, {"caption": "b"}]\n')
  with pytest.raises(UsageError, match="'caption' has 2 captions; a prediction is one"):
    read_predictions(path, "en")


def test_csv_in_a_tar_is_read(tmp_path):
  with tarfile.open(tmp_path / "p.tar.gz", "w:gz") as archive:
    archive.add(_write(tmp_path, "p.csv", "image_id,caption\n7,a dog\n"), "out/p.csv")
  assert read_predictions(tmp_path / "p.tar.gz", "en") == {"7": {"en": "a dog"}}


def test_csv_column_of_empty_captions_is_refused(tmp_path):
  with pytest.raises(
    UsageError, match="all 2 captions are empty; name the column with the captions 'caption'"
  ):
    read_predictions(_write(tmp_path, "p.csv", "image_id,caption,output\n7,,a dog\n8,,a cat\n"), "en")


def test_arrow_and_parquet_captions_by_image_file_name(tmp_path):
  pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
  table = pa.table({"image": ["a.jpg", "b.jpg"], "language": ["en", "en"], "caption": ["a dog", "a cat"]})
  pq.write_table(table, tmp_path / "c.parquet")
  for make, name in ((pa.ipc.new_file, "file"), (pa.ipc.new_stream, "stream")):
    with make(tmp_path / f"{name}.arrow", table.schema) as writer:
      writer.write_table(table)
  for name in ("c.parquet", "file.arrow", "stream.arrow"):
    assert read_references(tmp_path / name) == {"a.jpg": {"en": ["a dog"]}, "b.jpg": {"en": ["a cat"]}}
