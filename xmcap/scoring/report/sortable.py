"""Tables that the reader sorts by a click on a heading."""

from collections.abc import Iterable, Sequence

from xmcap import languages
from xmcap.scoring.report.elements import language_name, tag


def heading(content_html: str, numeric: bool = True, hint: str = "", sorted: bool = False) -> str:
  """Returns a heading that sorts.

  Args:
    content_html: its text.
    numeric: whether the column holds numbers, which stand to the right and are sorted from the highest down.
    hint: for a reader who rests on it.
    sorted: whether the rows come in its order, ascending.
  """
  arrow = tag("span", "", aria_hidden="true", class_="arrow")
  button = tag("button", content_html + arrow, type="button", data_tip=hint or None)
  kind = "number" if numeric else "text"
  return tag("th", button, scope="col", class_=kind, aria_sort="ascending" if sorted else None)


def table(
  name: str,
  headings_html: Sequence[str],
  rows_html: Iterable[Sequence[str]],
  foot_html: Iterable[Sequence[str]] = (),
  label: str = "",
) -> str:
  """Returns a table in a box that scrolls sideways.

  Args:
    name: its id.
    headings_html: made by `heading`.
    rows_html: the cells of each row, made by `text`, `row_head`, `number` and `absent`.
    foot_html: the same, of rows that stay below, whatever the order.
    label: what it holds, for those who do not see it.
  """
  body, foot = (
    "".join(tag("tr", "".join(cells)) + "\n" for cells in rows) for rows in (rows_html, foot_html)
  )
  head = tag("thead", tag("tr", "".join(headings_html)))
  content = tag("table", f"{head}\n<tbody>\n{body}</tbody><tfoot>{foot}</tfoot>", id=name, class_="sortable")
  return tag("div", content, class_="sheet scroll", tabindex=0, role="group", aria_label=label or name)


def text(content_html: str, value: str | None = None, classes: str | None = None) -> str:
  """Returns a cell of text; `value` is what it is sorted by, if that is not its content."""
  return tag("td", content_html, class_=classes, data_value=value)


def row_head(
  content_html: str, value: str | None = None, span: int | None = None, classes: str | None = None
) -> str:
  """Returns the cell that names its row."""
  return tag("th", content_html, scope="row", colspan=span, class_=classes, data_value=value)


def number(value: float | None, content_html: str, classes: str = "", style: str | None = None) -> str:
  """Returns a cell of a number; None is sorted below all others."""
  order = "" if value is None else repr(value)
  return tag("td", content_html, class_=f"number {classes}".strip(), data_value=order, style=style or None)


def absent(classes: str = "") -> str:
  """Returns the cell of a number that there is not."""
  return number(None, "\u2013", classes)


def language_headings() -> list[str]:
  """Returns the headings of `language_cells`."""
  return [heading("Code", numeric=False, sorted=True), heading("Language", numeric=False)]


def language_cells(code: str, flag_html: str = "") -> list[str]:
  """Returns the first two cells of a language's row."""
  return [
    text(f"<code>{code}</code>", classes="first"),
    row_head(language_name(code) + flag_html, languages.get(code).english_name),
  ]
