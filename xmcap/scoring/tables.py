"""The table of scores: a row a language, then the means, with the signature that reproduces them."""

import csv
import dataclasses
import io
import json
import os
import pathlib
from collections.abc import Mapping

from xmcap import languages
from xmcap.scoring import files

COLUMNS: dict[str, str] = {"cider": "CIDEr", "cider_d": "CIDEr-D", "exact": "Exact"}
"""Metric -> heading. `exact` is a share in [0, 1], shown in per cent; the others go from 0 to 10."""

_BASELINE_COLUMN = "cider_d"


@dataclasses.dataclass(frozen=True)
class Table:
  """Scores of one set of predictions.

  Attributes:
    signature: everything needed to get the same numbers from the same files.
    rows: language code -> {"images": count, metric: score}.
    means: what is averaged over -> {metric: mean}. "35" are the trained languages and "36" is all; each is
      there only if all of its languages are. Any other choice is called by its number, such as "3 languages".
    title: what was scored, for people.
  """

  signature: str
  rows: dict[str, dict[str, float]]
  means: dict[str, dict[str, float]]
  title: str = ""

  @classmethod
  def of_rows(cls, signature: str, rows: Mapping[str, Mapping[str, float]], title: str = "") -> "Table":
    """Makes a table of at least one language's scores, the means included."""
    rows = {code: dict(rows[code]) for code in sorted(rows)}
    return cls(signature, rows, _means(rows), title)

  def as_json(self) -> str:
    """Returns `table.json`: signature, languages, means, with every digit of the numbers."""
    value = {"signature": self.signature, "languages": self.rows, "means": self.means}
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"

  def as_csv(self) -> str:
    """Returns a header, a row a language and a row a mean (images empty), with every digit."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["language", "images", *COLUMNS])
    for code, row in self.rows.items():
      writer.writerow([code, row["images"], *(repr(row[column]) for column in COLUMNS)])
    for name, mean in self.means.items():
      writer.writerow([_mean_code(name), "", *(repr(mean[column]) for column in COLUMNS)])
    return text.getvalue()

  def as_markdown(self) -> str:
    """Returns a Markdown table, three decimals, with the signature below."""
    lines = [f"### {_markdown(self.title)}", ""] if self.title else []
    lines += [
      "| language | | images | " + " | ".join(COLUMNS.values()) + " |",
      "| --- | --- | ---: |" + " ---: |" * len(COLUMNS),
    ]
    for code, row in self.rows.items():
      lines.append(
        f"| {code} | {languages.get(code).english_name} | {row['images']:,} | "
        + " | ".join(format_score(column, row[column]) for column in COLUMNS)
        + " |"
      )
    for name, mean in self.means.items():
      lines.append(
        f"| **mean** | **{mean_label(name)}** | | "
        + " | ".join(f"**{format_score(column, mean[column])}**" for column in COLUMNS)
        + " |"
      )
    return "\n".join([*lines, "", f"Signature: `{self.signature}`", ""])

  def as_latex(self) -> str:
    """Returns a LaTeX `tabular` (package booktabs), three decimals, with title and signature as comments."""
    lines = [f"% {' '.join(self.title.split())}"] if self.title else []
    lines += [
      f"% {self.signature}",
      "\\begin{tabular}{llr" + "r" * len(COLUMNS) + "}",
      "\\toprule",
      "Language & & Images & " + " & ".join(COLUMNS.values()) + " \\\\",
      "\\midrule",
    ]
    for code, row in self.rows.items():
      lines.append(
        f"{languages.get(code).english_name} & {code} & {row['images']} & "
        + " & ".join(_latex(column, row[column]) for column in COLUMNS)
        + " \\\\"
      )
    lines.append("\\midrule")
    for name, mean in self.means.items():
      lines.append(
        f"\\multicolumn{{3}}{{l}}{{Mean, {mean_label(name)}}} & "
        + " & ".join(_latex(column, mean[column]) for column in COLUMNS)
        + " \\\\"
      )
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])

  def terminal(self, baselines: Mapping[str, "Table"] | None = None) -> str:
    """Returns the table as text for a terminal, each baseline's CIDEr-D beside it (`-` where it has none)."""
    baselines = dict(baselines or {})
    headings = ["", "language", "images", *COLUMNS.values(), *(f"{name} (CIDEr-D)" for name in baselines)]
    body = [
      [
        code,
        languages.get(code).english_name,
        f"{row['images']:,}",
        *(format_score(column, row[column]) for column in COLUMNS),
        *(_cell(baseline.rows, code) for baseline in baselines.values()),
      ]
      for code, row in self.rows.items()
    ]
    foot = [
      [
        "",
        f"mean, {mean_label(name)}",
        "",
        *(format_score(column, mean[column]) for column in COLUMNS),
        *(_cell(baseline.means, name) for baseline in baselines.values()),
      ]
      for name, mean in self.means.items()
    ]
    widths = [max(map(len, column)) for column in zip(headings, *body, *foot, strict=True)]
    rule = "  ".join("-" * width for width in widths)
    lines = [self.title] if self.title else []
    lines += [
      _line(headings, widths),
      rule,
      *(_line(row, widths) for row in body),
      rule,
      *(_line(row, widths) for row in foot),
      "",
      f"signature: {self.signature}",
    ]
    return "\n".join(lines) + "\n"

  def write(self, out: str | os.PathLike) -> None:
    """Writes `table.csv`, `table.json`, `table.md` and `table.tex` into a folder, made if need be.

    Raises:
      XmcapError: the folder cannot be written.
    """
    out = pathlib.Path(out)
    for suffix, text in (
      ("csv", self.as_csv()),
      ("json", self.as_json()),
      ("md", self.as_markdown()),
      ("tex", self.as_latex()),
    ):
      files.write_text(out / f"table.{suffix}", text)


def mean_label(name: str) -> str:
  """Returns what a mean is over, in words: `35 trained languages`, `all 36 languages`, `3 languages`."""
  return {"35": "35 trained languages", "36": "all 36 languages"}.get(name, name)


def format_score(column: str, score: float) -> str:
  """Returns a score as it is printed: three decimals, or per cent with one for a share."""
  return f"{100 * score:.1f}%" if column == "exact" else f"{score:.3f}"


def _means(rows: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
  groups = {"35": languages.TRAINED, "36": tuple(languages.LANGUAGES)}
  groups = {name: codes for name, codes in groups.items() if rows.keys() >= set(codes)}
  if not any(len(codes) == len(rows) for codes in groups.values()):
    groups = {f"{len(rows)} language{'' if len(rows) == 1 else 's'}": tuple(rows)}
  return {
    name: {column: sum(rows[code][column] for code in codes) / len(codes) for column in COLUMNS}
    for name, codes in groups.items()
  }


def _mean_code(name: str) -> str:
  return f"mean_{name.replace(' ', '_')}"


def _cell(scores: Mapping[str, Mapping[str, float]], name: str) -> str:
  return format_score(_BASELINE_COLUMN, scores[name][_BASELINE_COLUMN]) if name in scores else "-"


def _line(cells: list[str], widths: list[int]) -> str:
  return "  ".join(
    cell.ljust(width) if i < 2 else cell.rjust(width)
    for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
  ).rstrip()


def _markdown(text: str) -> str:
  return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in " ".join(text.split()))


def _latex(column: str, score: float) -> str:
  return format_score(column, score).replace("%", "\\%")
