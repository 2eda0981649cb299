"""The reading of compiled programs, written by hand."""

import pytest

from xmcap.planning import hlo
from xmcap.planning.hlo import Collective

_TEXT = """\
HloModule jit_step, is_scheduled=true

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  ROOT %sum = f32[] add(%a, %b)
}

%condition (p: (s32[], f32[8])) -> pred[] {
  %limit = s32[]{:T(128)} constant(12)
  %i = s32[] get-tuple-element(%p), index=0
  ROOT %less = pred[] compare(%i, %limit), direction=LT
}

%inner (x: f32[8]) -> f32[8] {
  ROOT %ar = f32[8]{0} all-reduce(%x), replica_groups={{0,1},{2,3}}, to_apply=%add
}

%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %one = f32[8]{0} fusion(%x), kind=kCustom, calls=%inner, backend_config={"window":{"estimated_cycles":"10"}}
  ROOT %t = (s32[], f32[8]) tuple(%i, %one)
}

%unused (x: f32[8]) -> f32[8] {
  ROOT %ar = f32[8]{0} all-reduce(%x), replica_groups={{0,1}}, to_apply=%add
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %g = bf16[4,8]{1,0:T(8,128)S(3)} all-gather(%x), replica_groups=[2,2]<=[2,2]T(1,0), dimensions={0}
  %rs = (f32[2]{0}, f32[4]{0}) reduce-scatter(%x, %y), replica_groups=[1,4]<=[4], to_apply=%add
  %s = (f32[2]{0}, f32[8]{0}) all-gather-start(%x), replica_groups=mesh['a'=2,'b'=2] {'b'}, dimensions={0}
  %d = f32[8]{0} all-gather-done(%s)
  %cp = f32[16]{0} collective-permute(%x), source_target_pairs={{0,1},{1,2},{2,0}}
  %w = (s32[], f32[8]) while(%t), condition=%condition, body=%body
  %f = f32[8]{0} fusion(%d), kind=kLoop, calls=%add, backend_config={"window":{"estimated_cycles":"7"}}
}
"""


def test_collectives_are_read_with_their_sizes_and_groups():
  found = {(c.kind, c.size, c.group, c.times) for c in hlo.Module(_TEXT).collectives()}
  assert found == {
    ("all-gather", 64, (0, 2), 1),
    ("reduce-scatter", 4 * (8 + 16), (0, 1, 2, 3), 1),
    ("all-gather", 32, (0, 1), 1),
    ("collective-permute", 64, (0, 1), 1),
    ("all-reduce", 32, (0, 1), 12),
  }


def test_an_all_reduce_of_which_a_chip_keeps_a_slice_is_a_reduce_scatter():
  text = """\
%all-reduce-scatter.7 (x: f32[8]) -> f32[4] {
  %x = f32[8]{0} parameter(0)
  %ar = f32[8]{0} all-reduce(%x), replica_groups={{0,1}}, to_apply=%add
  ROOT %cut = f32[4]{0} dynamic-slice(%ar, %start), dynamic_slice_sizes={4}
}

ENTRY %main (x: f32[8]) -> f32[4] {
  %x = f32[8]{0} parameter(0)
  ROOT %f = f32[4]{0} fusion(%x), kind=kCustom, calls=%all-reduce-scatter.7
}
"""
  assert hlo.Module(text).collectives() == (Collective("reduce-scatter", 32, (0, 1)),)


def _sent(kind, target):
  return f"""ENTRY %main (x: f32[8]) -> f32[8] {{
  %send = (f32[1,8,128]{{2,1,0:T(1,128)}}, u32[], token[]) send(%x, %t), channel_id=3, is_host_transfer=true, \
frontend_attributes={{_xla_host_transfer_handler_name="xla_megascale_runtime",_xla_megascale_target="{target}",\
_xla_megascale_transfer_type="{kind}"}}
}}
"""


@pytest.mark.parametrize(
  "kind, target, expected",
  [
    ("ALL_REDUCE", "{1,2}x{0:3}", Collective("all-reduce", 4096, (0, 4))),
    ("ALL_GATHER", "{1:4}x{0:63}", Collective("all-gather", 4 * 4096, (0, 64, 128, 192))),
  ],
)
def test_what_goes_between_slices_is_read(kind, target, expected):
  assert hlo.Module(_sent(kind, target)).collectives() == (expected,)


def test_an_unknown_exchange_between_slices_is_an_error():
  with pytest.raises(ValueError, match="between slices"):
    hlo.Module(_sent("GOSSIP", "{1,2}x{0:3}")).collectives()


def test_cycles_of_a_loop_count_as_often_as_it_runs():
  module = hlo.Module(_TEXT)
  assert module.cycles() == module.cycles(unknown_trips=0) == 12 * 10 + 7 and module.has_loops


def test_a_loop_that_may_end_early_runs_as_often_as_asked():
  module = hlo.Module(_TEXT.replace("direction=LT", "direction=NE"))
  assert [module.cycles(unknown_trips=trips) for trips in (0, 1, 5)] == [7, 17, 57]


def test_sums_by_kind():
  collectives = [Collective("all-reduce", 10, (0, 1), 3), Collective("all-reduce", 1, (0, 1))]
  assert hlo.totals_by_kind(collectives) == {"all-reduce": (4, 31)}


@pytest.mark.parametrize(
  "text, expected",
  [
    ("{{0,2},{1,3}}", (0, 2)),
    ("[2,2]<=[4]", (0, 1)),
    ("[4,2]<=[2,2,2]T(2,1,0)", (0, 4)),
    ("mesh['a'=2,'b'=3] {'a'}", (0, 3)),
    ("mesh['a'=2,'b'=2] {'a','b'}", (0, 1, 2, 3)),
    ("mesh['a'=1,'b'=2] {'a'}", (0,)),
    ("mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'b'}", (0, 2)),
    ("mesh['a'=4,'b'=2] {'a':(2)2}", (0, 2)),
    ("mesh['a'=4,'b'=2] {'a':(1)2}", (0, 4)),
  ],
)
def test_the_first_group(text, expected):
  assert hlo.first_group(text) == expected


def test_unknown_groups_are_an_error():
  with pytest.raises(ValueError, match="unknown way"):
    hlo.first_group("somehow")
