"""Builds of COCO-35L: processes, options, resuming, and refused inputs."""

import json
import pathlib
import shutil
import zipfile

import pytest

from tests.corpora import release_folders as releases
from tests.corpora.building.builds import coco, differing
from xmcap.corpora.building import spill
from xmcap.corpora.releases import coco35l
from xmcap.data.records import RecordSource
from xmcap.errors import UsageError, XmcapError


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> releases.Release:
  folder = tmp_path_factory.mktemp("coco")
  return releases.write_coco35l(folder, images=12, dev=3, languages=("de", "th"), layout="zip")


def test_build_without_any_image_names_an_expected_image(tmp_path):
  release = releases.write_coco35l(tmp_path / "release", images=4, layout="folder", languages=("de",))
  for picture in (tmp_path / "release").rglob("*.jpg"):
    picture.rename(picture.with_name(f"other-{picture.name}"))
  with pytest.raises(XmcapError, match=r"no records: 4 pictures .*: 4 missing \(first: \d{12}") as error:
    coco(release, tmp_path / "out")
  assert "\n" not in str(error.value)


def test_build_with_two_processes_equals_a_single_process(tmp_path, small):
  coco(small, tmp_path / "one")
  coco(small, tmp_path / "two", processes=2)
  assert differing(tmp_path / "one", tmp_path / "two") == []


def test_build_is_independent_of_the_release_folder(tmp_path):
  release = releases.write_coco35l(
    tmp_path / "here", images=12, layout="zip", faults=releases.ARCHIVE_FAULTS, languages=("de", "th")
  )
  coco(release, tmp_path / "one")
  shutil.move(tmp_path / "here", tmp_path / "there")
  release.paths = {role: tmp_path / "there" / path.name for role, path in release.paths.items()}
  coco(release, tmp_path / "two")
  assert differing(tmp_path / "one", tmp_path / "two") == []


def test_build_report_counts_problems(tmp_path):
  faults = ["missing", "html", "truncated", "no_captions"]
  release = releases.write_coco35l(tmp_path / "release", images=12, faults=faults, languages=("de", "th"))
  report = coco(release, tmp_path / "out")
  assert report.splits["train"] == {
    "lines": 110, "records": 8, "captions": 120, "listed": 12, "found": 9, "missing": 1, "broken": 2
  }  # fmt: skip
  summary = report.summary()
  assert (
    "train: 8 records with 120 captions, from 110 lines; of 12 pictures 9 found, 1 missing, 2 broken"
    in summary
  )
  assert "not_a_picture: files that are not pictures" in summary


def test_complete_corpus_is_not_rebuilt(tmp_path, small):
  first = coco(small, tmp_path / "out")
  times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
  again = coco(small, tmp_path / "out")
  assert again.held and again.splits == first.splits and again.problems.counts == first.problems.counts
  assert "already has this corpus" in again.summary()
  assert times == {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
  with pytest.raises(UsageError, match="out contains coco_35l with image_size=default, not 32: remove it"):
    coco(small, tmp_path / "out", image_size=32)


def test_image_size_scales_images(tmp_path, small):
  coco(small, tmp_path / "out", image_size=16, quality=50)
  from xmcap.data import images

  for record in RecordSource(tmp_path / "out", "train"):
    assert min(images.decode(record.image, record.key).shape[:2]) == 16


@pytest.mark.parametrize(
  ("fault", "words"),
  [
    ("bad_utf8", r"coco_mt_train.jsonl.bz2, line \d+: .*bad_utf8.: fix it"),
    ("duplicate_line", r"coco_mt_train.jsonl.bz2, line \d+: \d{12}, caption \d, .*duplicate_line.: fix it"),
    ("missing", r"\d{12}: (train|val)2014/COCO.*jpg .missing.: fix it"),
    ("html", r"\d{12}: a web page, not a picture .not_a_picture.: fix it"),
  ],
)
def test_on_bad_stop_names_the_first_problem(tmp_path, fault, words):
  release = releases.write_coco35l(
    tmp_path / "release", images=8, faults=[fault], languages=("de", "th", "fr")
  )
  with pytest.raises(XmcapError, match=words):
    coco(release, tmp_path / "out", on_bad="stop")
  assert not (tmp_path / "out" / "coco_35l.json").exists()


def test_on_bad_stop_reads_no_further(tmp_path, monkeypatch):
  release = releases.write_coco35l(
    tmp_path / "release", images=12, faults=["bom", "not_json"], compress=False, languages=("de", "th", "fr")
  )
  release.paths["train_captions"].write_bytes(b"{}\n" + release.paths["train_captions"].read_bytes())
  with pytest.raises(XmcapError, match="coco_mt_train.jsonl, line 1: .*missing_field"):
    coco(release, tmp_path / "out", on_bad="stop", chunk_bytes=1_000)
  assert len(list((tmp_path / "out" / ".build").glob("*.captions"))) == 1


def test_build_stopped_by_on_bad_resumes_with_skip(tmp_path):
  release = releases.write_coco35l(tmp_path / "release", images=12, faults=["html"], languages=("de", "th"))
  coco(release, tmp_path / "one")
  with pytest.raises(XmcapError, match="or skip such problems with --on_bad=skip"):
    coco(release, tmp_path / "two", on_bad="stop")
  coco(release, tmp_path / "two")
  assert differing(tmp_path / "one", tmp_path / "two") == []


def test_build_with_on_bad_skip_does_not_resume_with_stop(tmp_path, plain, monkeypatch):
  interrupted(plain, tmp_path / "out", monkeypatch)
  with pytest.raises(UsageError, match="has an unfinished coco_35l with on_bad=skip, not stop: remove it"):
    coco(plain, tmp_path / "out", chunk_bytes=1_000, on_bad="stop")


def test_on_bad_stop_ignores_problems_of_used_records(tmp_path):
  faults = ["crlf", "bom", "control_characters", "gif", "cmyk", "exif"]
  release = releases.write_coco35l(
    tmp_path / "release", images=12, faults=faults, languages=("de", "th", "fr")
  )
  report = coco(release, tmp_path / "out", on_bad="stop")
  assert release.differences(tmp_path / "out") == [] and report.problems.counts == release.problems


def test_problem_line_numbers_across_chunks(tmp_path):
  release = releases.write_coco35l(
    tmp_path / "release",
    images=12,
    faults=["cut_end"],
    compress=False,
    order="language",
    languages=("de", "th"),
  )
  report = coco(release, tmp_path / "out", chunk_bytes=1_000)
  assert report.problems.examples["cut_line"][0][0] == "coco_mt_train.jsonl, line 120"


def interrupted(small, out, monkeypatch, **options) -> None:
  """A build that ends with its fifth chunk of captions."""
  write = spill._write

  def failing(call):
    if call[0].name.endswith("-000005.captions"):
      raise XmcapError("no more")
    return write(call)

  with monkeypatch.context() as patch, pytest.raises(XmcapError, match="no more"):
    patch.setattr(spill, "_write", failing)
    coco(small, out, chunk_bytes=1_000, **options)


@pytest.fixture
def plain(tmp_path) -> releases.Release:
  return releases.write_coco35l(tmp_path / "release", images=6, dev=1, languages=("de", "th"), compress=False)


def test_interrupted_build_resumes_with_complete_parts(tmp_path, plain, monkeypatch):
  interrupted(plain, tmp_path / "out", monkeypatch)
  work_dir = tmp_path / "out" / ".build"
  whole = {path: path.stat().st_mtime_ns for path in work_dir.glob("*.captions")}
  assert len(whole) == 5
  left = {}
  rmtree = shutil.rmtree

  def note(folder, **arguments):
    left.update({path: path.stat().st_mtime_ns for path in pathlib.Path(folder).glob("*.captions")})
    rmtree(folder, **arguments)

  monkeypatch.setattr(shutil, "rmtree", note)
  coco(plain, tmp_path / "out", chunk_bytes=1_000)
  assert whole.items() <= left.items()
  assert plain.differences(tmp_path / "out") == []
  assert not work_dir.exists()


def test_incomplete_files_of_a_dead_worker_are_removed(tmp_path, plain):
  left = tmp_path / "out" / ".coco_35l-train.array_record-00000-of-00001.7.incomplete"
  coco(plain, tmp_path / "out", progress=lambda line: left.touch() if "records" in line else None)
  assert plain.differences(tmp_path / "out") == []
  assert not list((tmp_path / "out").glob(".*"))


def test_interrupted_build_refuses_other_options(tmp_path, plain, monkeypatch):
  interrupted(plain, tmp_path / "out", monkeypatch)
  with pytest.raises(UsageError, match="has an unfinished coco_35l with quality=90, not 80: remove it"):
    coco(plain, tmp_path / "out", chunk_bytes=1_000, quality=80)
  (plain.paths["train_images"] / "more.jpg").touch()
  with pytest.raises(UsageError, match="has an unfinished coco_35l with train_images="):
    coco(plain, tmp_path / "out", chunk_bytes=1_000)
  with plain.paths["train_captions"].open("ab") as file:
    file.write(b"\n")
  with pytest.raises(UsageError, match="has an unfinished coco_35l with train_captions="):
    coco(plain, tmp_path / "out", chunk_bytes=1_000)


def test_build_of_an_older_version_restarts(tmp_path, plain, monkeypatch):
  interrupted(plain, tmp_path / "out", monkeypatch)
  work_dir = tmp_path / "out" / ".build"
  for path in work_dir.glob("*.captions"):
    path.write_bytes(b"of another form")
  plan = json.loads((work_dir / "plan.json").read_text())
  del plan["layout"]
  (work_dir / "plan.json").write_text(json.dumps(plan))
  coco(plain, tmp_path / "out", chunk_bytes=1_000)
  assert plain.differences(tmp_path / "out") == []


def test_build_refuses_a_folder_with_other_files(tmp_path, small):
  (tmp_path / "thesis.tex").write_text("")
  with pytest.raises(
    UsageError, match="contains thesis.tex, which does not belong to coco_35l: choose a new"
  ):
    coco(small, tmp_path)


def test_build_refuses_a_missing_input(tmp_path, small):
  paths = {**small.paths, "karpathy": tmp_path / "none.json"}
  with pytest.raises(UsageError, match="none.json .karpathy.: No such file"):
    coco(releases.Release(small.folder, paths, {}, {}), tmp_path / "out")
  assert not (tmp_path / "out").exists()


def test_karpathy_json_in_caption_datasets_zip_is_read(tmp_path, small):
  with zipfile.ZipFile(tmp_path / "caption_datasets.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.write(small.paths["karpathy"], "dataset_coco.json")
    archive.writestr("dataset_flickr8k.json", "{}")
  path = tmp_path / "caption_datasets.zip"
  assert coco35l.read_karpathy(path) == coco35l.read_karpathy(small.paths["karpathy"])
  path.write_bytes(path.read_bytes().replace(b"dataset_coco", b"dataset_cook"))
  with pytest.raises(UsageError, match="caption_datasets.zip is not Karpathy's dataset_coco.json"):
    coco35l.read_karpathy(path)


@pytest.mark.parametrize("text", ["", "[]", '{"images": [{"cocoid": "x"}]}', '{"images": []}', "\xff"])
def test_malformed_karpathy_json_is_refused(tmp_path, small, text):
  path = tmp_path / "dataset_coco.json"
  path.write_text(text, encoding="latin-1")
  with pytest.raises(UsageError, match="dataset_coco.json"):
    coco(releases.Release(small.folder, {**small.paths, "karpathy": path}, {}, {}), tmp_path / "out")


@pytest.mark.parametrize("zipped", [False, True])
def test_karpathy_json_over_the_size_limit_is_refused(tmp_path, small, monkeypatch, zipped):
  path, text = tmp_path / "file", small.paths["karpathy"].read_text()
  if zipped:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
      archive.writestr("dataset_coco.json", text + " " * (1 << 20))
  else:
    path.write_text(text + " " * (1 << 20))
  monkeypatch.setattr(coco35l, "_MAX_KARPATHY", 1 << 20)
  with pytest.raises(UsageError, match=r"file is not Karpathy's dataset_coco.json \(over 1 MB\)"):
    coco35l.read_karpathy(path)


def test_truncated_captions_download_is_refused(tmp_path, small):
  path = tmp_path / "coco_mt_train.jsonl.bz2"
  path.write_bytes(small.paths["train_captions"].read_bytes()[:-100])
  paths = {**small.paths, "train_captions": path}
  with pytest.raises(XmcapError, match="damaged, or cannot be read .*ended before"):
    coco(releases.Release(small.folder, paths, {}, {}), tmp_path / "out")
