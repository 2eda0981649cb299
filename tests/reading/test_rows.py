"""Captions in text, CSV and TSV files, one per line."""

import bz2
import lzma
import tarfile

import pytest

from tests.make import files
from tests.make.refusals import refusal
from xmcap.errors import UsageError
from xmcap.scoring import read_predictions, read_references

_REFERENCES = {"b": {"en": ["x"], "de": ["x"]}, "a": {"en": ["y"]}, "c": {"de": ["z"]}}


def test_text_predictions_follow_the_order_of_references(tmp_path):
  path = files.text(tmp_path / "ours.txt", " one \r\n\n")
  assert read_predictions(path, "en", _REFERENCES) == {"b": {"en": "one"}, "a": {"en": ""}}
  assert read_predictions(path, "de", _REFERENCES) == {"b": {"de": "one"}, "c": {"de": ""}}


def test_predictions_folder_of_text_and_compressed_files(tmp_path):
  files.text(tmp_path / "folder/en.txt", "one\ntwo\n")
  files.text(tmp_path / "folder/de.csv", "key,caption\nc,drei\n")
  expected = {"c": {"de": "drei"}, "b": {"en": "one"}, "a": {"en": "two"}}
  assert read_predictions(tmp_path / "folder", references=_REFERENCES) == expected
  packed = files.text(tmp_path / "ours.txt.bz2", bz2.compress(b"one\ntwo"))
  assert read_predictions(packed, "en", _REFERENCES) == {"b": {"en": "one"}, "a": {"en": "two"}}


def test_csv_predictions_with_language_line_breaks_and_extra_columns(tmp_path):
  text = 'language,image_id,score,caption\nen,7,1,"a, ""b""\nc"\n\nde,7,2,d\n'
  assert read_predictions(files.text(tmp_path / "ours.csv", text)) == {"7": {"en": 'a, "b"\nc', "de": "d"}}


@pytest.mark.parametrize(
  ("name", "text", "language", "message"),
  [
    ("p.txt", "one\n", "en", "1 caption in en without keys, but the references have 2 images"),
    ("p.txt", "one\ntwo\n", None, "line 1: no language; give it with --language=CODE"),
    ("p.txt", "one\tuno uno\ntwo two\tdos\n", "en", "line 1: 'caption' has 2 captions; a prediction is one"),
    (
      "p.tsv",
      '7\t[{"caption": "a"}, {"caption": "b"}]\n',
      "en",
      "'caption' has 2 captions; a prediction is one",
    ),
    ("p.csv", "key,words\na,one\n", "en", "line 1: the columns are 'key, words'; wanted are 'caption'"),
    ("p.csv", "key,image_id,caption\na,a,b\n", "en", "line 1: the columns are 'key, image_id, caption'"),
    ("p.csv", "caption,caption\n", "en", "line 1: the columns"),
    ("p.csv", "name,caption\nc,one\na,two\n", "en", "wanted are .* one of image/key, key, image_id, id, and"),
    ("p.csv", "", "en", "line 1: the columns"),
    ("p.csv", "key,caption\n", "en", "contains no predictions"),
    (
      "p.csv",
      "image_id,caption,reply\n7,,a dog\n8,,a cat\n",
      "en",
      "all 2 captions are empty; name the column",
    ),
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
    read_predictions(files.text(tmp_path / name, text), language, _REFERENCES)
  assert "\n" not in str(caught.value)


def test_text_predictions_without_references_are_refused(tmp_path):
  path = files.text(tmp_path / "p.txt", "one\n")
  assert "captions without keys; give CSV" in refusal(read_predictions, path, "en")


def test_text_references_are_numbered_by_line(tmp_path):
  references = read_references(files.text(tmp_path / "r.txt", "one\ntwo\n"), language="en")
  assert references == {"1": {"en": ["one"]}, "2": {"en": ["two"]}}
  assert references.notes == ("references: the images are numbered from 1, a line of text each",)
  keyed = files.text(tmp_path / "r2.txt", '{"image/key": "a", "caption": "one"}\n')
  assert read_references(keyed, language="en") == {"a": {"en": ["one"]}}


def test_csv_references_of_an_image_are_merged(tmp_path):
  path = files.text(tmp_path / "r.csv", "id,language,caption\n7,en,one\n7,en,two\n")
  assert read_references(path) == {"7": {"en": ["one", "two"]}}
  files.text(path, "caption\none\n")
  assert "no column of image keys; name it 'image/key'" in refusal(read_references, path, language="en")


_PAIRS = {"1": ["ein Hund", "der Hund"], "2": ["eine Katze", "die Katze"]}


@pytest.mark.parametrize(
  ("text", "references"),
  [
    ("ein Hund\tder Hund\neine Katze\tdie Katze\n", _PAIRS),
    ("ein Hund\t\neine Katze\tdie Katze", {**_PAIRS, "1": ["ein Hund"]}),
    ("狗\t小狗\n", {"1": ["狗", "小狗"]}),
    ("ein Hund\tder Hund\neine Katze\n", "line 1: a tab in a caption"),
    ("0001\tein Hund\n0002\teine Katze\n", "each line begins with a key: name it .tsv"),
    ("e\0i\0n\0", "has NUL characters"),
  ],
)
def test_tab_separated_references_of_an_image(tmp_path, text, references):
  """sacreBLEU's --num-refs; an empty cell is no reference."""
  path = files.text(tmp_path / "r.txt", text)
  if isinstance(references, str):
    assert references in refusal(read_references, path, language="de")
  else:
    assert read_references(path, language="de") == {key: {"de": texts} for key, texts in references.items()}


def test_tab_in_a_text_prediction_is_kept(tmp_path):
  path = files.text(tmp_path / "p.txt", "one\tuno\ntwo\n")
  assert read_predictions(path, "en", _REFERENCES) == {"b": {"en": "one\tuno"}, "a": {"en": "two"}}


@pytest.mark.parametrize("name", ["train.de", "val.1.de", "test.en-de.de", "hyp.pt-BR", "hyp.de.xz"])
def test_text_file_suffix_is_the_language(tmp_path, name):
  """Multi30k's and WMT's names."""
  code, text = "pt-BR" if "BR" in name else "de", b"ein Hund\n"
  path = files.text(tmp_path / name, lzma.compress(text) if name.endswith(".xz") else text)
  assert read_references(path) == {"1": {code: ["ein Hund"]}}
  assert read_predictions(path, references={"a": {code: ["x"]}}) == {"a": {code: "ein Hund"}}


def test_language_option_against_file_suffix_is_noted(tmp_path):
  path = files.text(tmp_path / "hyp.de", "a dog\n")
  note = "--language=en is taken, though the file is named hyp.de"
  assert any(note in line for line in read_references(path, language="en").notes)
  assert not any(note in line for line in read_references(path, language="de").notes)


def test_text_with_unknown_suffix_is_refused(tmp_path):
  for name in ("hyp.out", "deu_Latn.devtest", "p.json"):
    path = files.text(tmp_path / name, "ein Hund\n")
    assert "text, not JSON: name it .txt" in refusal(read_references, path, language="de")
  path = files.json(tmp_path / "p.de", [{"image_id": 7, "caption": "ein Hund"}])
  assert read_predictions(path) == {"7": {"de": "ein Hund"}}


def test_oscar_tsv_predictions_are_read(tmp_path):
  """run_captioning.py of microsoft/Oscar: KEY, a tab, and a list of captions, without a header."""
  text = '7\t[{"caption": "a \\"dog\\"", "conf": 0.9}]\n8\t[{"caption": "a cat", "conf": 1}]\n'
  predictions = read_predictions(files.text(tmp_path / "pred.tsv", text), "en")
  assert predictions == {"7": {"en": 'a "dog"'}, "8": {"en": "a cat"}}
  assert predictions.notes == ("predictions: Oscar's lines: a key, a tab and a list of captions",)


def test_csv_in_a_tar_is_read(tmp_path):
  with tarfile.open(tmp_path / "p.tar.gz", "w:gz") as archive:
    archive.add(files.text(tmp_path / "p.csv", "image_id,caption\n7,a dog\n"), "out/p.csv")
  assert read_predictions(tmp_path / "p.tar.gz", "en") == {"7": {"en": "a dog"}}


def test_arrow_and_parquet_captions_by_image_file_name(tmp_path):
  pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
  table = pa.table({"image": ["a.jpg", "b.jpg"], "language": ["en", "en"], "caption": ["a dog", "a cat"]})
  pq.write_table(table, tmp_path / "c.parquet")
  for make, name in ((pa.ipc.new_file, "file"), (pa.ipc.new_stream, "stream")):
    with make(tmp_path / f"{name}.arrow", table.schema) as writer:
      writer.write_table(table)
  for name in ("c.parquet", "file.arrow", "stream.arrow"):
    assert read_references(tmp_path / name) == {"a.jpg": {"en": ["a dog"]}, "b.jpg": {"en": ["a cat"]}}
