"""Fields of rating files: numbers, CSV lines and file errors."""

import pytest

from xmcap.errors import UsageError
from xmcap.human import fields


@pytest.mark.parametrize(
  "text, number", [("1", 1.0), (" -0.25 ", -0.25), ("+.5", 0.5), ("2.", 2.0), ("1e-3", 0.001)]
)
def test_written_number_is_parsed(text, number):
  assert fields.written_number({"x": text}, "x", "here") == number


@pytest.mark.parametrize("text", ["", "nan", "inf", "1_0", "0x1", "1,5", "١", "--1", "1e999", "1e"])
def test_written_number_refuses_non_finite_and_malformed_text(text):
  with pytest.raises(UsageError, match="here: 'x' is "):
    fields.written_number({"x": text}, "x", "here")


def test_read_csv_line_numbers_equal_an_editor(tmp_path):
  path = tmp_path / "a.csv"
  path.write_bytes(b'\xef\xbb\xbfa, b\r\n\r\n"1\n2",3\r\n4,5\r\n')
  assert fields.read_csv(path, ["b"]) == (
    ["a", "b"],
    [(3, {"a": "1\n2", "b": "3"}), (5, {"a": "4", "b": "5"})],
  )


def test_read_csv_names_an_absent_file(tmp_path):
  with pytest.raises(UsageError, match=r"absent.csv: cannot be read \(No such file"):
    fields.read_csv(tmp_path / "absent.csv", [])


def test_number_refuses_magnitudes_above_1e12():
  for value in (1e308, -1e13, 10**300):
    with pytest.raises(UsageError, match=r"here: 'x' is not a finite number up to 1e\+12"):
      fields.number({"x": value}, "x", "here")
