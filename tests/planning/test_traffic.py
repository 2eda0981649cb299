"""What a program moves to and from HBM, in programs written by hand, and in one that XLA made."""

import jax
import jax.numpy as jnp
import pytest

from xmcap.planning import hlo, traffic

_FUSED = """\
%sliced (a: f32[12,8], i: s32[]) -> f32[1,8] {
  %a = f32[12,8]{1,0} parameter(0)
  %i = s32[] parameter(1)
  ROOT %cut = f32[1,8]{1,0} dynamic-slice(%a, %i), dynamic_slice_sizes={1,8}
}

%nested (a: f32[12,8], i: s32[]) -> f32[1,8] {
  %a = f32[12,8]{1,0} parameter(0)
  %i = s32[] parameter(1)
  ROOT %inner = f32[1,8]{1,0} fusion(%a, %i), kind=kLoop, calls=%sliced
}

%updated (a: f32[12,8], b: f32[1,8], i: s32[]) -> f32[12,8] {
  %a = f32[12,8]{1,0} parameter(0)
  %b = f32[1,8]{1,0} parameter(1)
  %i = s32[] parameter(2)
  %new = f32[12,8]{1,0} dynamic-update-slice(%a, %b, %i)
  ROOT %same = f32[12,8]{1,0} bitcast(%new)
}

%whole (a: f32[12,8], i: s32[]) -> (f32[12,8], f32[12,8]) {
  %a = f32[12,8]{1,0} parameter(0)
  %i = s32[] parameter(1)
  %cut = f32[1,8]{1,0} dynamic-slice(%a, %i), dynamic_slice_sizes={1,8}
  %all = f32[12,8]{1,0} negate(%a)
  ROOT %both = (f32[12,8]{1,0}, f32[12,8]{1,0}) tuple(%all, %all)
}
"""
_WHOLE, _ROW = 4 * 12 * 8, 4 * 8


def _bytes(*lines, more=""):
  body = "\n".join(f"  {line}" for line in lines)
  text = f"""{_FUSED}{more}
ENTRY %main (a: f32[12,8], b: f32[1,8]) -> f32[12,8] {{
  %a = f32[12,8]{{1,0}} parameter(0)
  %b = f32[1,8]{{1,0}} parameter(1)
  %i = s32[]{{:S(2)}} parameter(2)
  %near = f32[12,8]{{1,0:S(3)}} parameter(3)
{body}
}}
"""
  return traffic.hbm_bytes(hlo.Module(text))


@pytest.mark.parametrize(
  "line, moved",
  [
    ("%c = f32[12,8]{1,0} negate(%a)", 2 * _WHOLE),
    ("%c = f32[12,8]{1,0} add(%a, %near)", 2 * _WHOLE),
    ("%c = f32[12,8]{1,0:S(3)} negate(%near)", 0),
    ("%c = (f32[12,8]{1,0}, f32[1,8]{1,0}) tuple(%a, %b)", 0),
    ("%c = f32[1,8]{1,0} dynamic-slice(%a, %i), dynamic_slice_sizes={1,8}", 2 * _ROW),
    ("%c = f32[1,8]{1,0} slice(%near), slice={[0:1], [0:8]}", _ROW),
    ("%c = f32[12,8]{1,0} dynamic-update-slice(%a, %b, %i)", 2 * _ROW),
    ("%c = (f32[12,8]{1,0:S(3)}, f32[12,8]{1,0}, u32[]{:S(2)}) copy-start(%a)", _WHOLE),
    ("%c = f32[12,8]{1,0:S(3)} copy-done(%a)", 0),
    ("%c = ((f32[12,8]{1,0}), f32[1,8]{1,0:S(3)}, s32[]{:S(2)}) slice-start(%a), slice={[0:1]}", _ROW),
    ("%c = (f32[1,8]{1,0}, f32[12,8]{1,0}) all-gather-start(%b), replica_groups={{0,1}}", _ROW + _WHOLE),
    ("%c = f32[12,8]{1,0} all-gather(%b), replica_groups={{0,1}}, dimensions={0}", _ROW + _WHOLE),
    ("%c = f32[1,8]{1,0} fusion(%a, %i), kind=kLoop, calls=%sliced", 2 * _ROW),
    ("%c = f32[1,8]{1,0} fusion(%a, %i), kind=kLoop, calls=%nested", 2 * _ROW),
    ("%c = f32[12,8]{1,0} fusion(%a, %b, %i), kind=kLoop, calls=%updated", 2 * _ROW),
    ("%c = (f32[12,8]{1,0}, f32[12,8]{1,0}) fusion(%a, %i), kind=kLoop, calls=%whole", 3 * _WHOLE),
    ('%c = f32[12,8]{1,0} custom-call(%a, %b), custom_call_target="ConcatBitcast"', 0),
  ],
)
def test_an_instruction_moves(line, moved):
  assert _bytes(line) == moved


def test_a_loop_moves_as_often_as_it_runs():
  loop = """
%condition (p: (s32[], f32[1,8])) -> pred[] {
  %p = (s32[], f32[1,8]{1,0}) parameter(0)
  %limit = s32[] constant(12)
  %j = s32[] get-tuple-element(%p), index=0
  ROOT %less = pred[] compare(%j, %limit), direction=LT
}

%body (p: (s32[], f32[1,8])) -> (s32[], f32[1,8]) {
  %p = (s32[], f32[1,8]{1,0}) parameter(0)
  %j = s32[]{:S(2)} get-tuple-element(%p), index=0
  %row = f32[1,8]{1,0} get-tuple-element(%p), index=1
  %new = f32[1,8]{1,0} negate(%row)
  ROOT %t = (s32[], f32[1,8]{1,0}) tuple(%j, %new)
}
"""
  line = "%w = (s32[], f32[1,8]{1,0}) while(%start), condition=%condition, body=%body"
  # The condition's own numbers are in HBM as this is written: a comparison of two, and its result.
  assert _bytes(line, more=loop) == 12 * (2 * _ROW + 4 + 4 + 1)


def test_a_compiled_product_moves_its_operands_and_its_result():
  a, b = jnp.ones((64, 32)), jnp.ones((32, 16))
  text = jax.jit(jnp.dot).lower(a, b).compile().as_text()
  assert traffic.hbm_bytes(hlo.Module(text)) == 4 * (64 * 32 + 32 * 16 + 64 * 16)
