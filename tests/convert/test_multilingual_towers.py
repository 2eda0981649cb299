"""SigLIP 2 and MetaCLIP 2 from files to embeddings: numbers of transformers 5.23.0 with torch 2.13.0."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from tests.convert import multilingual_towers as towers
from tests.convert import two_towers
from tests.convert.conftest import edit_json, embed_labels
from tests.make import files
from xmcap.families.dual import text_input
from xmcap.models import model_json

KINDS = [
  pytest.param("siglip2", towers.USUAL, marks=pytest.mark.full), ("siglip2", towers.UNUSUAL),
  ("metaclip2", towers.USUAL), ("metaclip2", towers.UNUSUAL),
]  # fmt: skip


def made(folder, kind, shape):
  model, tokenizer = getattr(towers, kind)(folder, shape)
  processor = towers.siglip_pictures(shape) if kind == "siglip2" else towers.clip_pictures()
  return model, tokenizer, processor


@pytest.mark.parametrize("kind, shape", KINDS)
def test_siglip2_and_metaclip2_equal_transformers(tmp_path, convert, kind, shape):
  model, tokenizer, processor = made(tmp_path / "theirs", kind, shape)
  folder = convert(tmp_path / "theirs", "--part=dual")
  config = model_json.read(folder / "model.json").config("text")
  ours, _ = text_input.open_pretrained(folder, config).encode_all(towers.TEXTS)
  assert ours == tokenizer(towers.TEXTS, truncation=True, max_length=config.max_length)["input_ids"]
  assert max(map(len, ours)) == config.max_length  # the last is over-long

  images = towers.pictures(tmp_path / "pictures")
  of_images, of_texts = towers.their_embeddings(model, tokenizer, processor, images, towers.TEXTS)
  names = [f"p{number}" for number in range(len(images))]
  captions = {"images": names, "captions": {"en": [[text] for text in towers.TEXTS[: len(names)]]}}
  captions = f"--captions={files.json(tmp_path / 'captions.json', captions)}"
  labels = {"EN": [list(range(len(towers.TEXTS))), towers.TEXTS]}
  out = tmp_path / "out"
  embed_labels(folder, out, labels, captions, f"--images={tmp_path / 'pictures'}").succeeded()
  np.testing.assert_allclose(np.load(out / "pictures.npy"), of_images, atol=1e-4)
  np.testing.assert_allclose(np.load(out / "labels" / "en.npy"), of_texts, atol=1e-4)
  np.testing.assert_array_equal(
    np.argsort(-np.load(out / "pictures.npy") @ np.load(out / "labels" / "en.npy").T, 1),
    np.argsort(-of_images @ of_texts.T, 1),
  )


def test_siglip2_model_json_records_tokenizer_and_preprocessing(tmp_path, convert):
  towers.siglip2(tmp_path / "theirs")
  model = model_json.read(convert(tmp_path / "theirs", "--part=dual") / "model.json")
  text = model.config("text")
  assert (text.pad_id, text.end_id, text.cleaning) == (0, 1, "lower")
  assert model.config("dual").resize == "bilinear_square"
  assert "texts: cleaning 'lower', padded with id 0" in convert.printed


@pytest.mark.parametrize(
  "file, change, message",
  [
    ("config.json", {"text_config": {"pad_token_id": 5}}, "text_config.pad_token_id is 5, and its tokenizer pads with"),
    ("tokenizer_config.json", {"padding_side": "left"}, "padding_side left"),
    ("tokenizer_config.json", {"add_eos_token": False}, "its tokenizer ends a text with id"),
    ("tokenizer.json", {"padding": {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None,
                                    "pad_id": 1, "pad_type_id": 0, "pad_token": "<eos>"}}, "pads with id 1, and"),
    ("preprocessor_config.json", {"resample": 1}, "resample is 1: xmcap has 2 (bilinear) and 3 (bicubic)"),
    ("preprocessor_config.json", {"do_resize": False}, "do_resize is false"),
    ("preprocessor_config.json", {"rescale_factor": 0}, "rescale_factor is 0: give a number above 0"),
    ("preprocessor_config.json", {"size": {"height": 40, "width": 32}}, "xmcap resizes to the tower's 32 x 32"),
    ("preprocessor_config.json", {"do_pad": True}, "do_pad: a step that xmcap does not have"),
  ],
)  # fmt: skip
def test_siglip2_unsupported_settings_are_refused(tmp_path, convert, file, change, message):
  towers.siglip2(tmp_path / "theirs")
  edit_json(tmp_path / "theirs" / file, **change)
  assert message in convert(tmp_path / "theirs", "--part=dual", code=2)


def test_siglip2_refuses_the_tokenizer_of_another_model(tmp_path, convert):
  towers.siglip2(tmp_path / "theirs")
  folder = convert(tmp_path / "theirs", "--part=dual")
  edit_json(folder / "model.json", text={"pad_id": 1})
  result = embed_labels(folder, tmp_path / "out", {"EN": [[0, 1], ["cat", "dog"]]})
  result.refused("its tokenizer pads with id 0, and the text tower with 1")


def test_siglip2_refuses_token_ids_beyond_the_embedding(tmp_path, convert):
  """A tokenizer with added tokens; jax would take the last row."""
  towers.siglip2(tmp_path / "theirs")
  folder = convert(tmp_path / "theirs", "--part=dual")
  content = json.loads((folder / "tokenizer.json").read_text())
  rows = model_json.read(folder / "model.json").config("text").vocab_size
  flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
  content["added_tokens"].append({"id": rows, "content": "zebra", **flags})
  (folder / "tokenizer.json").write_text(json.dumps(content))
  result = embed_labels(folder, tmp_path / "out", {"EN": [[0, 1], ["cat", "zebra"]]})
  result.refused(f"the tokenizer gives id {rows}, and the text tower has {rows} embeddings")


def test_metaclip2_eos_token_id_must_match_its_tokenizer(tmp_path, convert):
  towers.metaclip2(tmp_path / "theirs")
  edit_json(tmp_path / "theirs" / "config.json", text_config={"eos_token_id": 3})
  assert "its tokenizer ends a text with id 2, and the text tower with 3" in convert(
    tmp_path / "theirs", "--part=dual", code=2
  )


def test_siglip2_naflex_is_refused(tmp_path, convert):
  towers.siglip2(tmp_path / "theirs")
  edit_json(tmp_path / "theirs" / "config.json", model_type="siglip2", architectures=["Siglip2Model"])
  assert "no model of two towers: give CLIPModel, SiglipModel" in convert(
    tmp_path / "theirs", "--part=dual", code=2
  )


def gemma_model(folder):
  """A SentencePiece model with Gemma's special pieces."""
  sentencepiece = pytest.importorskip("sentencepiece")
  sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(towers.TEXTS * 3), model_prefix=str(folder / "tokenizer"), vocab_size=370, pad_id=0,
    eos_id=1, bos_id=2, unk_id=3, hard_vocab_limit=False, byte_fallback=True, model_type="bpe", minloglevel=2,
    add_dummy_prefix=False, remove_extra_whitespaces=False, normalization_rule_name="identity",
  )  # fmt: skip
  (folder / "tokenizer.vocab").unlink()
  return sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))


@pytest.mark.parametrize("file", ["tokenizer.model", "tokenizer.json"])
def test_big_vision_siglip2_npz_with_gemma_tokenizer(tmp_path, convert, monkeypatch, file):
  """`lower|tok(length, model="gemma", bos="no", eos="sticky")`; tf.strings.lower changes the letters A to Z alone."""
  if file == "tokenizer.model":
    theirs = gemma_model(tmp_path)
    wanted = lambda text: [*theirs.encode(text)[:4], 1]  # noqa: E731
  else:
    tokenizer = towers.gemma(tmp_path)
    # Without the Lowercase that transformers adds: big_vision has another.
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    tokenizer = type(tokenizer).from_pretrained(tmp_path)
    tokenizer._tokenizer.normalizer = tokenizer._tokenizer.normalizer[1]
    wanted = lambda text: tokenizer(text, truncation=True, max_length=5)["input_ids"]  # noqa: E731
  monkeypatch.setattr(two_towers, "VOCAB", 400)
  np.savez(tmp_path / "theirs.npz", **two_towers.weights("siglip"))
  folder = convert(tmp_path / "theirs.npz", "--part=dual")
  config = model_json.read(folder / "model.json").config("text")
  assert (config.pad_id, config.end_id, config.cleaning) == (0, 1, "lower_ascii")
  found, _ = text_input.open_pretrained(folder, config).encode_all(["A Dog!", "КОШКА Cat"])
  assert found == [wanted("a dog!"), wanted("КОШКА cat")]


def test_big_vision_siglip_npz_refuses_gemma_tokenizer(tmp_path, convert):
  (tmp_path / "npz").mkdir()
  np.savez(tmp_path / "npz" / "theirs.npz", **two_towers.weights("siglip"))
  folder = convert(tmp_path / "npz" / "theirs.npz", "--part=dual")
  config = model_json.read(folder / "model.json").config("text")
  assert (config.pad_id, config.cleaning) == (1, "plain")
  gemma_model(tmp_path)
  shutil.copy(tmp_path / "tokenizer.model", pathlib.Path(folder, "tokenizer.model"))
  with pytest.raises(text_input.UsageError, match="its tokenizer pads with id 0, and the text tower with 1"):
    text_input.open_pretrained(folder, config)
