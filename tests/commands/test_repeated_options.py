"""Command-line options that are repeated."""

import argparse

import pytest

from tests.make.command import xmcap
from tests.test_extras import LEAVES
from xmcap.commands import base

_JOINING = ("_AppendAction", "_ExtendAction")
_HARMLESS = ("_HelpAction", "_StoreTrueAction")  # once or twice is the same


@pytest.mark.parametrize("name", LEAVES)
def test_every_single_value_option_refuses_a_repeat(name):
  parser = LEAVES[name]
  for action in parser._option_string_actions.values():
    if type(action).__name__ not in (*_JOINING, *_HARMLESS):
      parser.options, option = {}, action.option_strings[-1]
      action(parser, argparse.Namespace(), "a", action.option_strings[0])
      with pytest.raises(base.UsageError, match=f"{option} (is|are) given twice: 'a' and 'b'; give it once"):
        action(parser, argparse.Namespace(), "b", option)


@pytest.mark.parametrize(
  ("words", "message"),
  [
    ("score -o a --out=b", "-o and --out are given twice: 'a' and 'b'; give it once"),
    ("score --seed 1 --seed=1", "--seed is given twice: '1' and '1'; give it once"),
    ("score --scale=1 --scale=100", "--scale is given twice: '1' and '100'; give it once"),
    ("score --languages=en,fr --languages de", "--languages is given twice: 'en,fr' and 'de'; give it once"),
    ("score tags -r a -r b", "-r is given twice: 'a' and 'b'; give it once"),
    (
      "score --seed=1 tags -r a -p b -o c",
      "--seed=1 has no effect before the subcommand: give it after 'xmcap score tags'",
    ),
    ("plan --topology=a --topology=b", "--topology is given twice: 'a' and 'b'; give it once"),
    ("data build emoji36 --out a --out b", "--out is given twice: 'a' and 'b'; give it once"),
    ("launch tpu-vm --action=stop --action=run", "--action is given twice: 'stop' and 'run'; give it once"),
    (
      "launch slurm --name=a --nodes=1 -- train --gin_search_paths=a --gin_search_paths=b",
      "--gin_search_paths is given twice: 'a' and 'b'; give it once (nothing was started; --unchecked starts it "
      "without this check)",
    ),
    (
      "launch local --processes=1 --env=A=1 --env=A=2 -- train",
      "the variable 'A' is given twice by --env or --secret; give it once",
    ),
  ],
)
def test_option_given_twice_is_refused(words, message):
  assert xmcap(*words.split()).refused().err == f"xmcap: error: {message}\n"


def test_repeated_gin_override_is_warned_of(capsys):
  rest = ["--gin.A=1", "--gin.B=2", "--gin.A=3"]
  assert base.overrides(argparse.Namespace(gin_file=[]), rest) == ["A=1", "B=2", "A=3"]
  said = "xmcap: --gin.A=1 has no effect: --gin.A=3 comes later and wins, as in t5x\n"
  assert capsys.readouterr().err == said
