"""The plan's report of whether hosts can read images as fast as a slice trains."""

import pytest

from xmcap.planning import report, topologies


@pytest.mark.parametrize("pictures, said", [
  (2_148, "13 of 240 of a host"),
  (70_000, "420 of 240 of a host: too few; raise captions_per_image"),
])  # fmt: skip
def test_plan_report_of_host_cores_to_read_images(pictures, said):
  assert report._cores(pictures, topologies.parse("v4-128")) == said
