"""Sheets: tables for a terminal, as Markdown and as CSV."""

import pytest

from xmcap.errors import UsageError
from xmcap.human import sheets

_SHEET = sheets.Sheet(
  "scores",
  "Scores of |A|",
  (
    sheets.SheetColumn("name"),
    sheets.SheetColumn("value", "the value", ".2f"),
    sheets.SheetColumn("n", format=","),
  ),
  (("a_b", 0.125, 1200), ("line\nbreak", None, 3)),
)


def test_sheet_terminal_columns_are_aligned():
  assert _SHEET.terminal().splitlines() == [
    "Scores of |A|",
    "name         the value      n",
    "-----------  ---------  -----",
    "a_b               0.12  1,200",
    "line\\nbreak          -      3",
  ]


def test_sheet_markdown_is_escaped():
  assert _SHEET.markdown().splitlines() == [
    "### Scores of \\|A\\|",
    "",
    "| name | the value | n |",
    "| --- | ---: | ---: |",
    "| a\\_b | 0.12 | 1,200 |",
    "| line\\\\nbreak | - | 3 |",
  ]


def test_sheet_csv_keeps_every_digit():
  assert _SHEET.csv() == 'name,value,n\na_b,0.125,1200\n"line\nbreak",,3\n'


def test_sheet_with_two_columns_of_one_name_is_refused():
  with pytest.raises(UsageError, match="the table scores would have two columns 'n'; give the system or"):
    sheets.Sheet("scores", "Scores", [sheets.SheetColumn("n"), sheets.SheetColumn("n")], [])


@pytest.mark.parametrize(
  "format, cell, shown", [(".2f", -0.0, "0.00"), ("+.1f", -0.01, "0.0"), (".1%", -0.1, "-10.0%")]
)
def test_sheet_column_zero_has_no_sign(format, cell, shown):
  assert sheets.SheetColumn("x", format=format).show(cell) == shown
