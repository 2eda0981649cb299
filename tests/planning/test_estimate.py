"""The planner's estimate of a step: bounds against formulas worked out by hand."""

import itertools

import pytest

from xmcap.planning import estimate, topologies
from xmcap.planning.hlo import BETWEEN_SLICES, Collective

_V4 = topologies.parse("v4:4x4x4")


def test_estimate_bounds_of_arithmetic_and_schedule():
  bounds = estimate.bounds(2 * 275e12, 1.05e9, [], _V4)
  assert bounds == {"arithmetic": 2.0, "links": 0.0, "network": 0.0, "schedule": pytest.approx(1.0)}
  assert estimate.bounds(0, 1e9, [], topologies.parse("v6e-4"))["schedule"] == 0


@pytest.mark.parametrize(
  "kind, passes", [("all-gather", 1), ("reduce-scatter", 1), ("all-reduce", 2), ("all-to-all", 0.25)]
)
def test_estimate_of_collectives_with_unknown_groups(kind, passes):
  exchanges = [Collective(kind, 3, 9_000_000)]
  # Three axes of 45 GB/s each way; a slice of 2 x 2 x 1 has two.
  assert estimate.bounds(0, 0, exchanges, _V4)["links"] == pytest.approx(passes * 9e6 / 270e9)
  assert estimate.bounds(0, 0, exchanges, topologies.parse("v4-8"))["links"] == pytest.approx(
    passes * 9e6 / 180e9
  )


@pytest.mark.parametrize(
  "group, axes", [(range(4), 1), (range(0, 64, 16), 1), (range(16), 2), (range(64), 3), ([7], 0)]
)
def test_estimate_of_a_group_uses_the_links_of_its_axes(group, axes):
  coordinates = list(itertools.product(range(4), repeat=3))
  exchanges = [Collective("all-gather", 1, 9_000_000, tuple(group))]
  seconds = estimate.bounds(0, 0, exchanges, _V4, coordinates)["links"]
  assert seconds == (pytest.approx(9e6 / (axes * 90e9)) if axes else 0)


def test_estimate_of_collective_permute_uses_a_single_axis():
  exchanges = [Collective("collective-permute", 1, 9_000_000, (0, 0))]
  assert estimate.bounds(0, 0, exchanges, _V4)["links"] == pytest.approx(9e6 / 90e9)


def test_estimate_between_slices_shares_the_network_of_a_host():
  bounds = estimate.bounds(0, 0, [Collective(BETWEEN_SLICES, 1, 9_000_000)], topologies.parse("2*v4:4x4x4"))
  # Four chips a host, 25 GB/s.
  assert (bounds["links"], bounds["network"]) == (0.0, pytest.approx(4 * 9e6 / 25e9))


@pytest.mark.parametrize(
  "group, share", [((0, 2, 4, 6), 2), (range(8), 1), ((0, 1), 0)], ids=["one of each", "all", "of a chip"]
)
def test_estimate_of_two_devices_that_share_the_links_of_a_chip(group, share):
  topology = topologies.parse("tpu7x-8")
  coordinates = [(x, y, 0) for y in range(2) for x in range(2) for _ in range(2)]
  exchanges = [Collective("all-gather", 1, 9_000_000, tuple(group))]
  seconds = estimate.bounds(0, 0, exchanges, topology, coordinates)["links"]
  assert seconds == pytest.approx(share * 9e6 / (2 * 2 * 90e9))
  # Eight devices a host, 400 Gbit/s.
  between = estimate.bounds(0, 0, [Collective(BETWEEN_SLICES, 1, 9_000_000)], topologies.parse("2*tpu7x-128"))
  assert between["network"] == pytest.approx(8 * 9e6 / 50e9)


def test_estimate_adds_exposed_communication():
  assert estimate.exposed({"arithmetic": 2.0, "schedule": 5.0, "links": 3.0, "network": 0.5}) == 8.5


def test_estimate_every_bound_has_a_caveat():
  assert {"memory", "arithmetic", "links", "network", "schedule", "hidden", "exposed"} == set(
    estimate.CAVEATS
  )
