"""XM3600 from the mirror on the Hugging Face Hub: a Parquet file a language, with all pictures in each."""

import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.corpora import release_folders as releases
from tests.corpora.building import builds
from tests.make import files
from xmcap import languages
from xmcap.corpora.building import build, options
from xmcap.corpora.folder import own
from xmcap.corpora.releases import xm3600
from xmcap.data import records
from xmcap.errors import UsageError


def _write(folder: pathlib.Path, release: releases.Release, codes, parts: int = 1, other=()) -> pathlib.Path:
  """Writes the columns of floschne/xm3600; the pictures of (code, line) in `other` have another byte at the end."""
  lines = files.rows(release.paths["captions"])
  (folder / "data").mkdir(parents=True)
  (folder / "README.md").write_text("# XM3600")
  (folder / ".gitattributes").write_text("")
  (folder / ".cache/huggingface").mkdir(parents=True)
  for code in codes:
    rows = [
      {
        "image_id": line["image/key"],
        "image_locale": line["image/locale"],
        "captions": line[code]["caption"],
        "captions_tokenized": line[code]["caption/tokenized"],
        "captions_tokenized_lowercase": line[code]["caption/tokenized"],
        "image": {
          "bytes": (release.paths["images"] / f"{line['image/key']}.jpg").read_bytes()
          + b"x" * ((code, number) in other),
          "path": None,
        },
      }
      for number, line in enumerate(lines)
    ]
    for part in range(parts):
      file = folder / "data" / f"{code}-{part:05d}-of-{parts:05d}.parquet"
      pq.write_table(pa.Table.from_pylist(rows[part::parts]), file)
  return folder


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> releases.Release:
  folder = tmp_path_factory.mktemp("xm3600")
  return releases.write_xm3600(folder, images=9, layout="folder", captions="jsonl")


def _records(folder):
  return {
    record.key: (
      record.image,
      record.locale,
      {(c.language, c.text, c.text_tokenized) for c in record.captions},
    )
    for record in records.RecordSource(folder, "test")
  }


def test_xm3600_hub_mirror_equals_the_release(release, tmp_path):
  mirror = _write(tmp_path / "mirror", release, languages.LANGUAGES, parts=2)
  report = builds.run(xm3600.Xm3600(captions=mirror, images=mirror), tmp_path / "out")
  builds.xm3600(release, tmp_path / "expected")
  assert _records(tmp_path / "out") == _records(tmp_path / "expected") and report.problems.counts == {}
  assert report.splits["test"]["lines"] == report.splits["test"]["found"] == 9


def test_parquet_files_per_language_are_joined_by_key(release, tmp_path):
  mirror = _write(tmp_path / "mirror", release, ("en", "th"))
  report = build.build(own.Folder(captions=mirror), tmp_path / "out", options.Options(), processes=1)
  assert sum(counts["records"] for counts in report.splits.values()) == 9 and report.problems.counts == {}
  for split in report.splits:
    for record in records.RecordSource(tmp_path / "out", split):
      captions = [c.text for c in release.expected["test"][record.key].captions if c.language in ("en", "th")]
      assert sorted(caption.text for caption in record.captions) == sorted(captions)
      assert {caption.language for caption in record.captions} == {"en", "th"}


@pytest.mark.parametrize(
  "corpus", [lambda path: xm3600.Xm3600(captions=path, images=path), lambda path: own.Folder(captions=path)]
)
def test_xm3600_mirror_refuses_differing_images_and_missing_parts(release, tmp_path, corpus):
  mirror = _write(tmp_path / "mirror", release, ("en", "th"), parts=2, other=[("th", 4)])
  message = r"th-00000-of-00002.parquet, row 2: the picture [0-9a-f]{16} has other bytes than in .*en-00000"
  with pytest.raises(UsageError, match=message):
    builds.run(corpus(mirror), tmp_path / "out")
  (mirror / "data/th-00000-of-00002.parquet").unlink()
  with pytest.raises(UsageError, match="1 of the 2 files of th are here"):
    builds.run(corpus(mirror), tmp_path / "other")


def test_language_in_a_file_name_is_not_a_split(release, tmp_path):
  mirror = _write(tmp_path / "mirror", release, ("th",))
  columns = own.ColumnNames(default_language="th")
  report = build.build(
    own.Folder(captions=mirror, columns=columns), tmp_path / "out", options.Options(), processes=1
  )
  assert report.splits.keys() <= {"train", "validation", "test"}
