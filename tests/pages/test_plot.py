"""Figures of --plot: bars, sizes, fonts and reproducible bytes."""

import re

import numpy as np
import pytest

from xmcap import extras, languages
from xmcap.errors import UsageError
from xmcap.pages import plot
from xmcap.pages.output import score_files
from xmcap.scoring.comparing.significance import compare
from xmcap.scoring.statistics.sufficient import Statistics
from xmcap.scoring.system import System
from xmcap.scoring.tables import score_table

_SIGNATURE = "metric.cider:n=4|tokenizer:default|version:1"


def _table(codes, **more):
  rows = {code: {"images": 9, "references": 9, "cider": 0.2 + place} for place, code in enumerate(codes)}
  return score_table.Table.of_rows(_SIGNATURE, rows, **more)


def _written(path, write, *arguments):
  write(path, *arguments)
  return path.read_bytes()


def _paths(svg, group):
  """The points of the paths in the groups of a kind, `patch` or `line`, of matplotlib's SVG."""
  found = re.findall(rf'<g id="{group}_\d+">\s*<path d="([^"]+)"', svg)
  return [np.array(re.findall(r"-?[\d.]+", path), float).reshape(-1, 2) for path in found]


def test_plot_bar_heights_equal_the_scores(tmp_path):
  table = _table(("de", "en", "th"), intervals={"de": {"cider": (0.1, 0.3)}}, scale=100)
  svg = _written(tmp_path / "a.svg", plot.write_scores, table).decode()
  heights = [np.ptp(points[:, 1]) for points in _paths(svg, "patch")[2:6]]  # behind those of figure and axes
  assert np.array(heights) / heights[1] == pytest.approx([0.2 / 1.2, 1, 2.2 / 1.2, 1], rel=1e-3)
  assert re.findall(r">([a-z]+|CIDEr)</text>", svg) == ["de", "en", "th", "mean", "CIDEr"]
  assert ">200</text>" in svg  # at the table's scale


@pytest.mark.parametrize("codes, width", [(("de", "en"), 3.03), (languages.LANGUAGES, 6.3)])
def test_plot_width_is_a_single_or_double_column(tmp_path, codes, width):
  svg = _written(tmp_path / "a.svg", plot.write_scores, _table(codes)).decode()
  assert float(re.search(r'<svg [^>]*width="([\d.]+)pt"', svg)[1]) == pytest.approx(72 * width)


def _system(shift):
  scores = {
    code: Statistics(tuple("abcdefgh"), {"cider": np.arange(8.0)[:, None] + of_code * shift}, 16)
    for code, of_code in {"en": 1, "th": -1}.items()
  }
  rows = {code: of_language.row() for code, of_language in scores.items()}
  return System(score_table.Table.of_rows(_SIGNATURE, rows), scores)


def test_plot_differences_are_above_and_below_zero(tmp_path):
  systems = {"base": _system(0), "$ours$": _system(1), "theirs": _system(2)}
  comparison = compare(systems, resamples=20)
  svg = _written(tmp_path / "a.svg", plot.write_differences, comparison).decode()
  assert re.findall(r">([^<>]*(?:base|ours|theirs)[^<>]*)</text>", svg) == [
    "CIDEr minus that of base",
    "$ours$",
    "theirs",
  ]
  marks = np.array(
    re.findall(r'<use xlink:href="#\w+" x="[\d.]+" y="([\d.]+)" style="fill: #[^"]*stroke: #0072b2', svg),
    float,
  )
  en, th, mean = marks[:3]
  assert en < mean < th and mean - en == pytest.approx(th - mean)  # of $ours$, 1, -1 and 0


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_plot_bytes_are_reproducible_with_text_as_text(tmp_path, suffix, monkeypatch):
  first = _written(tmp_path / f"a.{suffix}", plot.write_scores, _table(("de", "en")))
  monkeypatch.setenv("MPLBACKEND", "TkAgg")  # no display is needed
  assert _written(tmp_path / f"b.{suffix}", plot.write_scores, _table(("de", "en"))) == first
  assert (b"/FontFile2" in first and b"/Type3" not in first) if suffix == "pdf" else b">de</text>" in first
  assert not re.search(rb"CreationDate|<dc:date>", first)


@pytest.mark.parametrize(
  "path, has_matplotlib, message", [("a.png", True, r"\.svg or \.pdf"), ("a.svg", False, r"'\.\[plot\]'")]
)
def test_plot_refuses_an_unsupported_file_before_reading_inputs(
  tmp_path, monkeypatch, path, has_matplotlib, message
):
  monkeypatch.setattr(extras, "absent", lambda modules: [] if has_matplotlib else list(modules))
  with pytest.raises(UsageError, match=message):
    score_files("no references", "no predictions", tmp_path / "out", plot=path)
