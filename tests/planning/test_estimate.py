"""The roofline, against the formulas of jax-ml.github.io/scaling-book/sharding worked out by hand."""

import types

import pytest

from xmcap.planning import estimate, topologies
from xmcap.planning.hlo import Collective

_V4 = topologies.parse("v4:4x4x4")


def _devices(topology):
  places = [(x, y, z) for x in range(4) for y in range(4) for z in range(4)]
  return [
    types.SimpleNamespace(coords=place, slice_index=index if topology.slices > 1 else None)
    for index in range(topology.slices)
    for place in places
  ]


def _links(kind, group, topology=_V4):
  bounds = estimate.bounds(0, 0, [Collective(kind, 9_000_000, group)], topology, _devices(topology))
  return bounds.links, bounds.network


def test_arithmetic_and_schedule():
  bounds = estimate.bounds(2 * 275e12, 1.05e9, [], _V4, _devices(_V4))
  assert (bounds.arithmetic, bounds.links, bounds.network) == (2.0, 0.0, 0.0)
  assert bounds.schedule == pytest.approx(1.0)
  assert bounds.seconds == 2.0 and bounds.name == "arithmetic"
  slower = estimate.bounds(275e12, 3 * 1.05e9, [], _V4, _devices(_V4))
  assert slower.seconds == pytest.approx(3.0) and slower.name == "schedule"
  unknown = topologies.parse("v6e-4")
  assert estimate.bounds(0, 1e9, [], unknown, _devices(unknown)).schedule == 0


@pytest.mark.parametrize(
  "kind, passes", [("all-gather", 1), ("reduce-scatter", 1), ("all-reduce", 2), ("all-to-all", 0.25)]
)
def test_a_ring_is_used_both_ways(kind, passes):
  # One axis, a ring of 4: V (n - 1) / n over 2 links of 45 GB/s.
  assert _links(kind, (0, 1, 2, 3))[0] == pytest.approx(passes * 9e6 * 3 / 4 / 90e9)


def test_three_axes_are_used_at_once():
  assert _links("all-gather", tuple(range(64)))[0] == pytest.approx(9e6 * 63 / 64 / 270e9)


def test_half_an_axis_is_no_ring():
  assert _links("all-gather", (0, 1))[0] == pytest.approx(9e6 / 2 / 45e9)


def test_between_slices_a_host_shares_its_network():
  two = topologies.parse("2*v4:4x4x4")
  links, network = _links("all-reduce", tuple(range(128)), two)
  assert links == pytest.approx(2 * 9e6 * 63 / 64 / 270e9)
  # What is left to each chip after its slice's part, sent and received; four chips a host, 25 GB/s.
  assert network == pytest.approx(2 * 9e6 / 64 / 2 * 4 / 25e9)


def test_alone_nothing_is_exchanged():
  assert _links("all-reduce", (5,)) == (0.0, 0.0)
