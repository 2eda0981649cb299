import bz2

import pytest

from xmcap.errors import UsageError
from xmcap.scoring import read_predictions, read_references

_REFERENCES = {"b": {"en": ["x"], "de": ["x"]}, "a": {"en": ["y"]}, "c": {"de": ["z"]}}


def _write(tmp_path, name, text):
  path = tmp_path / name
  path.write_text(text, encoding="utf-8")
  return path


def test_text_stands_in_the_order_of_the_references(tmp_path):
  path = _write(tmp_path, "ours.txt", " one \r\n\n")
  assert read_predictions(path, "en", _REFERENCES) == {"b": {"en": "one"}, "a": {"en": ""}}
  assert read_predictions(path, "de", _REFERENCES) == {"b": {"de": "one"}, "c": {"de": ""}}


def test_a_folder_of_texts_and_packed_files(tmp_path):
  folder = tmp_path / "folder"
  folder.mkdir()
  _write(folder, "en.txt", "one\ntwo\n")
  _write(folder, "de.csv", "key,caption\nc,drei\n")
  wanted = {"c": {"de": "drei"}, "b": {"en": "one"}, "a": {"en": "two"}}
  assert read_predictions(folder, references=_REFERENCES) == wanted
  packed = tmp_path / "ours.txt.bz2"
  packed.write_bytes(bz2.compress(b"one\ntwo"))
  assert read_predictions(packed, "en", _REFERENCES) == {"b": {"en": "one"}, "a": {"en": "two"}}


def test_csv_may_name_languages_and_hold_line_ends_and_other_columns(tmp_path):
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
def test_errors_say_where(tmp_path, name, text, language, message):
  with pytest.raises(UsageError, match=message) as caught:
    read_predictions(_write(tmp_path, name, text), language, _REFERENCES)
  assert "\n" not in str(caught.value)


def test_without_references_there_is_no_order(tmp_path):
  with pytest.raises(UsageError, match="captions without keys; give CSV"):
    read_predictions(_write(tmp_path, "p.txt", "one\n"), "en")


def test_references_of_text_are_numbered_by_line(tmp_path):
  references = read_references(_write(tmp_path, "r.txt", "one\ntwo\n"), language="en")
  assert references == {"1": {"en": ["one"]}, "2": {"en": ["two"]}}
  assert references.notes == ("references: the images are numbered from 1, a line of text each",)
  held = read_references(_write(tmp_path, "r2.txt", '{"image/key": "a", "caption": "one"}\n'), language="en")
  assert held == {"a": {"en": ["one"]}}


def test_references_of_csv_gather(tmp_path):
  path = _write(tmp_path, "r.csv", "id,language,caption\n7,en,one\n7,en,two\n")
  assert read_references(path) == {"7": {"en": ["one", "two"]}}
  with pytest.raises(UsageError, match="no column of image keys; name it 'image/key'"):
    read_references(_write(tmp_path, "r.csv", "caption\none\n"), language="en")
