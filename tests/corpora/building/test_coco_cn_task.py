"""The task of COCO-CN reads a built corpus: the stream, seqio, and the contact sheet with its tags."""

import gin
import pytest

from tests.corpora import coco_cn_release as releases
from tests.make.command import xmcap
from xmcap.data import records, vocabulary
from xmcap.data.registry import registration
from xmcap.data.stream import CaptionStream


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  folder = tmp_path_factory.mktemp("coco_cn")
  release = releases.write_folder(folder / "release", releases.plain())
  images = releases.write_images(folder / "images")
  english = releases.write_english(folder / "captions.json")
  paths = [f"--release={release}", f"--images={images}", f"--english={english}", f"--out={folder / 'out'}"]
  xmcap("data", "build", "coco_cn", *paths, "--processes=1").succeeded()
  text = [one.text for record in records.RecordSource(folder / "out") for one in record.captions]
  (folder / "text.txt").write_text("\n".join(text * 4), encoding="utf-8")
  vocabulary.train_vocabulary(str(folder / "text.txt"), str(folder / "out" / "vocabulary.model"), size=400)
  return folder / "out"


@pytest.fixture
def located(corpus):
  import xmcap.tasks.coco_cn  # noqa: F401

  with gin.unlock_config():
    gin.bind_parameter("coco_cn.data_dir", str(corpus))
  return corpus


def test_coco_cn_stream_draws_both_languages(located):
  stream = CaptionStream(mixture="coco_cn", split="val", batch_size=4, image_size=16, languages=("zh",))
  batch = stream.batch(0)
  assert sorted(batch["key"]) == releases.SPLITS["val"]
  assert registration("coco_cn").corpus.splits == ("train", "val", "test")
  assert registration("coco_cn_en").rates == {"en": 1.0}


def test_coco_cn_seqio_task_per_language(located):
  import seqio

  dataset = seqio.get_mixture_or_task("coco_cn_en").get_dataset(
    {"image": 16, "targets": 16}, split="train", shuffle=False
  )
  texts = [example["targets_pretokenized"].decode() for example in dataset.as_numpy_iterator()]
  assert texts == ["A dog runs.", "a black dog", "A clock"]


def test_coco_cn_contact_sheet_shows_sources_and_tags(corpus, tmp_path):
  out = tmp_path / "sheet.html"
  options = ["--split=test", "--count=5", "--languages=zh", "--captions_per_image=6", "--image_size=16"]
  xmcap("data", "show", corpus, f"--out={out}", *options).succeeded()
  text = out.read_text(encoding="utf-8")
  assert 'Tags, Chinese: <span lang="zh">狗, 草地' in text
  assert "<span>human</span>" in text
