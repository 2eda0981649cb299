"""XM3600: from the published layout to records."""

import zipfile

import pytest

from tests.corpora import release_folders as releases
from tests.corpora.building import builds
from xmcap.corpora.building.release import write_release
from xmcap.corpora.releases import xm3600
from xmcap.data import records
from xmcap.errors import UsageError, XmcapError


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> releases.Release:
  return releases.write_xm3600(tmp_path_factory.mktemp("xm3600"), images=10)


def test_xm3600_build_is_independent_of_processes(small, tmp_path):
  builds.xm3600(small, tmp_path / "one")
  builds.xm3600(small, tmp_path / "two", processes=2)
  assert builds.differing(tmp_path / "one", tmp_path / "two") == []


def test_xm3600_records_have_languages_locales_and_tokens(small, tmp_path):
  builds.xm3600(small, tmp_path / "out")
  record = records.RecordSource(tmp_path / "out", "test")[0]
  assert len({caption.language for caption in record.captions}) == 36
  assert record.locale == "ar" and record.captions[0].text_tokenized and record.captions[0].source == "human"


def test_xm3600_on_bad_stop(tmp_path):
  release = releases.write_xm3600(tmp_path / "release", images=8, faults=["truncated"])
  with pytest.raises(XmcapError, match=r"\(truncated\): fix it, or skip such problems"):
    builds.xm3600(release, tmp_path / "out", on_bad="stop")


def test_xm3600_build_reads_the_emoji36_release(tmp_path):
  picture = releases.release_pictures.encode(releases.release_pictures.draw(1), "PNG")
  captions = [records.Caption("en", "a dog"), records.Caption("th", "หมา"), records.Caption("th", "สุนัข")]
  write_release(tmp_path / "test", [records.Record("00a1", picture, captions)])
  corpus = xm3600.Xm3600(captions=tmp_path / "test/captions.jsonl", images=tmp_path / "test/images")
  builds.run(corpus, tmp_path / "out")
  (record,) = records.RecordSource(tmp_path / "out", "test")
  assert [(c.language, c.text, c.text_tokenized) for c in record.captions] == [
    ("en", "a dog", ""),
    ("th", "หมา", ""),
    ("th", "สุนัข", ""),
  ]


@pytest.mark.parametrize(
  ("write", "error", "message"),
  [
    (lambda path: None, UsageError, "captions.zip"),
    (lambda path: path.write_text("<html></html>\n"), UsageError, "markup, such as"),
    (
      lambda path: path.write_bytes(b"PK\x03\x04 cut"),
      UsageError,
      "cannot be read .*; fetch or make it again",
    ),
    (lambda path: zipfile.ZipFile(path, "w").writestr("a.xml", "a"), UsageError, "with 0 .jsonl, .json"),
  ],
)
def test_malformed_xm3600_captions_are_refused(small, tmp_path, write, error, message):
  captions = tmp_path / "captions.zip"
  made = write(captions)
  del made
  with pytest.raises(error, match=message):
    builds.run(xm3600.Xm3600(captions=captions, images=small.paths["images"]), tmp_path / "out")
