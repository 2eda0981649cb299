"""Workbooks: the first sheet is read in a process of bounded memory, so that no far cell ends the command."""

import zipfile

import pytest

from tests.make import workbook
from xmcap.errors import UsageError
from xmcap.reading import rows, workbooks

pytest.importorskip("python_calamine")
_NAMESPACE = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_SHEET = "xl/worksheets/sheet1.xml"


def cell(place, text):
  return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


def row(number, *cells):
  return f'<row r="{number}">{"".join(cells)}</row>'


HEADER = row(1, cell("A1", "image_id"), cell("B1", "caption"))


def book(path, rows="", before="", after="", **members):
  """A workbook with the XML of its sheet's rows, what is before and after them, and other members."""
  workbook.write(path, ("a",))
  sheet = f'<worksheet xmlns="{_NAMESPACE}">{before}<sheetData>{rows}</sheetData>{after}</worksheet>'
  with zipfile.ZipFile(path) as archive:
    content = {name: archive.read(name) for name in archive.namelist()} | {_SHEET: sheet.encode(), **members}
  with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
    for name, data in content.items():
      archive.writestr(name, data)
  return path


def read(path):
  with rows.opened(path) as source:
    return list(source.rows)


@pytest.mark.parametrize(
  "before, after",
  [
    ("", ""),
    ('<dimension ref="A1:XFD1048576"/>', ""),
    ('<dimension ref="C9:A1"/>', ""),
    ("", '<mergeCells count="1"><mergeCell ref="A1:XFD1048576"/></mergeCells>'),
  ],
)
def test_sheet_is_read_whatever_its_head_claims(tmp_path, before, after):
  second = row(3, cell("A3", "7"), cell("B3", "a dog"))
  assert read(book(tmp_path / "b.xlsx", HEADER + second, before, after)) == [
    (3, {"image_id": "7", "caption": "a dog"})
  ]


def test_cells_left_of_the_table_are_empty_columns(tmp_path):
  path = book(
    tmp_path / "b.xlsx", row(2, cell("B2", "image_id"), cell("C2", "caption")) + row(4, cell("B4", "7"))
  )
  assert list(workbooks.rows(path, [])) == [(2, ["", "image_id", "caption"]), (4, ["", "7", ""])]


@pytest.mark.parametrize("place", ["XFD100000", "XFD1048576", "ZZZ9999999"])
def test_far_cell_is_refused(tmp_path, place):
  far = row(place.lstrip("XFDZ"), cell(place, "x"))
  with pytest.raises(
    UsageError, match=r"b\.xlsx: reading its first sheet takes over 2 GiB|b\.xlsx: cannot be read"
  ):
    read(book(tmp_path / "b.xlsx", HEADER + row(2, cell("A2", "7"), cell("B2", "a dog")) + far))


@pytest.mark.parametrize("number", [50_000, pytest.param(1_000_000, marks=pytest.mark.full)])
def test_far_row_of_the_table_is_read(tmp_path, number):
  path = book(tmp_path / "b.xlsx", HEADER + row(number, cell(f"A{number}", "7"), cell(f"B{number}", "a dog")))
  assert read(path) == [(number, {"image_id": "7", "caption": "a dog"})]


def test_first_of_thousands_of_sheets_is_noted(tmp_path):
  office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
  sheets = "".join(f'<sheet name="S{number}" sheetId="{number}" r:id="r1"/>' for number in range(1, 3_001))
  content = f'<workbook xmlns="{_NAMESPACE}" xmlns:r="{office}"><sheets>{sheets}</sheets></workbook>'
  path = book(tmp_path / "b.xlsx", HEADER, **{"xl/workbook.xml": content})
  notes = []
  assert [cells for _, cells in workbooks.rows(path, notes)] == [["image_id", "caption"]]
  assert notes == ["the sheet 'S1', the first of 3000"]
