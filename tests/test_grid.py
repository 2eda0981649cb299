from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xmcap import spreadsheet, terminal
from xmcap.grid import Grid

_GRID = Grid(
  ("", "name", "score"), (("a", "One_1", "0.5"), ("b", "Two & a half", "10.0")), (("", "mean", "5.3"),), 2
)


def test_text_is_aligned_and_the_foot_ruled_off():
  assert _GRID.text() == (
    "   name          score\n"
    "-  ------------  -----\n"
    "a  One_1           0.5\n"
    "b  Two & a half   10.0\n"
    "-  ------------  -----\n"
    "   mean            5.3\n"
  )


def test_markdown_escapes_and_makes_the_foot_bold():
  assert _GRID.markdown() == (
    "|  | name | score |\n"
    "| --- | --- | ---: |\n"
    "| a | One\\_1 | 0.5 |\n"
    "| b | Two & a half | 10.0 |\n"
    "|  | **mean** | **5.3** |\n"
  )


def test_latex_escapes():
  text = _GRID.latex()
  assert "\\begin{tabular}{llr}" in text and "a & One\\_1 & 0.5 \\\\" in text and "Two \\& a half" in text


def test_latex_escapes_every_special_character():
  row = Grid(("h",), ((r"\ ~ ^ & % $ # _ { }",),)).latex().splitlines()[4]
  assert row == (r"\textbackslash{} \textasciitilde{} \textasciicircum{} \& \% \$ \# \_ \{ \} \\")


def test_csv_keeps_every_digit_and_leaves_none_empty():
  assert spreadsheet.table(["a", "b", "c"], [[0.1 + 0.2, None, 'x "y"']]) == (
    'a,b,c\n0.30000000000000004,,"x ""y"""\n'
  )


def test_grid_escapes_line_ends_in_cells():
  held = Grid(("name", "value"), (("a\nb\x1b[2J", "1"), ("c\u202ed", "2")))
  assert held.text().splitlines() == [
    "name           value",
    "-------------  -----",
    "a\\nb\\u001b[2J      1",
    "c\\u202ed           2",
  ]


# ---- a terminal that is too narrow ---------------------------------------------------------------

_WIDE = Grid(
  ("", "language", "images", "CIDEr", "CIDEr-D", "nearest picture CIDEr-D", "difference"),
  (("zh", "Chinese", "1,000", "0.584 [0.560, 0.610]", "0.432", "0.123", "+0.309"),),
  (("mean", "35 languages (all but quz)", "", "0.584 [0.560, 0.610]", "0.432", "0.123", "+0.309"),),
  2,
  spare=("absent", "images", "CIDEr"),
)


def test_grid_in_a_pipe_has_all_columns():
  assert max(map(len, _WIDE.text("table.md").splitlines())) == 108
  assert _WIDE.text("table.md") == _WIDE.text(columns=108)


def test_grid_wraps_headings_before_dropping_columns():
  assert _WIDE.text(columns=87).splitlines() == [
    "      language       images                 CIDEr  CIDEr-D  nearest picture  difference",
    "                                                                    CIDEr-D",
    "----  -------------  ------  --------------------  -------  ---------------  ----------",
    "zh    Chinese         1,000  0.584 [0.560, 0.610]    0.432            0.123      +0.309",
    "----  -------------  ------  --------------------  -------  ---------------  ----------",
    "mean  35 languages           0.584 [0.560, 0.610]    0.432            0.123      +0.309",
    "      (all but quz)",
  ]


def test_grid_names_dropped_columns_and_the_file():
  assert _WIDE.text("scores/table.md", columns=50).splitlines() == [
    "      language       CIDEr-D  nearest  difference",
    "                              picture",
    "                              CIDEr-D",
    "----  -------------  -------  -------  ----------",
    "zh    Chinese          0.432    0.123      +0.309",
    "----  -------------  -------  -------  ----------",
    "mean  35 languages     0.432    0.123      +0.309",
    "      (all but quz)",
    "Too wide for 50 columns, so without: images,",
    "CIDEr. All are in scores/table.md, and in a pipe,",
    "such as | less -S",
  ]
  assert "0.432" in _WIDE.text(columns=30) and "0.123" not in _WIDE.text(columns=30)


_CELL = st.text(st.sampled_from("ab 7狗"), max_size=30)


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(
  st.lists(st.tuples(_CELL, _CELL, st.integers(0, 10**9).map(str)), min_size=1, max_size=4),
  st.integers(18, 60),  # the longest number, and two columns for each label
)
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(rows, columns):
  lines = Grid(("name", "some text", "number"), tuple(rows), (), 2).text(columns=columns).splitlines()
  assert max(map(terminal.cells, lines)) <= columns
  words = " ".join(lines).split()
  assert all(row[2] in words for row in rows)


def test_a_wide_character_takes_two_columns():
  assert Grid(("name", "n"), (("狗", "1"), ("abc", "2"))).text().splitlines() == [
    "name  n",
    "----  -",
    "狗    1",
    "abc   2",
  ]
