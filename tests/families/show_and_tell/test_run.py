"""A corpus of Chinese words: its vocabulary of words, a bag of tags, and a run of Show and Tell on stored vectors."""

import json

import numpy as np
import pytest

from tests.make import images
from tests.make.command import xmcap
from xmcap.data import features, record_writer, records
from xmcap.data.vocabulary import Vocabulary, word_text
from xmcap.errors import UsageError

KINDS = ("只 猫", "只 狗", "辆 车")
FILES = ("data/coco_cn.gin", "runs/train.gin", "runs/caption_sequential.gin", "models/show_and_tell.gin")


def record(number):
  words = f"一 {KINDS[number % 3]} 在 街 上 。"
  captions = [
    records.Caption("zh", words.replace(" ", ""), words),
    records.Caption("en", f"A {number % 3} dog, DOGS."),
  ]
  image = images.plain((number, 9, 9), (8, 8))
  return records.Record(f"k{number:02d}", image, captions, tags_by_language={"zh": [words.split()[2]]})


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  out = tmp_path_factory.mktemp("words")
  splits = {"train": range(12), "val": range(12, 15)}
  written = [
    record_writer.write_split(
      out, split, [list(map(record, numbers))], list, dataset="coco_cn", processes=1,
    )
    for split, numbers in splits.items()
  ]  # fmt: skip
  record_writer.write_metadata(out, written, dataset="coco_cn")
  vectors = np.eye(3, 5, dtype=np.float32)[np.arange(15) % 3]
  features.write(out / "f.safetensors", features.Features(tuple(f"k{n:02d}" for n in range(15)), vectors))
  said = xmcap("data", "vocabulary", out, "--words=5", "--languages=zh").succeeded().out
  assert "tokens; next: xmcap data index" in said
  return out


def test_vocabulary_of_words(corpus):
  vocabulary = Vocabulary(str(corpus / "vocabulary.model"))
  assert vocabulary.reads_words
  caption = records.Caption("zh", "一只猫。", "一 只 猫 。")
  ids = vocabulary.encode(vocabulary.text_of(caption))
  # 猫 is in four captions only. The full stop is no word.
  assert [vocabulary.processor.id_to_piece(token) for token in ids[:2]] == ["▁一", "▁只"]
  assert vocabulary.decode(ids) == "一 只 ⁇ "
  assert word_text(records.Caption("en", "A man's dog, DOGS.")) == "a man's dog dogs"
  with pytest.raises(UsageError, match="a caption in 'zh' without words"):
    vocabulary.text_of(records.Caption("zh", "一只猫"))


def test_bag_of_tags_follows_the_vectors(corpus, tmp_path):
  tags = ["data", "tags", corpus, "--source=tags", "--least=2", f"--features={corpus}/f.safetensors"]
  xmcap(*tags, f"--out={tmp_path}/labels").succeeded("3 labels")
  keys, vectors = features.read(tmp_path / "labels/features.safetensors")
  labels = (tmp_path / "labels/labels.txt").read_text().split()
  assert vectors.shape == (15, 8) and labels == ["狗", "猫", "车"]
  row = vectors[keys.index("k02")]  # a car
  assert row.tolist() == [0, 0, 1, 0, 0, 0, 0, 1]


def test_run_trains_evaluates_and_captions(corpus, tmp_path):
  run = tmp_path / "run"
  given = [f"--gin.FEATURES={corpus}/f.safetensors", f"--gin.DATA_DIR={corpus}", f"--gin.MODEL_DIR={run}"]
  small = [
    "LstmConfig.emb_dim=64", "BATCH_SIZE=4", "LEARNING_RATE=.01", "epochs.count=40", "DROPOUT=0.0", "PRETRAINED=()",
    "TARGET_LENGTH=8", "CaptionStream.target_lengths=()", "hooks.eval_every=120", "Writers.tensorboard=False",
  ]  # fmt: skip
  xmcap(
    "train", *(f"--gin_file={name}" for name in FILES), *given, *(f"--gin.{one}" for one in small)
  ).succeeded()
  rates = [
    json.loads(line).get("train/learning_rate") for line in (run / "metrics.jsonl").read_text().splitlines()
  ]
  assert min(rate for rate in rates if rate) == pytest.approx(
    0.01 * 0.8**13
  )  # three of 40 epochs have passed 13 times
  caption = ["caption", f"--model_dir={run}", "--languages=zh"]
  out = tmp_path / "captions.jsonl"
  xmcap(*caption, f"--features={corpus}/f.safetensors", f"--out={out}").succeeded("15 of 15")
  captions = [json.loads(line)["caption"] for line in out.read_text().splitlines()]
  # 辆 and 车 are in four captions, so unknown, and SentencePiece joins them; 只 is in eight.
  assert captions[2] == "一 ⁇  在 街 上" and captions[0] == "一 只 ⁇  在 街 上"
  xmcap(*caption, tmp_path / "a.png").refused("cannot be read")
  xmcap(*caption, f"--features={corpus}/f.safetensors", f"--out={tmp_path}/a.html").refused(
    "no pictures to read"
  )
  xmcap("eval", f"--model_dir={run}", "--gin_file=runs/eval.gin", f"--gin.REFERENCES={corpus}").refused(
    "Predictor.features is empty"
  )
