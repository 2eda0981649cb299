"""From downloads to a table of scores, by the commands and the paper's own run files; only sizes and paths are ours.

CC3M-35L, COCO-35L and XM3600 are generated as they are published, with faults in them; the tiny captioner is
pretrained, fine-tuned for an epoch, and evaluated in 36 languages.
"""

import json

import pytest

from tests.corpora import release_folders as releases
from tests.make import small_corpus
from tests.make.command import xmcap
from xmcap.data import records, vocabulary
from xmcap.languages import LANGUAGES, TRAINED

pytestmark = [pytest.mark.slow, pytest.mark.full]

FAULTS = (
  "html",
  "truncated",
  "gif",
  "missing",
  "cut_line",
  "bad_utf8",
  "duplicate_line",
  "unknown_id",
  "crlf",
)
SIZES = (
  *small_corpus.SMALLER,
  "--gin.TARGET_LENGTH=16",
  "--gin.BATCH_SIZE=64",
  "--gin.Writers.tensorboard=False",
)


def build(corpus: str, release: releases.Release, out) -> str:
  """Builds a corpus by its command, and checks the records and the summary."""
  said = (
    xmcap("data", "build", corpus, f"--release={release.folder}", f"--out={out}", "--processes=1")
    .succeeded()
    .out
  )
  assert release.differences(out) == []
  for kind, count in release.problems.items():
    assert any(line.split()[:2] == [f"{count:,}", f"{kind}:"] for line in said.splitlines()), (kind, said)
  return said


def write_vocabulary(path, corpora) -> None:
  """A vocabulary for the captions of built corpora, in place of mT5's."""
  text = path.with_suffix(".txt")
  with open(text, "w", encoding="utf-8") as file:
    for corpus in corpora:
      for split in records.splits(corpus):
        for record in records.RecordSource(corpus, split):
          file.writelines(f"{caption.text}\n" for caption in record.captions)
  vocabulary.train_vocabulary(str(text), str(path), size=800)


def test_build_train_and_evaluate_in_36_languages(tmp_path):
  cc3m = releases.write_cc3m35l(tmp_path / "cc3m", faults=(*FAULTS, "dead_url"), order="shuffled")
  coco = releases.write_coco35l(tmp_path / "coco", captions=2, layout="zip", order="language", faults=FAULTS)
  xm3600 = releases.write_xm3600(tmp_path / "xm3600", images=10, faults=("html", "cmyk", "exif", "bom"))
  data = {name: tmp_path / "data" / name for name in ("cc3m", "coco", "xm3600")}
  build("cc3m35l", cc3m, data["cc3m"])
  build("coco35l", coco, data["coco"])
  build("xm3600", xm3600, data["xm3600"])
  model = tmp_path / "vocabulary.model"
  write_vocabulary(model, data.values())

  paths = [
    f"--gin.VOCABULARY={model}",
    f"--gin.DATA_DIR={data['cc3m']}",
    f"--gin.MODEL_DIR={tmp_path / 'pretrained'}",
  ]
  pretrain = ["train", "--gin_file=models/tiny.gin", "--gin_file=runs/pretrain_cc3m35l.gin", *paths, *SIZES]
  xmcap(*pretrain, "--gin.TOTAL_STEPS=2").succeeded("finished at step 2")

  paths = [f"--gin.VOCABULARY={model}", f"--gin.DATA_DIR={data['coco']}", f"--gin.MODEL_DIR={tmp_path / 'model'}",
           f"--gin.PRETRAINED={tmp_path / 'pretrained'}"]  # fmt: skip
  finetune = ["train", "--gin_file=models/tiny.gin", "--gin_file=runs/finetune_coco35l.gin", *paths, *SIZES]
  said = xmcap(*finetune).succeeded("validation/loss").out
  captions = sum(len(expected.captions) for expected in coco.expected["train"].values())
  assert f"finished at step {round(captions / 64)}" in said, "one epoch is as many captions as there are"

  out = tmp_path / "scores"
  xmcap(
    "eval", f"--model_dir={tmp_path / 'model'}", "--gin_file=runs/eval_xm3600.gin",
    f"--gin.XM3600={data['xm3600']}", f"--gin.COCO_35L={data['coco']}", f"--gin.XM3600_OUT={out / 'xm3600'}",
    f"--gin.COCO_35L_DEV_OUT={out / 'coco_35l_dev'}", "--gin.Predictor.max_length=8",
  ).succeeded()  # fmt: skip
  for name, expected, languages in (
    ("xm3600", xm3600.expected["test"], tuple(LANGUAGES)),
    ("coco_35l_dev", coco.expected["validation"], TRAINED),
  ):
    table = json.loads((out / name / "table.json").read_text(encoding="utf-8"))
    assert set(table["languages"]) == set(languages)
    lines = (out / name / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    assert {(row["image/key"], row["language"]) for row in map(json.loads, lines)} == {
      (key, language) for key in expected for language in languages
    }
