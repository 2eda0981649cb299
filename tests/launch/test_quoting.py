"""Shell quoting: a quoted word is the same text again in bash 5."""

import os
import re
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.launch.stubs import HOSTILE
from xmcap.launch import quoting

# What an argument list can hold: no NUL, and bytes that are not UTF-8 as surrogates.
_ARGUMENTS = st.lists(
  st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])).map(str)
  | st.binary().map(lambda data: os.fsdecode(data.replace(b"\x00", b""))),
  max_size=4,
)
_PRINT_ALL = 'for text in "$@"; do printf "%s\\0" "$text"; done'


def _words_of_bash(text: str) -> list[str]:
  """Returns the arguments that bash makes of a text."""
  script = f"set -- {text}\n{_PRINT_ALL}".encode("utf-8", "surrogateescape")
  done = subprocess.run(["bash"], input=script, capture_output=True, check=True)
  assert not done.stderr
  return [os.fsdecode(part) for part in done.stdout.split(b"\x00")[:-1]]


@pytest.mark.parametrize("quote", [quoting.words, quoting.shown, quoting.xpk_words])
def test_quoted_words_round_trip_in_bash(quote):
  @settings(max_examples=20)
  @given(_ARGUMENTS)
  @example(HOSTILE)
  @example([f"--command={text}" for text in HOSTILE])
  def check(texts):
    assert _words_of_bash(quote(texts)) == texts

  check()


@given(st.text())
@example("".join(HOSTILE))
def test_quoted_word_has_no_line_break_or_control_character(text):
  line = quoting.word(text)
  assert len(line.splitlines()) == 1 and not re.search(r"[\x00-\x1f\x7f-\x9f]", line)


@given(_ARGUMENTS)
@example(HOSTILE)
def test_xpk_quoted_words_have_no_template_syntax(texts):
  line = quoting.xpk_words(texts)
  assert line.isascii() and not re.search(r"[\x00-\x1f{}]|\$[^']|\$$", line)


def test_plain_words_are_not_quoted():
  assert (
    quoting.words(["xmcap", "train", "--gin_file=models/bb.gin"]) == "xmcap train --gin_file=models/bb.gin"
  )
