"""CC3M-35L from one's own translations: other languages, and no files of dev."""

import json
import shutil

import pytest

from tests.corpora import release_folders
from tests.make.command import xmcap
from xmcap.data import records

TEXTS = {"th": "แมวสองตัว", "de": "zwei Katzen", "yo": "ológbò méjì"}


@pytest.fixture
def release(tmp_path):
  """CC3M's TSV and pictures, with translations of one's own into three languages, and no dev."""
  folder = tmp_path / "release"
  paths = release_folders.write_cc3m35l(folder, images=4, dev=2, languages=("de",), compress=False).paths
  lines = [
    {"rec_num": number, "trg_lang": language, "caption_tokenized": "two cats", "translation_tokenized": text}
    for number in range(1, 5)
    for language, text in TEXTS.items()
  ]
  paths["train_captions"].write_text("".join(f"{json.dumps(line)}\n" for line in lines))
  for name in ("dev_captions", "dev_tsv", "dev_images"):
    shutil.move(paths[name], tmp_path / name)
  return folder


def test_own_translations_may_be_in_other_languages_without_dev(release, tmp_path):
  out = tmp_path / "out"
  for _ in range(2):  # built, and found there
    xmcap("data", "build", "cc3m35l", f"--release={release}", f"--out={out}", "--processes=1").succeeded(
      "train: 4 records with 16 captions",
      "the mixture cc3m_35l is without yo (4 captions)",
      "--gin_file=data/folder.gin",
      "no problems with the release",
    )
  assert records.splits(out) == ["train"]
  assert records.read_languages(out) == ("de", "en", "th", "yo")
  (first, *_) = records.RecordSource(out, "train")
  assert [(caption.language, caption.text, caption.source) for caption in first.captions] == [
    ("de", TEXTS["de"], "mt"), ("en", "two cats", "human"), ("th", TEXTS["th"], "mt"), ("yo", TEXTS["yo"], "mt"),
  ]  # fmt: skip
  assert json.loads((out / "cc3m_35l.json").read_text())["languages"] == {"de": 4, "en": 4, "th": 4, "yo": 4}


def test_a_part_of_dev_is_refused(release, tmp_path):
  tsv = release / "Validation_GCC-1.1.0-Validation.tsv"
  shutil.move(tmp_path / "dev_tsv", tsv)
  xmcap("data", "build", "cc3m35l", f"--release={release}", f"--out={tmp_path / 'out'}").refused(
    f"{tsv}: of dev, dev_captions, dev_images is missing"
  )
