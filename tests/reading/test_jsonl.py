"""JSONL: line numbers, malformed lines, and atomic writes of text files."""

import pytest

from tests.make.refusals import refusal
from xmcap.errors import UsageError
from xmcap.files import files
from xmcap.reading import jsonl


def _read(tmp_path, content):
  path = tmp_path / "rows.jsonl"
  path.write_bytes(content)
  return list(jsonl.read(path))


def test_jsonl_lines_are_numbered_and_empty_lines_skipped(tmp_path):
  assert _read(tmp_path, b'{"a": 1}\n\n  \n{"a": "\\ud83d\\ude00"}') == [(1, {"a": 1}), (4, {"a": "😀"})]


@pytest.mark.parametrize(
  "line, message",
  [
    (b'{"a": ', r"line 2: broken JSON \(.* at column 7\)"),
    (b'{"a": "\xff"}', r"line 2: not UTF-8 \(byte 0xff at column 8\)"),
    (b'{"a": 1, "a": 2}', r"line 2: names 'a' twice"),
    (b'{"x": {"a\\n": 1, "a\\n": 2}}', r"line 2: names 'a\\n' twice"),
    (b'{"a": "\\ud800"}', r"line 2: unpaired surrogate \(\\ud800\)"),
    (b"[" * 100_000, "line 2: JSON that cannot be read"),
    (b'{"a": ' + b"9" * 5_000 + b"}", "line 2: JSON that cannot be read"),
    (b"[1]", "line 2: not a JSON object"),
    (b'{"a": "NaN", "b": [NaN]}', r"line 2: NaN is not valid JSON"),
    (b'{"a": "\\"NaN", "b": -Infinity}', r"line 2: -Infinity is not valid JSON"),
    (b'{"a": 1,', r"line 2: broken JSON"),
    (b'{"a": 1} {}', r"line 2: broken JSON \(Extra data at column 10\)"),
    (b'{"a": "\\udc00\\ud800"}', r"line 2: unpaired surrogate \(\\udc00\)"),
    (b'{"a": "\\\\ud800\\udc00"}', r"line 2: unpaired surrogate \(\\udc00\)"),
    (b'{"a": "\x00"}', "line 2: broken JSON"),
    (b"\xef\xbb\xbf{}", "line 2: starts with a byte order mark"),
    (b"\xff\xfe{}", "line 2: not UTF-8"),
  ],
)
def test_malformed_jsonl_lines_are_named(tmp_path, line, message):
  with pytest.raises(UsageError, match=message) as caught:
    _read(tmp_path, b"{}\n" + line + b"\n{}")
  assert str(tmp_path / "rows.jsonl") in str(caught.value)
  assert len(str(caught.value).splitlines()) == 1


def test_jsonl_object_over_two_lines_is_refused(tmp_path):
  assert "line 1: broken JSON" in refusal(_read, tmp_path, b'{"a":\n1}\n{"a": 2}')


def test_jsonl_read_refuses_missing_files_and_folders(tmp_path):
  assert "absent.jsonl: cannot be read (No such file" in refusal(list, jsonl.read(tmp_path / "absent.jsonl"))
  assert "Is a directory" in refusal(list, jsonl.read(tmp_path))


def test_failed_write_text_keeps_the_old_file(tmp_path):
  path = tmp_path / "new" / "rows.txt"
  files.write_text(path, "old\n")

  def lines():
    yield "new\n"
    raise OSError(28, "No space left on device")

  with pytest.raises(OSError, match="No space left on device"):
    files.write_lines(path, lines())
  assert [file.name for file in path.parent.iterdir()] == ["rows.txt"]
  assert path.read_text() == "old\n"


def test_write_text_refuses_a_file_in_place_of_the_folder(tmp_path):
  (tmp_path / "out").write_text("")
  assert "cannot make the folder" in refusal(files.write_text, tmp_path / "out" / "table.csv", "")


@pytest.mark.parametrize("nested", ['{"a":' * 100 + "1" + "}" * 100, "[" * 100 + "]" * 100])
def test_values_nested_deeper_than_100_are_refused_with_their_line(tmp_path, nested):
  path = tmp_path / "rows.jsonl"
  path.write_text(f'{{"a": 1}}\n{{"a": "{"[" * 300}"}}\n{{"a": {nested}}}\n')
  with pytest.raises(
    UsageError, match=r"rows\.jsonl, line 3: JSON nested deeper than 100; mend or remove it"
  ):
    list(jsonl.read(path))
