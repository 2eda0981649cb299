"""`xmcap human choose`: side-by-side comparisons that two sets of references leave open (XM3600, section 3.3)."""

import pytest

from tests.make import files
from tests.make.command import xmcap
from xmcap import papers
from xmcap.errors import UsageError
from xmcap.human import comparison_choice

_GOLD = {
  "A": {"en": 0.5, "de": 0.3, "fr": 0.40, "ru": 0.3},
  "B": {"en": 0.4, "de": 0.2, "fr": 0.395, "ru": 0.1},
}
_SILVER = {
  "A": {"en": 0.9, "de": 0.8, "fr": 0.9, "ru": 0.9},
  "B": {"en": 0.8, "de": 0.9, "fr": 0.5, "ru": 0.5},
}


def test_comparison_choice_of_core_opposite_and_small_differences():
  found = comparison_choice.choose(_GOLD, _SILVER, core=["en"], small=0.01)
  assert [(pair.lang, pair.group, pair.why) for pair in found.pairs] == [
    ("en", "CORE", "core"), ("de", "EXT", "opposite"), ("fr", "EXT", "small"),
  ]  # fmt: skip
  assert found.candidates == 4 and "EXT: 2 comparisons in 2 languages" in found.terminal()


def test_comparison_choice_compares_decimals_as_written():
  gold, silver = {"A": {"de": 0.3}, "B": {"de": 0.2}}, {"A": {"de": 1.0}, "B": {"de": 0.0}}
  assert len(comparison_choice.choose(gold, silver, small=0.1).pairs) == 1  # 0.3 - 0.2 > 0.1 in binary


def test_comparison_choice_equals_the_sessions_of_xm3600():
  gold, silver = ({model: {} for model in papers.MODELS} for _ in range(2))
  for row in papers.read("xm3600_tables8_11_cider"):
    gold[row["model"]][row["lang"]] = float(row["xm3600"])
    silver[row["model"]][row["lang"]] = float(row["coco_dev"])
  rated = {(frozenset((row["m1"], row["m2"])), row["lang"]) for row in papers.read("xm3600_table7_ext_sxs")}
  counts = []
  for small in (0.0, 0.010, 0.011):
    pairs = comparison_choice.choose(gold, silver, ("en", "es", "hi", "zh"), small).pairs
    chosen = {(frozenset((pair.m1, pair.m2)), pair.lang) for pair in pairs if pair.group == "EXT"}
    assert len(pairs) == 24 + len(chosen)
    counts.append((len(chosen), len(chosen & rated)))
  assert counts == [(34, 31), (56, 40), (59, 41)]


@pytest.mark.parametrize(
  "gold, silver, core, message",
  [
    ({"A": {"en": 1.0}}, {"A": {"en": 1.0}}, (), "needs two systems"),
    (_GOLD, {"A": {"en": 1.0}}, (), "'B' must be in both"),
    (_GOLD, _SILVER, ("zh",), "no scores in zh"),
  ],
)
def test_comparison_choice_refuses_incomparable_scores(gold, silver, core, message):
  with pytest.raises(UsageError, match=message):
    comparison_choice.choose(gold, silver, core)


def test_comparison_choice_command_writes_the_comparisons(tmp_path):
  options = []
  for option, scores in (("scores", _GOLD), ("silver", _SILVER)):
    for system, rows in scores.items():
      languages = {code: {"cider": score} for code, score in rows.items()}
      table = {"signature": "tokenizer:x", "languages": languages}
      path = files.json(tmp_path / option / system / "table.json", table)
      options.append(f"--{option}={system}={path.parent}")
  xmcap("human", "choose", *options, "--core=en", f"--out={tmp_path}/out").succeeded()
  assert (tmp_path / "out/comparisons.csv").read_text().splitlines()[1].startswith("A,B,en,CORE,core,")
  xmcap("human", "choose", *options, "--small=nan").refused("--small=nan")
