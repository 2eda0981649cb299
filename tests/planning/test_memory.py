"""Which arrays live when most do, in a schedule written by hand."""

from xmcap.planning import hlo, memory

_TEXT = """\
HloModule jit_step, is_scheduled=true

ENTRY %main (p: f32[256]) -> (f32[256]) {
  %p = f32[256]{0} parameter(0), metadata={op_name="state"}
  %a = f32[1024]{0} fusion(%p), kind=kLoop, calls=%f, metadata={op_name="jit(step)/jvp(Model)/mul"}
  %near = f32[4096]{0:T(1024)S(3)} fusion(%a), kind=kLoop, calls=%f, metadata={op_name="jit(step)/jvp(Model)/add"}
  %b = f32[512]{0:S(3)} fusion(%near), kind=kLoop, calls=%f, metadata={op_name="jit(step)/jvp(Model)/exp"}
  %start = (f32[512]{0}, f32[512]{0:S(3)}, u32[]{:S(2)}) copy-start(%b)
  %far = f32[512]{0} copy-done(%start)
  %g = (f32[128]{0}, f32[64]{0}) fusion(%far, %a), calls=%f, metadata={op_name="jit(step)/transpose(jvp(Model))/mul"}
  %g0 = f32[128]{0} get-tuple-element(%g), index=0
  %s = f32[32]{0} fusion(%g0), kind=kLoop, calls=%f, metadata={op_name="jit(step)/sqrt"}
  %new = f32[256]{0} fusion(%p, %s), kind=kLoop, calls=%f, metadata={op_name="jit(step)/sub"}
  ROOT %t = (f32[256]{0}) tuple(%new)
}
"""


def test_what_lives_at_the_fullest_moment():
  # When the gradients are made: `a`, the copy of `b` in main memory, and both gradients.
  assert memory._live_at_peak(hlo.Module(_TEXT)) == {
    "activations": 4 * (1024 + 512),
    "gradients": 4 * (128 + 64),
    "scratch": 0,
  }


def test_all_kinds_together():
  assert memory.Memory(1, 2, 3, 4, 5, 6).total == 21
