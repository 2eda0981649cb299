import jax
import numpy as np
import pytest

from tests.data.conftest import register, tiny, tiny_dir  # noqa: F401  fixtures
from xmcap.data.stream import CaptionStream
from xmcap.evaluation import embedder
from xmcap.evaluation.retrieval_evaluator import RetrievalEvaluator
from xmcap.models.dual import DualConfig
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.scoring import retrieval
from xmcap.training.contrastive import ContrastiveObjective

VIT = ViTConfig(width=16, depth=1, mlp_dim=16, num_heads=2, patch_size=8, image_size=16, dtype="float32")
T5 = T5Config(
  vocab_size=512, emb_dim=16, num_heads=2, head_dim=8, num_encoder_layers=1, num_decoder_layers=1,
  mlp_dim=16, dtype="float32",
)  # fmt: skip


@pytest.fixture(autouse=True)
def configured(monkeypatch):
  made = embedder.tower(VIT, T5, DualConfig(8))
  monkeypatch.setattr(embedder, "configured_tower", lambda: made)


def test_recall_of_a_split_equals_scores_of_its_embeddings(tiny):  # noqa: F811
  stream = CaptionStream(
    tiny.name, split="train", batch_size=8, image_size=16, captions_per_image=2, prompt_length=2, target_length=8,
    languages=("de", "en"), language_weights="uniform",
  )  # fmt: skip
  objective = ContrastiveObjective(VIT, T5, DualConfig(8))
  batch = stream.batch(0, np.arange(4))
  params = objective.init(jax.random.key(0), batch)["params"]
  evaluator = RetrievalEvaluator(stream, num_pictures=12, name="validation")
  rows = {(code, name): value for code, name, value in evaluator.run(params, None)}

  ordered, steps = stream.first(12)
  images, texts, codes = [], [], []
  for step in range(steps):
    batch = ordered.batch(step, np.arange(4))
    found = objective.module.apply({"params": params}, batch["image"], batch["target_tokens"])
    images.append(found.image)
    texts.append(found.text)
    codes.append(ordered.language_of(batch["prompt_tokens"]))
  image, text, code = map(np.concatenate, (images, texts, codes))
  for language in ("de", "en"):
    of_language = text[np.arange(12), (code == language).argmax(axis=1)]
    captions = {language: retrieval.Captions(np.arange(12), ("",) * 12)}
    table = retrieval.score_retrieval(
      image, [str(i) for i in range(12)], captions, {language: lambda held=of_language: held}
    ).table
    for name, value in table.rows[language].items():
      if name in table.metrics:
        assert rows[language, f"validation/{name}"] == pytest.approx(value)
  assert rows["", "validation/t2i_r10"] > 0.5


def test_the_batch_and_the_captions_of_the_training_stream_do_not_matter(tiny):  # noqa: F811
  def rows(**options):
    stream = CaptionStream(
      tiny.name,
      split="train",
      image_size=16,
      prompt_length=2,
      target_length=8,
      languages=("de", "en"),
      **options,
    )
    objective = ContrastiveObjective(VIT, T5, DualConfig(8))
    batch = {"image": np.zeros((1, 16, 16, 3), np.uint8), "target_tokens": np.ones((1, 1, 8), np.int32)}
    params = objective.init(jax.random.key(0), batch)["params"]
    evaluator = RetrievalEvaluator(stream, pictures=5, num_pictures=12)
    return {(code, name): value for code, name, value in evaluator.run(params, None)}

  one, two = rows(batch_size=4), rows(batch_size=8, captions_per_image=2, target_lengths=(4,))
  assert one == pytest.approx(two) and {code for code, _ in one} == {"", "de", "en"}
