"""The order of notes in terminals, on pages and in Markdown."""

import pytest

from xmcap.pages.report import elements, notes
from xmcap.scoring.tables import note_order, score_table

_WORST_FIRST = (
  "2 missing predictions scored as empty captions: en 2",
  "ours: th: 40 of 100 captions are in another language, such as 'missing', which no reference is",
  "en: 1,000 of 1,100 captions have several lines, which no reference has; --clean=lines keeps the first",
  "en: 5 of 100 captions have special tokens, such as '</s>', which no reference has; --clean=tokens removes it",
  "pictures without a true tag are left out: zh 1",
  "letters with two spellings: ro: 3; --normalize=orthography unifies them",
  "predictions: language 'missing' is read as 'mi'",
  "columns fidelity: without captions whose language cannot be told: en 1.0%",
)
_FOLDED = (
  f"note: {_WORST_FIRST[0]}\nnote: {_WORST_FIRST[1]}\nnote: {_WORST_FIRST[2]}\nnote: and 4 more notes: "
)
_TABLE = score_table.Table.of_rows(
  "s", {"en": {"images": 1, "references": 1, "cider": 1.0}}, notes=_WORST_FIRST[::-1]
)


def test_worst_notes_come_first():
  assert note_order.worst_first(reversed(_WORST_FIRST))[:6] == list(_WORST_FIRST[:6])
  lines = [line for line in _TABLE.as_markdown().splitlines() if line.startswith("- ")]
  assert "2 missing" in lines[0] and len(lines) == 8


@pytest.mark.parametrize("count", [3, 4, 8])
def test_terminal_shows_the_three_worst_notes(count):
  text = note_order.terminal(_WORST_FIRST[:count], "out/table.md")
  assert text.count("note: ") == (count if count <= 4 else 4)
  assert ("and 5 more notes: out/table.md" in text) == (count == 8)
  assert note_order.terminal(_WORST_FIRST).count("note: ") == 8  # no file has them


def test_notes_beyond_three_are_folded_on_a_page():
  page = notes.notices(_TABLE, ())
  shown, folded = page.split("<details><summary>5 more notes</summary>")
  assert "2 missing" in shown and "left out" in folded
  assert "<details>" not in elements.notices(["a", "b", "c", "d"])


def test_note_shared_by_systems_is_shown_once():
  page = notes.notices(_TABLE, [("theirs", _TABLE)], "ours")
  assert page.count("2 missing") == 1 and "<b>ours</b>, <b>theirs</b>: 2 missing" in page
