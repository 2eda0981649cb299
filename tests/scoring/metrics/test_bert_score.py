"""BERTScore with a small random BERT, against bert_score and against its formula."""

import importlib.util

import numpy as np
import pytest

from tests.make import files
from tests.make.command import xmcap
from tests.make.refusals import refusal
from xmcap.scoring import metrics

if importlib.util.find_spec("bert_score") is None:
  pytest.skip("needs bert_score", allow_module_level=True)

_WORDS = ["a", "the", "dog", "cat", "runs", "sleeps", "on", "beach", "sofa", "two", "red", "man"]
_CAPTIONS = ["a dog runs", "two cat sleeps on the sofa", "man"]
_REFERENCES = [
  ["the dog runs", "a red dog on the beach"], ["a cat on a red sofa"], ["the man runs", "a man", "two man"],
]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  """A folder of transformers: BERT with 2 layers of width 16."""
  import torch
  import transformers

  folder = tmp_path_factory.mktemp("bert")
  files.lines(folder / "vocab.txt", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_WORDS)
  torch.manual_seed(0)
  config = transformers.BertConfig(
    vocab_size=5 + len(_WORDS),
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
  )
  transformers.BertModel(config).save_pretrained(folder)
  transformers.BertTokenizer(str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
  return folder


@pytest.fixture
def named(model, monkeypatch):
  monkeypatch.setenv("XMCAP_BERT_SCORE", f"{model}:1")


def _scores():
  corpus = metrics.Corpus(
    [text.split() for text in _CAPTIONS], [[t.split() for t in texts] for texts in _REFERENCES]
  )
  metric = metrics.BertScore()
  return metric.image_scores(metric.statistics(corpus))


@pytest.mark.full
@pytest.mark.usefixtures("named")
def test_equals_bert_score(model):
  import bert_score  # takes seconds

  _, _, f1 = bert_score.score(_CAPTIONS, _REFERENCES, model_type=str(model), num_layers=1)
  np.testing.assert_allclose(_scores(), f1.numpy(), rtol=1e-6)


@pytest.mark.full
@pytest.mark.usefixtures("named")
def test_equals_the_formula(model):
  """Each word takes the nearest vector of the other side, also [CLS] and [SEP]; the best reference counts."""
  import torch
  import transformers

  bert = transformers.BertModel.from_pretrained(model).eval()
  tokenizer = transformers.AutoTokenizer.from_pretrained(model)

  def vectors(text):
    with torch.no_grad():
      states = bert(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states
    hidden = states[1][0].numpy()
    return hidden / np.linalg.norm(hidden, axis=1, keepdims=True)

  expected = []
  for caption, references in zip(_CAPTIONS, _REFERENCES, strict=True):
    f1s = []
    for reference in references:
      cosines = vectors(caption) @ vectors(reference).T
      precision, recall = cosines.max(1)[1:-1].mean(), cosines.max(0)[1:-1].mean()
      f1s.append(2 * precision * recall / (precision + recall))
    expected.append(max(f1s))
  np.testing.assert_allclose(_scores(), expected, rtol=1e-5)


@pytest.mark.full
@pytest.mark.usefixtures("named")
def test_the_signature_names_weights_and_layer_and_no_folder(model):
  signature = metrics.BertScore().signature
  assert signature.startswith(f"{model.name}_L1_no-idf_version=") and ",weights=" in signature
  assert str(model.parent) not in signature


@pytest.mark.full
@pytest.mark.usefixtures("named")
def test_in_a_table_of_scores(tmp_path):
  files.release(tmp_path / "r.jsonl", {str(key): {"en": texts} for key, texts in enumerate(_REFERENCES)})
  files.captions(tmp_path / "p.jsonl", {str(key): {"en": text} for key, text in enumerate(_CAPTIONS)})
  xmcap(
    "score", f"--references={tmp_path / 'r.jsonl'}", f"--predictions={tmp_path / 'p.jsonl'}", "--metrics=bert_score",
    "--tokenizer=raw", "--processes=1", f"--out={tmp_path / 'out'}",
  ).succeeded("BERTScore")  # fmt: skip


def test_a_model_must_be_named(monkeypatch):
  monkeypatch.delenv("XMCAP_BERT_SCORE", raising=False)
  assert "set XMCAP_BERT_SCORE=roberta-large, or FOLDER:LAYER" in refusal(_scores)


@pytest.mark.full
@pytest.mark.parametrize(
  ("value", "message"),
  [("somewhere/bert", "give somewhere/bert:LAYER"), ("/nowhere/bert:1", "cannot be read")],
)
def test_models_that_are_not_there(monkeypatch, value, message):
  monkeypatch.setenv("XMCAP_BERT_SCORE", value)
  assert message in refusal(_scores)
