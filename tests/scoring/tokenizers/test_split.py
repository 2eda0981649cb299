"""The tokenizers `split` and `raw`, with the scores of VLMEvalKit; tests/published/test_coco_cn.py has COCO-CN's."""

import pytest

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
def test_split_tokenizer_drops_ascii_punctuation(text, words):
  assert tokenizers.get("split", "zh")(text) == words


# pycocoevalcap 1.2, called as VLMEvalKit's dataset/image_caption.py calls it: raw strings, no tokeniser.
def test_vlmevalkit_scores_raw_captions():
  from pycocoevalcap.bleu.bleu import Bleu
  from pycocoevalcap.cider.cider import Cider
  from pycocoevalcap.rouge.rouge import Rouge

  texts = {
    "1": ("A Dog, on the grass.", ["A dog on the grass .", "a Dog, on\u3000the grass."]),
    "2": ("สุนัข วิ่ง บน หญ้า", ["สุนัข วิ่งบน หญ้า", "สุนัข วิ่ง บน พื้น"]),
    "3": ("two cats sleep on a bed", ["Two cats sleep on a bed", "two cats sleep on a bed!"]),
    "4": ("一只狗 在\x1c草地 上 跑 。", ["一只狗 在 草地 上 跑 。", "狗在草地上跑。"]),
  }
  predictions = {key: {"en": hypothesis} for key, (hypothesis, _) in texts.items()}
  references = {key: {"en": held} for key, (_, held) in texts.items()}
  row = score(references, predictions, protocol="vlmevalkit", health=False).table.rows["en"]
  gts, res = (
    {key: held for key, (_, held) in texts.items()},
    {key: [text] for key, (text, _) in texts.items()},
  )
  assert row["cider_d"] == pytest.approx(Cider().compute_score(gts, res)[0], rel=1e-12)
  # Its ROUGE-L splits at single spaces, and only there.
  spaced = [
    {key: [" ".join(text.split()) for text in texts] for key, texts in held.items()} for held in (gts, res)
  ]
  assert row["rouge_l"] == pytest.approx(Rouge().compute_score(*spaced)[0], rel=1e-12)
  for n, expected in enumerate(Bleu(4).compute_score(gts, res, verbose=0)[0], 1):
    assert row[f"bleu_{n}"] / 100 == pytest.approx(expected, rel=1e-6)
