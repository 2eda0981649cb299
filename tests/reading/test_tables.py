"""CSV, TSV and the Flickr30k table: delimiters, quotation marks, and rows that would be lost."""

import pytest

from tests.make.refusals import refusal
from xmcap.reading import tables
from xmcap.reading.inputs import Input


def _cells(tmp_path, text, delimiter=",", notes=None):
  path = tmp_path / "x"
  path.write_text(text, encoding="utf-8", newline="")
  with Input(path) as source:
    return [cells for _, cells in tables.cells(source, delimiter, notes)]


@pytest.mark.parametrize(
  ("text", "rows"),
  [
    ('a;b\n1;"x; y"\n', [["a", "b"], ["1", "x; y"]]),
    ("a,b;c\n1,2\n", [["a", "b;c"], ["1", "2"]]),
    ("a\tb\n1\tx, y\n", [["a", "b"], ["1", "x, y"]]),
    ("sep=;\r\na;b\r\n1;x, y\r\n", [["a", "b"], ["1", "x, y"]]),
    ('"sep=\t"\na\tb\n1\tx\n', [["a", "b"], ["1", "x"]]),
    ("\n\na,b\n\n1,x\n\n\n2,y", [["a", "b"], ["1", "x"], ["2", "y"]]),
    ('a,b\n7.jpg,"Stop\nnow, please"\n', [["a", "b"], ["7.jpg", "Stop\nnow, please"]]),
    ('a|b| c\n1| x| "y\n', [["a", "b", "c"], ["1", "x", '"y']]),
  ],
)
def test_csv_delimiters_and_blank_lines(tmp_path, text, rows):
  assert _cells(tmp_path, text) == rows


@pytest.mark.parametrize(
  ("body", "rows", "literal"),
  [
    ('1\t"Stop" sign\n2\ta "For Sale" sign\n', [["1", '"Stop" sign'], ["2", 'a "For Sale" sign']], True),
    ('1\t"Stop\n2\ta dog"\n', [["1", '"Stop'], ["2", 'a dog"']], True),
    ('1\t"Stop\n2\ta dog\n', [["1", '"Stop'], ["2", "a dog"]], True),
    ('1\ta 5" pipe\n', [["1", 'a 5" pipe']], False),
    ('"1"\t"a ""Stop"" sign,\nred"\n', [["1", 'a "Stop" sign,\nred']], False),
  ],
)
def test_tsv_quotation_marks_are_literal_unless_balanced(tmp_path, body, rows, literal):
  notes = []
  assert _cells(tmp_path, f"image_id\tcaption\n{body}", "\t", notes)[1:] == rows
  assert bool(notes) is literal


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ('image,caption\n1.jpg,"Stop\n2.jpg,a dog"\n', "line 2: a quotation mark opens here and swallows rows, such as '"),
    ('caption;id\n"Stop;0a1\nGo";00b2\na dog;2\n', "line 2: a quotation mark opens here and swallows rows"),
    ("a,b\n1,x\0y\n", "has NUL characters, as UTF-16 without a byte order mark"),
  ],
)  # fmt: skip
def test_malformed_csv_is_refused(tmp_path, text, message):
  assert message in refusal(_cells, tmp_path, text)


def test_kaggle_flickr30k_row_with_a_missing_bar_is_read(tmp_path):
  """results.csv of hsankesara/flickr-image-dataset, row 19999; the same slip without a number is refused."""
  header, notes = "image_name| comment_number| comment\n", []
  text = f"{header}7.jpg| 3| A dog runs .\n7.jpg| 4   A dog runs across the grass .\n"
  assert _cells(tmp_path, text, notes=notes)[2] == ["7.jpg", "4", "A dog runs across the grass ."]
  assert notes == ["line 3 lacks its second '|', as in Kaggle's Flickr30k; read as number and caption"]
  for row in ("7.jpg| A dog runs", "7.jpg| 4", "7.jpg| 4| a | b"):
    assert " cells under 3 headings" in refusal(_cells, tmp_path, header + row)


def test_csv_long_cell_is_read(tmp_path):
  assert len(_cells(tmp_path, "a,b\n1," + "x" * 200_000 + "\n")[1][1]) == 200_000
