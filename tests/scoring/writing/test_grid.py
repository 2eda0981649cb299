from xmcap.scoring.writing.grid import Grid, write_csv

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
  assert write_csv(["a", "b", "c"], [[0.1 + 0.2, None, 'x "y"']]) == (
    'a,b,c\n0.30000000000000004,,"x ""y"""\n'
  )


def test_a_cell_cannot_break_its_row():
  held = Grid(("name", "value"), (("a\nb\x1b[2J", "1"), ("c\u202ed", "2")))
  assert held.text().splitlines() == [
    "name           value",
    "-------------  -----",
    "a\\nb\\u001b[2J      1",
    "c\\u202ed           2",
  ]
