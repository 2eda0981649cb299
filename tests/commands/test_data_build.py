"""The commands that build corpora: from a folder of published names, or with each file named; wrong use is one line."""

import pytest

from tests.corpora import release_folders as releases
from tests.make.command import xmcap
from xmcap.corpora.building import downloads


@pytest.fixture(scope="module")
def coco(tmp_path_factory):
  return releases.write_coco35l(
    tmp_path_factory.mktemp("coco"), images=4, dev=2, languages=("de", "th", "fr"), faults=["crlf"]
  )


def build(*words):
  return xmcap("data", "build", *words)


def test_data_build_coco35l_from_a_release_folder(tmp_path, coco):
  build("coco35l", f"--release={coco.folder}", f"--out={tmp_path}", "--processes=1").succeeded(
    "train: 4 records with 80 captions, from 60 lines; of 4 pictures 4 found, 0 missing, 0 broken",
    "crlf: lines that end in CR LF",
    "train: records: 4 of 4",
  )
  assert coco.differences(tmp_path) == []


def test_data_build_cc3m35l_with_named_parts(tmp_path):
  options = {"images": 4, "dev": 2, "layout": "keymap", "languages": ("de", "th")}
  release = releases.write_cc3m35l(tmp_path / "release", **options)
  parts = [f"--{role}={path}" for role, path in release.paths.items()]
  build("cc3m35l", *parts, f"--out={tmp_path / 'out'}", "--processes=1").succeeded()
  assert release.differences(tmp_path / "out") == []


@pytest.mark.parametrize(
  ("arguments", "words"),
  [
    (
      ["coco35l"],
      "give --train_captions, --dev_captions, --karpathy, --train_images, --val_images (or add --download)",
    ),
    (["coco35l", "--release={empty}"], "empty has no coco_mt_train.jsonl.bz2: give --train_captions"),
    (["cc3m35l"], "the TSVs of CC3M have no public URL: request them at https"),
    (["xm3600"], "give --captions, --images (or add --download)"),
    (["coco35l", "--download"], "--download needs --release=DIR"),
    (
      ["coco35l", "--release=gs://bucket/coco"],
      "--release=gs://bucket/coco: this command reads .* copy them here",
    ),
    (["xm3600", "--images=s3://bucket/images"], "--images=s3://bucket/images: this command reads"),
    (["coco35l", "--release={release}", "--on_bad=mend"], "--on_bad=mend: choose skip or stop"),
    (["coco35l", "--release={release}", "--image_size=4"], "--image_size=4: give a number from 8 to 8192"),
    (["coco35l", "--release={release}", "--quality=0"], "--quality=0: give a number from 1 to 95"),
    (["coco35l", "--release={release}", "--processes=0"], "--processes=0: give a number from 1"),
  ],
)
def test_data_build_usage_errors_are_one_line(tmp_path, coco, arguments, words):
  (tmp_path / "empty").mkdir()
  arguments = [word.format(empty=tmp_path / "empty", release=coco.folder) for word in arguments]
  refused = build(*arguments, f"--out={tmp_path / 'out'}").refused(*words.split(" .* "))
  assert refused.err.count("\n") == 1
  assert not (tmp_path / "out").exists()


def test_data_build_download_fetches_missing_parts(tmp_path, coco, monkeypatch):
  fetched = []
  monkeypatch.setattr(downloads, "fetch", lambda url, folder, say: fetched.append(url))
  arguments = [f"--{role}={path}" for role, path in coco.paths.items() if role != "dev_captions"]
  # What was fetched is nothing here.
  build("coco35l", "--download", f"--release={tmp_path}", *arguments, f"--out={tmp_path / 'out'}").refused()
  assert fetched == ["https://storage.googleapis.com/crossmodal-3600/coco_mt_dev.jsonl.bz2"]
