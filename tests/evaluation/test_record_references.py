"""References out of records, and the evaluation of the paper that reads them."""

import gin
import pytest

from tests.make import small_corpus
from tests.make.command import xmcap
from xmcap import configuration
from xmcap.data import record_writer
from xmcap.errors import UsageError
from xmcap.evaluation.evaluators import CaptionEvaluator
from xmcap.evaluation.record_references import RecordReferences
from xmcap.languages import TRAINED
from xmcap.scoring import read_references
from xmcap.training.deferred import at_once


def test_the_references_are_those_of_the_records(corpus):
  found = RecordReferences(str(corpus), "validation", ("en", "th"))
  expected = {
    small_corpus.record(index).key: {
      code: [caption.text for caption in small_corpus.record(index).captions if caption.language == code]
      for code in ("en", "th")
    }
    for index in range(12, 18)
  }
  assert dict(found.references) == expected
  for index in (17, 12):
    record = small_corpus.record(index)
    assert found.read(record.key) == record.image


def test_record_references_refuse_an_unknown_split(corpus):
  with pytest.raises(UsageError, match="test"):
    RecordReferences(str(corpus), "test")


def test_an_evaluator_takes_records_and_names_its_rows(corpus):
  class Same:
    image_size = 8

    def __call__(self, params, keys, load, codes, numbers, own_tags):
      for key in keys:
        assert load(key).shape == (8, 8, 3)
        yield key, dict.fromkeys(codes, f"English {int(key)} 0")

  evaluator = CaptionEvaluator(
    Same(), str(corpus), languages=("en",), split="validation", name="dev", metrics=("exact",)
  )
  rows = list(at_once(evaluator.run({}, None)))
  assert ("en", "dev/exact", rows[0][2]) in rows and {name for _, name, _ in rows} == {"dev/exact"}
  assert len(evaluator.small(2).references) == 2
  release = CaptionEvaluator(Same(), str(corpus / "captions.jsonl"), languages=("en",))
  assert (
    evaluator.references.keys()
    == release.references.keys()
    == read_references(corpus / "captions.jsonl").keys()
  )


def test_eval_xm3600_gin_names_both_evaluations(corpus):
  configuration.parse(
    ["models/tiny.gin", "runs/finetune_coco35l.gin", "runs/eval_xm3600.gin"],
    [f"DATA_DIR={corpus}", f"COCO_35L={corpus}", "EVALUATORS=[@coco_35l_dev/CaptionEvaluator()]"],
  )
  (evaluator,) = configuration.resolve(gin.query_parameter("evaluate.evaluators"))
  assert evaluator.languages == tuple(sorted(TRAINED)) and len(evaluator.references) == 6
  assert evaluator.prefix == "coco_35l_dev/" and evaluator.records.read("000000000012")


@pytest.mark.full
@pytest.mark.slow
def test_a_trained_model_is_evaluated_on_xm3600_and_coco(corpus, tmp_path):
  xm3600 = tmp_path / "xm3600"
  languages = (*TRAINED, "quz")
  split = record_writer.write_split(
    xm3600, "test", [[small_corpus.record(number, languages) for number in range(30, 33)]], list,
    dataset="xm3600", processes=1,
  )  # fmt: skip
  record_writer.write_metadata(xm3600, [split], dataset="xm3600")
  xmcap(
    "train", "--gin_file=models/tiny.gin", "--gin_file=runs/finetune_coco35l.gin", f"--gin.DATA_DIR={corpus}",
    f"--gin.MODEL_DIR={tmp_path / 'model'}", "--gin.BATCH_SIZE=4", "--gin.TOTAL_STEPS=1", "--gin.TARGET_LENGTH=8",
    "--gin.PRETRAINED=()", "--gin.Writers.tensorboard=False", *small_corpus.SMALLER,
  ).succeeded()  # fmt: skip
  xmcap(
    "eval", f"--model_dir={tmp_path / 'model'}", "--gin_file=runs/eval_xm3600.gin", f"--gin.XM3600={xm3600}",
    f"--gin.COCO_35L={corpus}", f"--gin.XM3600_OUT={tmp_path / 'a'}", f"--gin.COCO_35L_DEV_OUT={tmp_path / 'b'}",
  ).succeeded("xm3600/cider  ", "coco_35l_dev/cider  ")  # fmt: skip
  for folder in ("a", "b"):
    assert (tmp_path / folder / "table.csv").is_file() and (tmp_path / folder / "predictions.jsonl").is_file()
    # The records' pictures are in the report.
    assert "img-src data:" in (tmp_path / folder / "report.html").read_text(encoding="utf-8")
