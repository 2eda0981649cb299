"""A corpus in a language that a model's vocabulary lacks: the commands of docs/own_data.md, on a small model."""

import pathlib
import shlex

import pytest

from tests.make import files, images, models, small_corpus
from tests.make.command import xmcap
from xmcap.models.vit import ViTConfig
from xmcap.training.checkpoints import weights

DOCS = pathlib.Path(__file__).parents[2] / "docs/own_data.md"
# With the sizes of `small_corpus.SMALLER`, of models/tiny.gin but for its pooling.
VIT = ViTConfig(32, 1, 64, 4, 8, 16, "none")
SMALLER = (
  *small_corpus.SMALLER, *small_corpus.ONE_LENGTH, "--gin.IMAGE_SIZE=16", "--gin.TOTAL_STEPS=2", "--gin.BATCH_SIZE=8",
  "--gin.hooks.evaluators=[]",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """A captioner that lacks Yoruba, and a corpus of it with a vocabulary of its own."""
  monkeypatch.chdir(tmp_path)
  models.captioner(tmp_path / "runs/quickstart/model", VIT)
  names = [f"{number}.png" for number in range(20)]
  for number, name in enumerate(names):
    images.files("photos", name, color=10 * number, size=(16, 16))
  texts = {"en": "a dog on a chair", "yo": "ajá kan lórí àga"}
  rows = [(name, language, f"{text} {name}") for name in names for language, text in texts.items()]
  files.csv("captions.csv", ("file", "language", "caption"), *rows)
  build = ["--captions=captions.csv", "--images=photos", "--out=data/photos", "--vocabulary=train:8000"]
  splits = "--splits=train:0.7,validation:0.1,test:0.2"
  xmcap("data", "build", "folder", *build, splits, "--processes=1").succeeded()
  return tmp_path


def printed(below: str) -> list[str]:
  """The arguments of the first command of docs/own_data.md below a text, with its variable."""
  block = DOCS.read_text(encoding="utf-8").split(below)[1].split("```sh\n")[1].split("```")[0]
  assigned, command = block.replace("\\\n", " ").strip().split("\n")
  name, value = assigned.split("=")
  return shlex.split(command.replace(f"${name}", value))[1:]


@pytest.mark.slow
def test_vit_alone_with_the_vocabulary_of_the_corpus(folder):
  xmcap(*printed("such as Yoruba"), *SMALLER).succeeded("starting with vit from", "finished at step 2")
  ours, theirs = (weights.open_weights(f"runs/{name}").tensors for name in ("photos-yo", "quickstart/model"))
  assert ours.keys() >= {name for name in theirs if name.startswith("vit/")}
  vocabularies = [folder / name / "vocabulary.model" for name in ("runs/photos-yo", "data/photos")]
  assert vocabularies[0].read_bytes() == vocabularies[1].read_bytes()
  caption = ["caption", "--model_dir=runs/photos-yo", "--languages=yo", "--out=yo.csv"]
  xmcap(*caption, "--gin.Predictor.max_length=3", "photos").succeeded()
  assert (folder / "yo.csv").read_text(encoding="utf-8").startswith("\ufeffimage/key,yo\n")


@pytest.mark.parametrize("vocabulary", ["the model's", "the corpus's"])
def test_whole_model_without_the_language_says_to_take_the_vit_alone(folder, vocabulary):
  run = printed("## Fine-tune a captioner")
  if vocabulary == "the corpus's":
    run = [word for word in run if not word.startswith("--gin.VOCABULARY=")]
  refused = xmcap(*run, *SMALLER).refused("--gin.PRETRAINED=\"[('", "', 'vit')]\"")
  assert ("no LangId piece such as <yo> for yo" in refused.err) == (vocabulary == "the model's")
