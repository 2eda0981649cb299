"""LaTeX tables for papers: a `table` with caption and label, in the style of the package booktabs."""

import dataclasses
import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from xmcap import wording
from xmcap.errors import UsageError
from xmcap.terminal import shown

LABELS = ("code", "language")
"""The columns that name a row; both are shown if `Style.columns` has neither."""

_TEXT = str.maketrans(
  {c: f"\\{c}" for c in "&%$#_{}"}
  | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)
_NO_LETTERS = re.compile(r"[^a-z0-9]+")
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")


@dataclasses.dataclass(frozen=True)
class Style:
  """How a table is shown in LaTeX.

  Attributes:
    columns: names of columns in their order; (): those that the table shows by default.
    scale: factor of the scores, that of the table.
  """

  columns: tuple[str, ...] = ()
  scale: int = 1

  def check(self, names: Collection[str]) -> None:
    """Raises UsageError if a column is not among the known ones, or is named twice."""
    repeated = set(wording.repeated(self.columns))
    for name in self.columns:
      if name not in names or name in repeated:
        reason = "is named twice" if name in names else "is no column of the table"
        raise UsageError(f"--columns: '{shown(name)}' {reason}; there are {', '.join(names)}")

  def chosen(self, default: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of the columns to show, those of the labels first."""
    columns = self.columns or tuple(default)
    return columns if set(columns) & set(LABELS) else (*LABELS, *columns)

  @property
  def comment(self) -> str:
    """What a reader of the file must know."""
    times = "; scores, but percentages, are times 100" if self.scale == 100 else ""
    return f"needs \\usepackage{{booktabs}}{times}"


def table(tabular_lines: Sequence[str], caption: str, label: str, comments: Sequence[str] = ()) -> str:
  """Returns a `table` with the lines of a `tabular`. Caption and comments are text."""
  made = [
    *(f"% {' '.join(comment.split())}" for comment in comments if comment),
    "\\begin{table}",
    "\\centering",
    f"\\caption{{{text(caption)}}}",
    f"\\label{{{label}}}",
    *tabular_lines,
    "\\end{table}",
  ]
  return "\n".join(made) + "\n"


def tabular(
  spec: str,
  headings: Sequence[str],
  body: Sequence[Sequence[str]],
  foot: Sequence[Sequence[str]] = (),
  groups: Sequence[str] = (),
) -> list[str]:
  """Returns the lines of a `tabular`: rows of cells in LaTeX, and below a rule those of the foot.

  Headings are text, and so are the `groups` of the columns: neighbours of the same group stand under its name.
  """
  lines = [*_groups(groups), _row(map(text, headings)), "\\midrule", *map(_row, body)]
  if foot:
    lines += ["\\midrule", *map(_row, foot)]
  return [f"\\begin{{tabular}}{{{spec}}}", "\\toprule", *lines, "\\bottomrule", "\\end{tabular}"]


def label(title: str, default: str) -> str:
  """Returns the label of a table, such as `tab:our-model`, from its title or else the default."""
  return f"tab:{_NO_LETTERS.sub('-', title.lower()).strip('-') or default}"


def text(value: str) -> str:
  """Returns text on one line, escaped."""
  return " ".join(value.split()).translate(_TEXT)


def number(value: str) -> str:
  """Returns a number, an interval or a bound such as `<0.001` with LaTeX's minus sign and comparison."""
  return _MINUS.sub("$-$", text(value)).replace("<", "$<$")


def bold(cell: str) -> str:
  """Returns a cell in bold."""
  return f"\\textbf{{{cell}}}"


def best(scores: Mapping[Any, float], cells: Mapping[Any, str]) -> set[Any]:
  """Returns the names whose cells show the highest score: several if they read alike, none without a choice."""
  if len(scores) < 2:
    return set()
  highest = cells[max(scores, key=scores.__getitem__)]
  return {name for name in scores if cells[name] == highest}


def _groups(groups: Sequence[str]) -> list[str]:
  """Returns the row of the groups' names with rules below it; [] without groups."""
  if not any(groups):
    return []
  cells, rules, first = [], [], 1
  for name, members in itertools.groupby(groups):
    count = len(list(members))
    if name:
      cells.append(f"\\multicolumn{{{count}}}{{c}}{{{text(name)}}}")
      rules.append(f"\\cmidrule(lr){{{first}-{first + count - 1}}}")
    else:
      cells += [""] * count
    first += count
  return [_row(cells), " ".join(rules)]


def _row(cells: Iterable[str]) -> str:
  line = " & ".join(cells) + r" \\"
  # The end of the row above, and a rule, would take these for their own argument.
  return f"{{}}{line}" if line.startswith(("[", "*")) else line
