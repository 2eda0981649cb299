"""The retrieval evaluator of dual encoders against scores of the same embeddings."""

import jax
import numpy as np
import pytest

from tests.ranked.tables import table
from xmcap import digests
from xmcap.data import records
from xmcap.data.stream import CaptionStream
from xmcap.families.dual.retrieval_evaluator import RetrievalEvaluator
from xmcap.ranked import retrieval
from xmcap.scoring.tables.signature import Signature


def test_retrieval_evaluator_equals_scores_of_embeddings(tiny, objective, params):
  stream = CaptionStream(
    tiny.name, split="train", batch_size=8, image_size=16, captions_per_image=2, prompt_length=2, target_length=8,
    languages=("de", "en"), language_weights="uniform",
  )  # fmt: skip
  evaluator = RetrievalEvaluator(stream, num_pictures=12, name="validation")
  rows = {(code, name): value for code, name, value in evaluator.run(params, None)}

  ordered, steps = stream.first(12)
  images, texts, codes = [], [], []
  apply = jax.jit(objective.module.apply)
  for step in range(steps):
    batch = ordered.batch(step, np.arange(4))
    found = apply({"params": params}, batch["image"], batch["target_tokens"])
    images.append(found.image)
    texts.append(found.text)
    codes.append(ordered.language_of(batch["prompt_tokens"]))
  image, text, code = map(np.concatenate, (images, texts, codes))
  for language in ("de", "en"):
    of_language = text[np.arange(12), (code == language).argmax(axis=1)]
    captions = {language: retrieval.CaptionRows(np.arange(12), ("",) * 12)}
    table = retrieval.score_retrieval(
      image, [str(i) for i in range(12)], captions, {language: lambda held=of_language: held}
    ).table
    for name, value in table.rows[language].items():
      if name in table.metrics:
        assert rows[language, f"validation/{name}"] == pytest.approx(value)
  assert rows["mean", "validation/t2i_r10"] > 0.5


def test_retrieval_evaluator_is_independent_of_batch_size(tiny, params):
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
    evaluator = RetrievalEvaluator(stream, pictures=5, num_pictures=12)
    return {(code, name): value for code, name, value in evaluator.run(params, None)}

  one, two = rows(batch_size=4), rows(batch_size=8, captions_per_image=2, target_lengths=(4,))
  assert one == pytest.approx(two) and {code for code, _ in one} == {"mean", "de", "en"}


def test_retrieval_evaluator_signs_the_keys_and_captions_of_the_records(tiny, params, tmp_path):
  signed = {}
  for split in ("train[:12]", "train[12:]"):
    stream = CaptionStream(
      tiny.name, split=split, batch_size=4, image_size=16, prompt_length=2, target_length=8, languages=("de",)
    )
    out = tmp_path / split
    list(RetrievalEvaluator(stream, out_dir=str(out)).run(params, None))
    written = table(out)
    held = list(records.RecordSource(tiny.location().data_dir, split))
    captions = [(record.key, caption.text) for record in held for caption in record.captions
                if caption.language == "de"]  # fmt: skip
    parts = Signature.parse(written["signature"]).parts
    assert parts["images"] == digests.of_images(key for key, _ in captions)
    assert parts["captions"] == digests.of_texts(sorted(f"de\t{key}\t{text}" for key, text in captions))
    assert not [note for note in written["notes"] if "empty" in note]
    signed[split] = written["signature"]
  assert len(set(signed.values())) == 2


def test_retrieval_evaluator_does_not_recompile(tiny, params):
  stream = CaptionStream(
    tiny.name, split="train", batch_size=4, image_size=16, prompt_length=2, target_length=8, languages=("en",)
  )
  evaluator = RetrievalEvaluator(stream, pictures=5, num_pictures=10)
  assert list(evaluator.run(params, 1)) == list(evaluator.run(params, 2))
  assert evaluator._embed._cache_size() == 1
