"""The planner's GPU collectives, read from a hand-written program in the notation of jaxlib 0.10.2 for CUDA."""

import pytest

from xmcap.planning import estimate, gpus, hlo

_H100 = gpus.parse("h100-8")
# 8 GPUs: [65536, 768] x [768, 3072] while an all-gather runs, a small fusion beside the next, nothing beside the sum.
_TEXT = """\
%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %inside = bf16[4,8]{1,0} dot(%left, %right), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

%condition (p: (s32[], f32[8])) -> pred[] {
  %limit = s32[] constant(3)
  ROOT %less = pred[] compare(%i, %limit), direction=LT
}

ENTRY %main (x: bf16[96,768]) -> bf16[768,768] {
  %x = bf16[65536,768]{1,0} parameter(0)
  %left = bf16[4,16]{1,0} parameter(1)
  %ag = ((bf16[96,768]{1,0}, /*index=1*/f32[96]{0}), (bf16[768,768]{1,0}, f32[768]{0})) all-gather-start(%a, %b), \
replica_groups=mesh['axis_0'=1,'axis_1'=8] {'axis_1'}, dimensions={0}
  %second = (bf16[8,768]{1,0}, bf16[64,768]{1,0}) all-gather-start(%c), replica_groups=[1,8]<=[8], dimensions={0}
  %bits = bf16[768,96]{1,0} bitcast(%x)
  %product = (bf16[65536,3072]{1,0}, s8[33554432]{0}) custom-call(%x, %w), custom_call_target="__cublas$lt$matmul", \
backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],\
"rhs_contracting_dimensions":["0"]}}}
  %agd = (bf16[768,768]{1,0}, f32[768]{0}) all-gather-done(%ag)
  %w3 = (s32[], f32[8]) while(%t), condition=%condition, body=%body
  %secondd = bf16[64,768]{1,0} all-gather-done(%second)
  %sum = (f32[1024]{0}, f32[]) all-reduce-start(%d, %e), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%add
  %sumd = (f32[1024]{0}, f32[]) all-reduce-done(%sum)
  %copy = bf16[768,96]{1,0} copy(%bits)
}
"""
_PRODUCT = 2 * 65536 * 768 * 3072
_IN_LOOP = 3 * 2 * 4 * 8 * 16


def test_gpu_collectives_with_overlapped_computation():
  gather, second, total = hlo.Module(_TEXT).collectives()
  # Combined exchanges are read whole: the larger side of all arrays, not the largest array.
  assert gather.dtypes == {"bf16": 2 * 768 * 768, "f32": 4 * 768} and gather.bytes == sum(
    gather.dtypes.values()
  )
  # Two exchanges share the product, which hides the one that started first; the loop runs beside the other alone.
  assert (gather.kernels, gather.flops) == (1, _PRODUCT)
  assert (second.kernels, second.flops) == (2, _IN_LOOP)
  assert (total.kernels, total.flops, total.bytes) == (0, 0, 4 * 1025)


def test_gpu_exchanges_of_a_node():
  found = estimate.exchanges(hlo.Module(_TEXT).collectives(), _H100)
  assert list(found) == ["all-gather bf16", "all-gather f32", "all-reduce f32", "total"]
  bf16 = 2 * 768 * 768 + 2 * 64 * 768
  assert found["all-gather bf16"]["count"] == 2 and found["all-gather bf16"]["bytes"] == bf16
  assert found["all-gather bf16"]["overlapped_bytes"] == bf16
  # H100's data sheet: 900 GB/s of NVLink, both ways. A GPU sends 7/8 of what all gather, twice 3/4 of a sum of 4.
  assert found["all-gather bf16"]["seconds"] == pytest.approx(bf16 * 7 / 8 / 450e9)
  assert found["all-reduce f32"]["seconds"] == pytest.approx(2 * 4100 * 3 / 4 / 450e9)
  assert found["all-reduce f32"]["overlapped_bytes"] == found["all-reduce f32"]["hidden_seconds"] == 0
  first = (2 * 768 * 768 + 4 * 768) * 7 / 8 / 450e9
  assert found["total"]["hidden_seconds"] == pytest.approx(first + _IN_LOOP / 989.5e12)
  assert found["total"]["count"] == 3 and found["total"]["bytes"] == bf16 + 4 * 768 + 4100


def test_single_gpu_has_no_exchanges():
  assert estimate.exchanges([], gpus.parse("h100")) == {}
  assert estimate.arithmetic_seconds(989.5e12 * 8, _H100) == pytest.approx(1)
