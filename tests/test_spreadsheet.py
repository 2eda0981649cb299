"""CSV and TSV: a spreadsheet computes no text, and xmcap reads back what it wrote."""

import ast
import csv
import json
import pathlib
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xmcap as package
from tests.make.command import xmcap
from xmcap import spreadsheet
from xmcap.corpora.building import selection
from xmcap.corpora.building.problems import Problems
from xmcap.corpora.folder import text_files
from xmcap.corpora.folder.table import SourceFile
from xmcap.human import annotations, fields
from xmcap.pages import captions_table
from xmcap.reading.inputs import Input
from xmcap.reading.predictions import read_predictions
from xmcap.reading.tables import cells

FORMULA = "=cmd|' /C calc'!A0"
TEXTS = (
  FORMULA, "+1", "-1", "@a", "＝1", "＠a", " =1", "'=1", "''=1", "'a", "a=1", "a;=1", "a, -b", '"=1"', ';"=1"', "it's",
)  # fmt: skip


@pytest.fixture
def raw():
  token = spreadsheet.raw.set(True)
  yield
  spreadsheet.raw.reset(token)


@given(st.text("=+-@＝'\",;\t\r\n\0 a"))
def test_apostrophes_are_taken_off_again_and_no_part_is_a_formula(text):
  shown = spreadsheet.shown(text)
  assert spreadsheet.texts([shown]) == [text]
  assert not any(part.lstrip(' "\0')[:1] in tuple("=+-@＝") for part in re.split("[,;\t\r\n]", shown))
  assert not shown.startswith(("\t", "\r", "\n", "\0"))


def test_numbers_stay_numbers():
  assert spreadsheet.table(["a", "b"], [[-0.5, -3], [None, True]]) == "a,b\n-0.5,-3\n,True\n"
  assert (
    spreadsheet.table(["a", "b", "c"], [[np.float64(0.1), np.int64(2), np.float32(0.5)]])
    == "a,b,c\n0.1,2,0.5\n"
  )


def test_only_a_file_with_apostrophes_begins_with_the_mark():
  assert spreadsheet.table(["a"], [["it's"]]) == "a\nit's\n"
  assert spreadsheet.table(["a"], [["=1"]]) == '\ufeffa\n"\'=1"\n'
  assert spreadsheet.tab_table([["=1", "a\tb"]]) == "\ufeff'=1\ta b\n"


def test_raw_texts_are_as_they_are(raw):
  assert spreadsheet.table(["a"], [["=1"]]) == "a\n=1\n"
  assert spreadsheet.tab_table([["=1"]]) == "=1\n" and spreadsheet.header(["a"]) == "a\n"


# ---- what xmcap writes, it reads -----------------------------------------------------------------


def _rows(path):
  with Input(path) as source:
    return [row for _, row in cells(source)][1:]


def _own_data(path):
  return [[*row.fields.values()] for row in text_files.read(SourceFile(path, path.name), Problems())]


def _ratings(path):
  return [[*row.values()] for _, row in fields.read_csv(path, ["key"])[1]]


def _candidates(path):
  return [[*row.values()] for _, row in selection._rows(path, ())]


@pytest.mark.parametrize("mode", ["quoted", "raw"])
@pytest.mark.parametrize("read", [_rows, _own_data, _ratings, _candidates])
def test_every_reader_of_tables_returns_the_texts_that_were_written(read, mode, tmp_path, request):
  if mode == "raw":
    request.getfixturevalue("raw")
  rows = [[f"{text}{number}", text] for number, text in enumerate(TEXTS)]
  path = tmp_path / "table.csv"
  path.write_text(spreadsheet.table(["key", "=caption"], rows), encoding="utf-8")
  if read is _candidates:  # strips cells, as a file of places may have spaces
    rows = [[cell.strip() for cell in row] for row in rows]
  assert read(path) == rows


def test_captions_of_a_table_of_pictures_are_read_as_predictions(tmp_path):
  captions = {f"{text}{number}": {"en": f"{text} b"} for number, text in enumerate(TEXTS)}
  path = tmp_path / "ours.csv"
  path.write_text("".join(captions_table.wide(["en"], captions.items(), print)), encoding="utf-8")
  read = read_predictions(path)
  assert {key.strip(): read[key]["en"].strip() for key in read} == {
    key.strip(): of_image["en"].strip() for key, of_image in captions.items()
  }


def test_a_file_without_the_mark_keeps_its_apostrophes(tmp_path):
  path = tmp_path / "strange.csv"
  path.write_text("key,caption\na,'-20%' on a sign\n", encoding="utf-8")
  assert _rows(path) == [["a", "'-20%' on a sign"]]


# ---- commands ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options, name", [((), f"'{FORMULA}"), (("--raw",), FORMULA)])
def test_a_system_named_as_a_formula_is_text_in_a_table(options, name, tmp_path):
  rows = [["image/key", "language", "rater", "left", "right", "rating"]]
  rows += [[key, "en", "a", FORMULA, "B", "1"] for key in ("k", "k2")]
  with open(tmp_path / "r.csv", "w", encoding="utf-8", newline="") as file:
    csv.writer(file).writerows(rows)
  xmcap("human", "sxs", f"--ratings={tmp_path}/r.csv", f"--out={tmp_path}/o", *options).succeeded()
  with open(tmp_path / "o/sxs.csv", encoding="utf-8-sig", newline="") as file:
    assert name in {cell for row in csv.reader(file) for cell in row}
  assert FORMULA in json.dumps(json.loads((tmp_path / "o/sxs.json").read_text()), ensure_ascii=False)


def test_annotations_in_tsv_begin_no_formula():
  suggested = annotations.Suggested([], [])
  entry = annotations.Annotation(
    key="=k", language="en", annotator="@a", caption='"=1"', tags=["+t"], suggested=suggested, events=[]
  )
  (text,) = annotations.as_tsv([entry])
  assert text == "\ufeff'=k\t'@a\t'\"=1\"\t'+t\n"


def test_no_other_module_writes_csv():
  """By the module csv, or by hand: a line of cells that are joined by commas or tabs."""
  reads = {"reader", "field_size_limit", "Error", "DictReader", "QUOTE_NONE", "QUOTE_MINIMAL"}
  writers = []
  for path in pathlib.Path(package.__file__).parent.rglob("*.py"):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
      if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("csv.") and node.attr not in reads:
        writers.append((path.name, node.lineno))
      if (
        isinstance(node, ast.Constant)
        and node.value in (".csv", ".tsv", "csv")
        and path.stem != "spreadsheet"
      ):
        text = path.read_text(encoding="utf-8")
        if re.search("write_(text|lines|forms)", text) and not re.search("spreadsheet|csv\\(|_csv", text):
          writers.append((path.name, node.lineno))
  assert not writers
