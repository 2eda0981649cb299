"""Marks in pairs: the same as `re` finds, in time that grows with the text and not with its square."""

import itertools
import re

import pytest

from tests.make import work
from xmcap.scoring.residue import forms
from xmcap.scoring.residue.pairs import Kind, Pairs

_STARS = Pairs(Kind(r"\*{3}(?=\S)", r"(?<=\S)\*{3}", 1), Kind(r"\*{2}(?=\S)", r"(?<=\S)\*{2}", 1))
_SAME = {
  "stars": (_STARS, re.compile(r"(\*{2,3})(?=\S)(.+?)(?<=\S)\1"), r"\2", ("**", "***", "*", "a", " ", "\n")),
  "lines": (
    Pairs(Kind(r"\[INST\]", r"\[/INST\]"), Kind("<S>", "</S>"), flags=re.DOTALL),
    re.compile(r"(?:\[INST\].*?\[/INST\]|<S>.*?</S>)", re.DOTALL), "-", ("[INST]", "[/INST]", "<S>", "</S>", "\n", "a"),
  ),
}  # fmt: skip


@pytest.mark.parametrize("name", _SAME)
def test_pairs_are_those_that_re_finds(name):
  pairs, expression, kept, pieces = _SAME[name]
  for length in range(7):
    for parts in itertools.product(pieces, repeat=length):
      text = "".join(parts)
      assert pairs.sub(r"\1" if kept == r"\2" else kept, text) == expression.sub(kept, text), text


@pytest.mark.parametrize(
  "piece", [" ~~a", " **a", "***a** ", " __a", "[INST]", "<<SYS>>", "\u2581", "<|user|>a"]
)
def test_work_grows_with_the_length_of_a_caption(piece):
  """What is within `re` is not counted: each mark without an end is looked for once, which the lines show."""

  def lines_of(caption):
    return work.lines_run(lambda: [form.remove(caption) for form in forms.FORMS.values()])

  lines_of(piece * 400)  # fills caches
  assert lines_of(piece * 400) < 2.2 * lines_of(piece * 200)
