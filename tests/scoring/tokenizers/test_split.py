"""Words as they stand; on COCO-CN's captions the scores that the authors' files hold."""

import numpy as np
import pytest

from tests.scoring import coco_cn
from xmcap.scoring import score, tokenizers


@pytest.mark.parametrize(
  "text, words",
  [
    ("一个 消防 栓 ( 红色 )", ["一个", "消防", "栓", "(", "红色", ")"]),
    ("击 球手 , 接 球手 .", ["击", "球手", "接", "球手"]),
    ("写 的 信息 ： A-B's ...", ["写", "的", "信息", "：", "a-b's"]),
    ("", []),
  ],
)
def test_words_stay_and_punctuation_marks_of_ascii_go(text, words):
  assert tokenizers.get("split", "zh")(text) == words


# The authors' evaluation in Python 2; its files print three digits. shared/paper/cococn_table8_captioning_auto.csv
@coco_cn.needs_files
@pytest.mark.parametrize("system", coco_cn.SYSTEMS)
def test_printed_scores_of_coco_cn_come_out(system):
  held = coco_cn.results(system)
  result = score(
    coco_cn.references(), coco_cn.predictions(held), metrics="cider_d,bleu_4,rouge_l", tokenizer="split"
  )
  row, printed = result.table.rows["zh"], held["overall"]
  assert round(row["bleu_4"] / 100, 3) == printed["Bleu_4"]
  assert round(row["rouge_l"], 3) == printed["ROUGE_L"]
  assert round(row["cider_d"], 3) == printed["CIDEr"]
  for metric, name in (("cider_d", "CIDEr"), ("rouge_l", "ROUGE_L")):
    wanted = [held["imgToEval"][key][name] for key in result.statistics["zh"].keys]
    np.testing.assert_allclose(result.statistics["zh"].image_scores(metric), wanted, atol=0.0006)
