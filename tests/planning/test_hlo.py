"""Parsing of compiled HLO: collectives, loops and replica groups, in programs written by hand."""

import pytest

from xmcap.errors import XmcapError
from xmcap.planning import hlo


def _exchanges(count: int, size: int) -> dict[str, int]:
  return {"count": count, "bytes": size}


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
UNKNOWN_TRIPS = _TEXT.replace("direction=LT", "direction=NE")
"""7 cycles, and a loop of 10, nobody knows how often."""


def test_hlo_collectives_are_read_with_sizes():
  assert hlo.Module(_TEXT).exchanges() == {
    "all-gather": _exchanges(2, 64 + 32),
    "reduce-scatter": _exchanges(1, 4 * (8 + 16)),
    "collective-permute": _exchanges(1, 64),
    "all-reduce": _exchanges(12, 12 * 32),
  }


def test_hlo_sliced_all_reduce_is_a_reduce_scatter():
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
  assert hlo.Module(text).exchanges() == {"reduce-scatter": _exchanges(1, 32)}


def test_hlo_host_transfers_are_between_slices():
  text = """ENTRY %main (x: f32[8]) -> f32[8] {
  %send = (f32[1,8,128]{2,1,0:T(1,128)}, u32[], token[]) send(%x, %t), channel_id=3, is_host_transfer=true, \
frontend_attributes={_xla_megascale_target="{1,2}x{0:3}",_xla_megascale_transfer_type="ALL_REDUCE"}
}
"""
  assert hlo.Module(text).exchanges() == {hlo.BETWEEN_SLICES: _exchanges(1, 4096)}


def test_hlo_loop_cycles_are_multiplied_by_trip_count():
  module = hlo.Module(_TEXT)
  assert module.cycles() == module.cycles(unknown_trips=0) == 12 * 10 + 7 and module.has_loops


def test_hlo_unknown_trip_count_is_an_argument():
  module = hlo.Module(UNKNOWN_TRIPS)
  assert [module.cycles(unknown_trips=trips) for trips in (0, 1, 5)] == [7, 17, 57]
  assert module.loop_cycles() == [10] and hlo.Module(_TEXT).loop_cycles() == []


@pytest.mark.parametrize(
  "groups, chips",
  [
    ("{{0,2,4},{1,3,5}}", 3),
    ("[4,2]<=[2,2,2]T(2,1,0)", 2),
    ("mesh['a'=2,'b'=3] {'b'}", 3),
    ("mesh['a'=2,'b'=2] {'a','b'}", 4),
    ("mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}", 4),
    ("mesh['a'=4,'b'=2] {'a':(2)2}", 2),
  ],
)
def test_hlo_reduce_scatter_size_by_group(groups, chips):
  line = f"  %rs = f32[2]{{0}} reduce-scatter(%x), channel_id=1, replica_groups={groups}, to_apply=%add"
  module = hlo.Module(f"ENTRY %main (x: f32[8]) -> f32[2] {{\n{line}\n}}\n")
  assert module.exchanges() == {"reduce-scatter": _exchanges(1, 8 * chips)}


@pytest.mark.parametrize(
  "groups, first",
  [
    ("{{0,2,4},{1,3,5}}", (0, 2, 4)),
    ("[4,2]<=[8]", (0, 1)),
    ("[2,4]<=[4,2]T(1,0)", (0, 2, 4, 6)),
    ("mesh['a'=4,'b'=2] {'a'}", (0, 2, 4, 6)),
    ("mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}", (0, 2, 4, 6)),
    ("mesh['a'=2,'b'=2], device_ids=(3,1,2,0) {'b'}", (3, 1)),
    # Of an axis of 4, the minor and the major half.
    ("mesh['a'=4,'b'=2] {'a':(2)2}", (0, 2)),
    ("mesh['a'=4,'b'=2] {'a':(1)2}", (0, 4)),
    ("{}", ()),
  ],
)
def test_hlo_replica_groups_are_parsed(groups, first):
  module = hlo.Module(
    f"ENTRY %m (x: f32[8]) -> f32[8] {{\n  %r = f32[8]{{0}} all-reduce(%x), replica_groups={groups}, to=%a\n}}\n"
  )
  assert [one.group for one in module.collectives()] == [first]


def test_hlo_unknown_replica_groups_are_refused():
  with pytest.raises(ValueError, match="unknown notation"):
    hlo.Module(
      "ENTRY %m (x: f32[8]) -> f32[2] {\n  %r = f32[2]{0} reduce-scatter(%x), groups=x\n}\n"
    ).exchanges()


_KERNEL = """\
ENTRY %main (x: bf16[8]) -> bf16[8] {
  %f = bf16[8]{0} fusion(%x), kind=kLoop, metadata={op_name="jit(f)/mlp"}, backend_config={"estimated_cycles":"7"}
  %k = bf16[8]{0} custom-call(%f), custom_call_target="tpu_custom_call", frontend_attributes={kernel_metadata={
"core_cycles":"CYCLES"
}}, metadata={op_name="jit(f)/attention"}, backend_config={"cost_estimate":{"flops":"9","bytes_accessed":"58000"}}
}
"""


@pytest.mark.parametrize(("core_cycles", "counted"), [(150, 100), (400, 200)])
def test_hlo_kernel_counts_with_its_cycles_or_its_bytes(core_cycles, counted):
  module = hlo.Module(_KERNEL.replace("CYCLES", str(core_cycles)), cores=2)
  assert module.cycles() == 7 + counted
  assert module.cycles_by_operation() == {"jit(f)/mlp": 7, "jit(f)/attention": counted}


@pytest.mark.parametrize("missing", ["core_cycles", "bytes_accessed"])
def test_hlo_kernel_without_cycles_is_refused(missing):
  module = hlo.Module(_KERNEL.replace("CYCLES", "150").replace(missing, "other"))
  with pytest.raises(XmcapError, match="no cycles are known of the kernel k"):
    module.cycles()
