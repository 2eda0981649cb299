"""Zero-shot classification of a split against scores of the same embeddings, computed apart; and texts embedded."""

import functools
import json

import jax
import numpy as np
import pytest

from tests.ranked.tables import table
from xmcap import digests
from xmcap.data import records
from xmcap.data.stream import TagStream
from xmcap.data.vocabulary import EOS_ID
from xmcap.errors import UsageError
from xmcap.evaluation import sharded_params
from xmcap.families.dual import embedder
from xmcap.families.dual.text_input import OwnPieces
from xmcap.families.dual.zero_shot_evaluator import ZeroShotEvaluator
from xmcap.ranked import zero_shot
from xmcap.scoring.tables.signature import Signature


@pytest.fixture(name="embed")
def text_embedder(objective, params, tiny):
  sharded = sharded_params.for_evaluation(params, jax.devices())
  return embedder.TextEmbedder(objective.module, sharded, OwnPieces(tiny.vocabulary(), 16), batch_size=4)


@functools.cache
def applied(module):
  """Compiled: op by op takes several times as long."""
  return jax.jit(module.apply, static_argnames="method")


def alone(made, held, vocabulary, texts):
  """At most 150 texts of at most 16 pieces, float32 [N, E]."""
  tokens = np.zeros((150, 16), np.int32)
  for row, text in zip(tokens, texts, strict=False):
    ids = [*vocabulary.encode(text), EOS_ID][:16]
    row[: len(ids)] = ids
  return np.asarray(applied(made.module)({"params": held}, tokens, method="embed_texts"))[: len(texts)]


def test_text_embeddings_keep_the_order_of_texts(embed, objective, params, tiny):
  texts = [" ".join(["dog", "cat", "house"][: 1 + n % 3] * (1 + n % 2)) + f" {n}" for n in range(150)]
  found = np.concatenate(list(embed(iter(texts))))
  np.testing.assert_allclose(found, alone(objective, params, tiny.vocabulary(), texts), atol=2e-6)


def test_text_embedding_truncates_and_counts_long_texts(embed, objective, params, tiny):
  text = "dog " * 40
  (found,) = embed([text])
  np.testing.assert_allclose(found, alone(objective, params, tiny.vocabulary(), [text]), atol=2e-6)
  assert embed.cut == 1


def test_text_embedding_refuses_a_text_without_tokens(embed):
  with pytest.raises(UsageError, match="text 1 .*: the tokenizer finds nothing in it"):
    list(embed(["dog", "\u2581"]))


def test_zero_shot_prompt_ensemble_is_the_mean_over_prompts(
  embed, objective, params, tiny, monkeypatch
):  # fmt: skip
  prompts = ["a {}", "the {}", "a {}", "{} {1}"]
  seen = []
  call = embedder.TextEmbedder.__call__
  monkeypatch.setattr(
    embedder.TextEmbedder,
    "__call__",
    lambda self, texts, *language: call(self, (seen.append(text) or text for text in texts), *language),
  )
  found = embed.ensemble(["dog", "cat", "dog"], prompts)
  wanted = []
  for name in ("dog", "cat", "dog"):
    filled = [prompt.replace("{}", name, 1) for prompt in prompts]
    each = alone(objective, params, tiny.vocabulary(), filled).astype(np.float64)
    mean = np.mean([one / np.linalg.norm(one) for one in each], axis=0)
    wanted.append(mean / np.linalg.norm(mean))
  np.testing.assert_allclose(found, wanted, atol=2e-6)
  assert sorted(seen) == sorted(["a dog", "the dog", "dog {1}", "a cat", "the cat", "cat {1}"])


def test_zero_shot_evaluator_top1_equals_scores_of_embeddings(tiny, objective, params, tmp_path):
  stream = TagStream(tiny.name, split="train", batch_size=8, image_size=16, num_slots=1)
  names = [f"thing {index}" for index in range(len(stream.tags))]
  content = {"EN": [list(range(len(names))), names], "DE": [[0, 1], ["Ding", "Sache"]]}
  labels = tmp_path / "labels.json"
  labels.write_text(json.dumps(content))
  evaluator = ZeroShotEvaluator(
    stream, labels=str(labels), name="noto", out_dir=str(tmp_path / "out"), bootstrap=3
  )
  rows = {(code, name): value for code, name, value in evaluator.run(params, None)}

  images, targets = [], []
  for step in range(-(-len(stream.source) // 8)):
    batch = stream.first(len(stream.source))[0].batch(step)
    kept = (batch["weights"] > 0) & (batch["tags"][:, 0] > 0)
    found = applied(objective.module)({"params": params}, batch["image"], method="embed_images")
    images.append(np.asarray(found)[kept])
    targets.append(batch["tags"][kept, 0] - 1)
  read = zero_shot.read_labels(labels)
  texts = {code: alone(objective, params, tiny.vocabulary(), held.names) for code, held in read.items()}
  table = zero_shot.score_zero_shot(
    np.concatenate(images), np.concatenate(targets), read,
    {code: lambda held=held: held for code, held in texts.items()}, fixed_classes=0,
  ).table  # fmt: skip
  for code, row in table.rows.items():
    assert rows[code, "noto/top1"] == pytest.approx(row["top1"])
  assert rows["mean", "noto/top1"] == pytest.approx(table.mean["top1"])
  written = {path.name for path in (tmp_path / "out" / "noto").iterdir()}
  assert {"table.csv", "classes.csv", "report.html", "scores.npz"} <= written


def test_zero_shot_evaluator_signs_the_keys_of_the_records(tiny, objective, params, tmp_path):
  labels = tmp_path / "labels.json"
  labels.write_text(json.dumps({"EN": [[0, 1], ["dog", "cat"]]}))
  signed = {}
  for split in ("train[:12]", "train[12:]"):
    stream = TagStream(tiny.name, split=split, batch_size=8, image_size=16, num_slots=1)
    list(ZeroShotEvaluator(stream, labels=str(labels), out_dir=str(tmp_path / split)).run(params, None))
    tagged = [record.key for record in records.RecordSource(tiny.location().data_dir, split) if record.tags]
    signed[split] = Signature.parse(table(tmp_path / split)["signature"]).parts
    assert signed[split]["images"] == digests.of_images(tagged)
  assert signed["train[:12]"]["targets"] != signed["train[12:]"]["targets"]


def test_zero_shot_evaluator_refuses_labels_of_another_corpus(tiny, objective, tmp_path):
  stream = TagStream(tiny.name, split="train", batch_size=8, image_size=16, num_slots=1)
  labels = tmp_path / "labels.json"
  labels.write_text(json.dumps({"EN": [[0, 999], ["a", "b"]]}))
  with pytest.raises(UsageError, match="class 999, but the corpus has"):
    ZeroShotEvaluator(stream, labels=str(labels))
