"""Where parameters lie on the mesh of a v4 4x4x4: whole tiles first, then the least memory."""

import pytest

from xmcap.models import places
from xmcap.training.sharding import DEFAULT_RULES

FSDP, DATA, BOTH = ("fsdp",), ("data",), ("fsdp", "data")


def _at_rest(shape, axes, data=4, fsdp=16, model=1):
  sizes = {"data": data, "fsdp": fsdp, "model": model}
  found = places.at_rest(shape, axes, DEFAULT_RULES, sizes, whole="layers")
  return [tuple(name for name in names if sizes[name] > 1) for names in found]


@pytest.mark.parametrize(
  ("shape", "axes", "expected"),
  [
    ((1024, 2816), ("embed", "mlp"), [BOTH, ()]),  # 16 x 2816; 64 x 704 would be padded to 64 x 768
    ((2816, 1024), ("mlp", "embed"), [(), BOTH]),
    ((768, 2048), ("embed", "mlp"), [FSDP, DATA]),  # 48 x 512; 12 rows are no whole tile
    (
      (1408, 6144),
      ("embed", "mlp"),
      [(), BOTH],
    ),  # 1408 / 16 = 88 rows are no whole tiles, 6144 / 64 = 96 are
    ((1408, 1408), ("embed", "joined_kv"), [FSDP, DATA]),  # no cut by 16 is of whole tiles
    ((250112, 768), ("table", "embed"), [FSDP, DATA]),
    ((768, 250112), ("embed", "table"), [DATA, FSDP]),
    ((1408,), ("embed",), [()]),  # vectors lie whole
    ((24, 1024), ("layers", "embed"), [(), ()]),
    ((24, 1024, 2816), ("layers", "embed", "mlp"), [(), BOTH, ()]),  # layers are never cut
  ],
)
def test_where_parameters_lie(shape, axes, expected):
  assert _at_rest(shape, axes) == expected


@pytest.mark.parametrize(
  ("shape", "axes", "expected"),
  [
    # 3,908 rows or 12 are no whole tiles, but whole on every device they would cost more.
    ((250112, 768), ("table", "embed"), [DATA, ()]),
    ((768, 250112), ("embed", "table"), [(), DATA]),
    ((768, 768), ("embed", "joined_kv"), [DATA, ()]),
    ((768, 2048), ("embed", "mlp"), [(), DATA]),
  ],
)
def test_data_alone_cuts_what_is_large(shape, axes, expected):
  assert _at_rest(shape, axes, data=64, fsdp=1) == expected


def test_the_rules_stand_where_the_mesh_has_neither_axis():
  assert _at_rest((768, 2048), ("embed", "mlp"), data=1, fsdp=1, model=8) == [(), ("model",)]


def test_what_does_not_divide_stays_whole():
  assert _at_rest((10, 30), ("embed", "mlp")) == [(), ()]
  assert _at_rest((10, 30), ("embed", "mlp"), model=7) == [(), ()]


@pytest.mark.parametrize(
  ("shape", "rest", "used"),
  [
    ((768, 2048), [FSDP, DATA], [FSDP, ()]),
    ((1024, 2816), [BOTH, ()], [FSDP, ()]),
    ((768, 250112), [("model", "data"), FSDP], [("model",), FSDP]),
    # The exchange of 88 rows is left to last, when they are rows of a quarter.
    ((1408, 1408), [FSDP, DATA], [(), DATA]),
    ((1408, 1408), [FSDP, ()], [FSDP, ()]),
  ],
)
def test_where_a_parameter_comes_together(shape, rest, used):
  assert places.in_use(shape, rest, {"data": 4, "fsdp": 16, "model": 1}) == used
