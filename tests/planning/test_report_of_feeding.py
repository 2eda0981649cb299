"""The plan's report of whether hosts can read images as fast as a slice trains."""

import json

import gin
import pytest

from benchmarks.report import FOLDER
from xmcap.data import workers
from xmcap.planning import report, run, topologies


@pytest.mark.parametrize("pictures, said", [
  (2_148, "13 of 240 of a host"),
  (70_000, "420 of 240 of a host: too few; raise captions_per_image"),
])  # fmt: skip
def test_plan_report_of_host_cores_to_read_images(pictures, said):
  assert report._cores(pictures, topologies.parse("v4-128")) == said


@pytest.mark.parametrize("bound, said", [
  ({"mixture": "coco_35l", "neighbours": 16, "bucket_window": 16}, ["4,625", "6,950"]),
  ({"mixture": "coco_35l", "neighbours": 16}, ["2,312", "6,950"]),
  ({"mixture": "coco_35l", "bucket_window": 16}, ["37,000", "6,950"]),
  ({"mixture": "own"}, ["37,000"]),
])  # fmt: skip
def test_plan_report_of_what_a_bucket_must_give(bound, said):
  for name, value in bound.items():
    gin.bind_parameter(f"CaptionStream.{name}", value)
  rows = report._bucket(2_048, run.reading())
  assert [values(2_048 / 37_000) for _, values in rows] == said


def test_requests_of_a_chunk_are_those_of_the_benchmark():
  result = json.loads((FOLDER / "bucket_reads.json").read_text())
  requests = {tuple(map(int, row[:3])): float(row[3]) for row in result["rows"]}
  assert 16 * requests[16, 16, 16] == pytest.approx(workers.REQUESTS_OF_A_CHUNK, abs=0.05)
