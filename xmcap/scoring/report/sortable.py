"""Tables that the reader sorts by a click on a heading."""

import dataclasses
from collections.abc import Iterable, Sequence

from xmcap.scoring.report import elements

_SORTED = ' aria-sort="ascending"'


@dataclasses.dataclass(frozen=True)
class Column:
  """A column.

  Attributes:
    heading_html: what stands above it.
    number: whether it holds numbers, which stand to the right and are sorted from the highest down.
    hint: what a reader sees who rests on the heading.
    sorted: whether the rows come in its order, ascending.
  """

  heading_html: str
  number: bool = True
  hint: str = ""
  sorted: bool = False


def table(
  name: str,
  columns: Sequence[Column],
  rows_html: Iterable[Sequence[str]],
  foot_html: Iterable[Sequence[str]] = (),
  label: str = "",
) -> str:
  """Returns a table in a box that scrolls sideways; `text`, `row_head` and `number` make its cells.

  Args:
    name: its id.
    columns: from the left.
    rows_html: the cells of each row.
    foot_html: the same, of rows that stay below, whatever the order.
    label: what it holds, for those who do not see it.
  """
  headings = "".join(
    f'<th scope="col" class="{"number" if column.number else "text"}"'
    f"{_SORTED if column.sorted else ''}>"
    f'<button type="button"{_hint(column.hint)}>{column.heading_html}'
    '<span aria-hidden="true" class="arrow"></span></button></th>'
    for column in columns
  )
  body = "".join(f"<tr>{''.join(cells)}</tr>\n" for cells in rows_html)
  foot = "".join(f"<tr>{''.join(cells)}</tr>\n" for cells in foot_html)
  return f"""<div class="sheet scroll" tabindex="0" role="group" aria-label="{elements.escape(label or name)}">
<table id="{name}" class="sortable"><thead><tr>{headings}</tr></thead>
<tbody>
{body}</tbody><tfoot>{foot}</tfoot></table></div>"""


def text(content_html: str, value: str = "", classes: str = "") -> str:
  """Returns a cell of text; `value` is what it is sorted by, if that is not its content."""
  return f"<td{_classes(classes)}{_value(value)}>{content_html}</td>"


def row_head(content_html: str, value: str = "", span: int = 1, classes: str = "") -> str:
  """Returns the cell that names its row."""
  spans = f' colspan="{span}"' if span > 1 else ""
  return f'<th scope="row"{spans}{_classes(classes)}{_value(value)}>{content_html}</th>'


def number(value: float | None, content_html: str, classes: str = "", style: str = "") -> str:
  """Returns a cell of a number; None is sorted below all others."""
  order = "" if value is None else repr(value)
  styles = f' style="{style}"' if style else ""
  classes = f"number {classes}" if classes else "number"
  return f'<td class="{classes}" data-value="{order}"{styles}>{content_html}</td>'


def absent(classes: str = "") -> str:
  """Returns the cell of a number that there is not."""
  return number(None, "\u2013", classes)


def _classes(classes: str) -> str:
  return f' class="{classes}"' if classes else ""


def _value(value: str) -> str:
  return f' data-value="{elements.escape(value)}"' if value else ""


def _hint(hint: str) -> str:
  return f' data-tip="{elements.escape(hint)}"' if hint else ""
