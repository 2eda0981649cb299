"""Faults of releases, all at once and each alone: skipped, counted and listed; or an error with --on_bad=stop."""

import functools
import json

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
BUILDS = {"coco35l": builds.coco, "cc3m35l": builds.cc3m, "xm3600": builds.xm3600}
COMMON = (*releases.PICTURE_FAULTS, *releases.ARCHIVE_FAULTS)
CASES = [
  *(("coco35l", fault) for fault in (*COMMON, *releases.LINE_FAULTS)),
  *(("cc3m35l", fault) for fault in releases.DEAD_URLS),
  *(("xm3600", fault) for fault in releases.XM3600_FAULTS),
  *(pytest.param("xm3600", fault, marks=pytest.mark.full) for fault in COMMON),
]


@pytest.mark.parametrize(
  ("corpus", "options"),
  [
    ("coco35l", {"layout": "folder", "order": "image"}),
    ("coco35l", {"layout": "zip", "order": "language"}),
    ("coco35l", {"layout": "zip", "order": "shuffled", "compress": False}),
    ("cc3m35l", {"layout": "webdataset", "order": "image"}),
    ("cc3m35l", {"layout": "files", "order": "language"}),
    ("cc3m35l", {"layout": "keymap", "order": "shuffled", "compress": False}),
    ("xm3600", {"layout": "tgz", "captions": "zip"}),
    ("xm3600", {"layout": "folder", "captions": "jsonl"}),
  ],
)
def test_release_with_every_fault_gives_the_other_records(corpus, options, tmp_path):
  faults = [
    *releases.PICTURE_FAULTS,
    *(releases.XM3600_FAULTS if corpus == "xm3600" else releases.LINE_FAULTS),
  ]
  faults += releases.ARCHIVE_FAULTS if options["layout"] in ("zip", "webdataset", "tgz") else ()
  faults += releases.DEAD_URLS if corpus == "cc3m35l" else ()
  size = {"images": 40} if corpus == "xm3600" else {"images": 28, "languages": releases.TRANSLATED[:12]}
  release = WRITERS[corpus](tmp_path / "release", faults=faults, **size, **options)
  report = BUILDS[corpus](release, tmp_path / "out")
  assert release.differences(tmp_path / "out") == []
  assert report.problems.counts == release.problems
  text = (tmp_path / "out/problems.jsonl").read_text(encoding="utf-8")
  listed = [json.loads(line)["kind"] for line in text.splitlines()]
  assert {kind: listed.count(kind) for kind in listed} == release.problems
  assert str(tmp_path) not in text


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
