"""Each fault that a release can have, alone: skipped, counted and said in the summary; an error with --on_bad=stop."""

import functools

import pytest

from tests.corpora import release_folders as releases
from tests.corpora.building import builds
from xmcap.corpora.building.problems import KINDS
from xmcap.errors import XmcapError

LANGUAGES = ("de", "th", "zh")
WRITERS = {
  "coco35l": functools.partial(releases.write_coco35l, images=8, languages=LANGUAGES, layout="zip"),
  "cc3m35l": functools.partial(releases.write_cc3m35l, images=8, languages=LANGUAGES),
  "xm3600": functools.partial(releases.write_xm3600, images=8),
}
COMMON = (*releases.PICTURE_FAULTS, *releases.ARCHIVE_FAULTS)
CASES = [
  *(("coco35l", fault) for fault in (*COMMON, *releases.LINE_FAULTS)),
  *(("cc3m35l", fault) for fault in releases.DEAD_URLS),
  *(("xm3600", fault) for fault in (*COMMON, *releases.XM3600_FAULTS)),
]


BUILDS = {"coco35l": builds.coco, "cc3m35l": builds.cc3m, "xm3600": builds.xm3600}


@pytest.mark.parametrize("corpus, fault", CASES)
def test_release_fault_is_counted_or_stops_the_build(corpus, fault, tmp_path):
  release = WRITERS[corpus](tmp_path / "release", faults=(fault,))
  report = BUILDS[corpus](release, tmp_path / "skipped")
  assert release.differences(tmp_path / "skipped") == []
  assert report.problems.counts == release.problems
  assert all(KINDS[kind].text in report.summary() for kind in release.problems)

  if all(KINDS[kind].rule == "use" for kind in release.problems):
    BUILDS[corpus](release, tmp_path / "stopped", on_bad="stop")
    assert release.differences(tmp_path / "stopped") == []
    return
  with pytest.raises(XmcapError, match="--on_bad=skip") as stopped:
    BUILDS[corpus](release, tmp_path / "stopped", on_bad="stop")
  assert any(f"({kind})" in str(stopped.value) for kind in release.problems)
  assert "\n" not in str(stopped.value)
