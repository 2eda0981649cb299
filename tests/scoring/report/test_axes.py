import pytest

from xmcap.scoring.report import axes


@pytest.mark.parametrize(
  "lowest, highest, ticks",
  [
    (0, 9.3, [0, 2, 4, 6, 8, 10]),
    (0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
    (0, 0.031, [0, 0.01, 0.02, 0.03, 0.04]),
    (0, 0.0, [0, 1]),
    (7.2, 9.1, [7, 7.5, 8, 8.5, 9, 9.5]),
    (-3, 5, [-4, -2, 0, 2, 4, 6]),
    (2.0, 2.0, [2, 3]),
  ],
)
def test_ticks_are_round_and_reach_both_ends(lowest, highest, ticks):
  assert axes.ticks(lowest, highest) == pytest.approx(ticks)


@pytest.mark.parametrize(
  "lowest, highest, ticks",
  [
    (0.02, 30, [0.01, 0.1, 1, 10, 100]),
    (1.5, 8, [1, 2, 5, 10]),
    (1e-8, 1e4, [1e-8, 1e-6, 1e-4, 1e-2, 1, 100, 10000]),
    (5, 5, [5, 10]),
  ],
)
def test_ticks_of_a_logarithmic_axis(lowest, highest, ticks):
  assert axes.log_ticks(lowest, highest) == pytest.approx(ticks)


@pytest.mark.parametrize(
  "value, text",
  [
    (0, "0"),
    (0.25, "0.25"),
    (0.002, "2e-3"),
    (2.5e-5, "2.5e-5"),
    (900, "900"),
    (1200, "1.2k"),
    (20000, "20k"),
    (2.5e6, "2.5M"),
  ],
)
def test_text_of_a_tick(value, text):
  assert axes.text(value) == text


def test_text_of_a_share():
  assert axes.text(0.125, percent=True) == "12.5%"
