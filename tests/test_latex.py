"""LaTeX of `table.tex` and `comparison.tex`."""

import dataclasses

import pytest

from xmcap.errors import UsageError
from xmcap.latex import Style
from xmcap.scoring.comparing.comparison import Comparison, Difference
from xmcap.scoring.tables.score_table import Table


def _table(**more):
  rows = {
    "en": {"images": 3600, "references": 7200, "cider_d": 0.5841, "exact": 0.125},
    "th": {"images": 3600, "references": 7200, "cider_d": 0.3, "exact": 0.0},
  }
  return Table.of_rows(
    "metric.cider_d:n=4", rows, "CIDEr & co", beside={"theirs": {"en": 0.6, "th": 0.2996}}, **more
  )


def _lines(text):
  return [line for line in text.splitlines() if not line.startswith("%")]


def test_a_table_of_chosen_columns_times_100():
  style = Style(("language", "cider_d", "theirs", "difference to theirs"))
  assert _lines(_table(notes=("3 missing",), scale=100).as_latex(style)) == [
    r"\begin{table}",
    r"\centering",
    r"\caption{CIDEr \& co}",
    r"\label{tab:cider-co}",
    r"\begin{tabular}{lrrr}",
    r"\toprule",
    r"language & CIDEr-D & theirs & difference \\",
    r"\midrule",
    r"English & 58.4 & \textbf{60.0} & $-$1.6 \\",
    r"Thai & \textbf{30.0} & \textbf{30.0} & +0.0 \\",  # they read alike, so both are the best
    r"\midrule",
    r"mean, 2 languages & 44.2 & - &  \\",
    r"\bottomrule",
    r"\end{tabular}",
    r"\end{table}",
  ]


def test_latex_scale_applies_to_intervals_not_percentages():
  intervals = {"en": {"cider_d": (-0.1, 0.61), "exact": (0.0, 0.2)}}
  text = _table(intervals=intervals, scale=100).as_latex(Style(("code", "cider_d", "exact")))
  assert r"en & 58.4 [$-$10.0, 61.0] & 12.5\% [0.0\%, 20.0\%] \\" in text


def test_notes_and_signature_are_comments():
  text = _table(notes=("3 missing\nof 4",)).as_latex()
  assert text.splitlines()[1:3] == ["% 3 missing of 4", "% metric.cider_d:n=4"]


@pytest.mark.parametrize("scale, said", [(1, ""), (100, "; scores, but percentages, are times 100")])
def test_latex_first_line_names_booktabs_and_scale(comparison, scale, said):
  for text in (
    _table(scale=scale).as_latex(),
    dataclasses.replace(comparison, scale=scale).as_latex(),
  ):
    assert text.splitlines()[0] == rf"% needs \usepackage{{booktabs}}{said}"


def test_latex_published_rows_are_a_separate_table():
  rows = (
    {"model": "m & m", "paper": "p", "table": "rows", "en": 0.61},
    {"model": "n", "paper": "p", "table": "rows", "en": 0.5},
  )
  text = dataclasses.replace(_table(scale=100), published=rows).as_latex()
  assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
  assert _lines(text.rpartition(r"\begin{table}")[2])[1:] == [
    r"\centering",
    r"\caption{CIDEr-D of CIDEr \& co beside that of papers}",
    r"\label{tab:cider-co-papers}",
    r"\begin{tabular}{lllr}",
    r"\toprule",
    r" & paper & table & CIDEr-D, en \\",
    r"\midrule",
    r"CIDEr \& co &  &  & 58.4 \\",
    r"m \& m & p & rows & \textbf{61.0} \\",
    r"n & p & rows & 50.0 \\",
    r"\bottomrule",
    r"\end{tabular}",
    r"\end{table}",
  ]


@pytest.mark.parametrize(
  "columns, message",
  [
    (("cider",), "--columns: 'cider' is no column of the table; there are code, language, i"),
    (("exact", "exact"), "'exact' is named twice"),
  ],
)
def test_invalid_latex_columns_are_refused(columns, message):
  with pytest.raises(UsageError, match=message):
    _table().as_latex(Style(columns))


def _difference(system, name, score, p):
  ends = (0.4, 0.6, score - 0.1, score + 0.1)
  return Difference(system, "cider_d", name, 0.5, score, score - 0.6, score - 0.4, p, p, p, False, *ends)


@pytest.fixture
def comparison():
  rows = [
    _difference("ours_b", "en", 0.584, 0.0001),
    _difference("ours_b", "2 languages", 0.5, 0.2),
    _difference("small", "en", 0.4, 0.6),
    _difference("small", "2 languages", 0.45, 0.00099),
  ]
  return Comparison("base", "metric.cider_d:n=4", tuple(rows), 10_000, 0)


def test_latex_comparison_has_bold_and_significance_marks(comparison):
  style = Style(("code", "baseline", "score", "p_bootstrap"))
  assert _lines(dataclasses.replace(comparison, scale=100).as_latex(style))[2:] == [
    r"\caption{CIDEr-D of ours\_b, small against base; "
    r"*: p (Holm, over the languages; means uncorrected) below 0.05}",
    r"\label{tab:comparison-cider-d}",
    r"\begin{tabular}{lrrrrr}",
    r"\toprule",
    r" & \multicolumn{1}{c}{base} & \multicolumn{2}{c}{ours\_b} & \multicolumn{2}{c}{small} \\",
    r"\cmidrule(lr){2-2} \cmidrule(lr){3-4} \cmidrule(lr){5-6}",
    r" & score & score & p (bootstrap) & score & p (bootstrap) \\",
    r"\midrule",
    r"en & 50.0 & \textbf{58.4}$^{*}$ & $<$0.001 & 40.0 & 0.600 \\",
    r"\midrule",
    r"mean & \textbf{50.0} & \textbf{50.0} & 0.200 & 45.0$^{*}$ & $<$0.001 \\",
    r"\bottomrule",
    r"\end{tabular}",
    r"\end{table}",
  ]


def test_both_systems_have_intervals(comparison):
  style = Style(("code", "baseline", "baseline_interval", "score", "score_interval"))
  text = dataclasses.replace(comparison, rows=comparison.rows[:2], scale=100).as_latex(style)
  assert _lines(text)[4:10] == [
    r"\begin{tabular}{lrrrr}",
    r"\toprule",
    r" & \multicolumn{2}{c}{base} & \multicolumn{2}{c}{ours\_b} \\",
    r"\cmidrule(lr){2-3} \cmidrule(lr){4-5}",
    r" & score & 95\% interval & score & 95\% interval \\",
    r"\midrule",
  ]
  assert r"en & 50.0 & [40.0, 60.0] & \textbf{58.4}$^{*}$ & [48.4, 68.4] \\" in text


def test_systems_with_one_column_each_need_one_line_of_headings(comparison):
  lines = _lines(comparison.as_latex(Style(("code", "baseline", "score"))))
  assert lines[5:8] == [r"\toprule", r" & base & ours\_b & small \\", r"\midrule"]
  assert lines[2].startswith(r"\caption{CIDEr-D of ours\_b, small against base; ")


def test_latex_marks_the_difference_without_a_score_column(comparison):
  text = comparison.as_latex(Style(("language", "difference", "interval")))
  assert r"English & +0.084$^{*}$ & [$-$0.016, +0.184] & $-$0.100 & [$-$0.200, +0.000] \\" in text


def test_a_p_value_is_never_0(comparison):
  texts = (comparison.terminal(), comparison.as_markdown().replace("\\", ""))
  assert all("<0.001" in text and " 0.000 " not in text for text in texts)


def test_comparison_title_is_in_all_formats(comparison):
  titled = dataclasses.replace(comparison, title="Two & more")
  assert r"\caption{Two \& more; *: p (Holm" in titled.as_latex()
  assert titled.terminal().startswith("Two & more\n") and titled.as_markdown().startswith("## Two & more\n")
