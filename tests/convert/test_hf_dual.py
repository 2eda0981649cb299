"""Both towers of Hugging Face folders: embeddings and logits of transformers 5.23.0 with torch 2.13.0."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from tests.convert.conftest import VIT_SIZES, edit_json, embed_labels, embedded
from tests.make import models
from tests.make.command import xmcap
from xmcap.data import features, images
from xmcap.families.dual import text_input
from xmcap.models import model_json

KINDS = ("CLIP", "Siglip", "AltCLIP")
PREPROCESSOR = "preprocessor_config.json"
TEXT = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2)
SIZES = {
  "CLIP": TEXT | dict(vocab_size=50, max_position_embeddings=9, eos_token_id=49, bos_token_id=48),
  "Siglip": TEXT | dict(vocab_size=50, max_position_embeddings=9, projection_size=16),
  "AltCLIP": TEXT | dict(vocab_size=50, max_position_embeddings=11, project_dim=12, pad_token_id=1),
}


@models.once
def write_dual(folder, kind, seed=0, embed=20, **text):
  """A small model of two towers with random weights, all of them larger than a fresh one's; returns it."""
  torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
  torch.manual_seed(seed)
  vision = VIT_SIZES | (dict(hidden_act="gelu") if kind == "AltCLIP" else {})
  extra = {} if kind == "Siglip" else dict(projection_dim=embed)
  config = getattr(transformers, f"{kind}Config")(
    text_config=SIZES[kind] | text, vision_config=vision, **extra
  )
  model = getattr(transformers, f"{kind}Model")(config).eval()
  for name, p in model.named_parameters():
    if not name.startswith("logit"):
      p.data = torch.randn_like(p) * 0.2 + (
        1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0
      )
  model.save_pretrained(folder)
  return model


def converted(tmp_path):
  xmcap("convert", f"--input={tmp_path / 'theirs'}", f"--out={tmp_path / 'ours'}", "--part=dual").succeeded()
  return tmp_path / "ours"


def texts_of(kind, rng):
  """Texts of several lengths, as each model's tokenizer would give them."""
  found = []
  for length in (3, 5, 7, 9):
    ids = rng.integers(3, 47, length).tolist()
    if kind == "CLIP":
      ids = [48, *ids[2:], 49]
    elif kind == "AltCLIP":
      ids = [0, *ids[2:], 2]
    else:
      ids = [*ids[1:], *[1] * (10 - length)]
    found.append(ids)
  return found


@pytest.mark.parametrize("kind", KINDS)
def test_dual_embeddings_and_logits_equal_transformers(tmp_path, convert, kind):
  torch = pytest.importorskip("torch")
  theirs = write_dual(tmp_path / "theirs", kind)
  folder, rng = convert(tmp_path / "theirs", "--part=dual"), np.random.default_rng(0)
  pixels, texts = rng.integers(0, 256, (3, 12, 12, 3)).astype(np.uint8), texts_of(kind, rng)
  filled = np.full((len(texts), 9), 1)
  for row, ids in zip(filled, texts, strict=True):
    row[: len(ids)] = ids
  vit = model_json.read(folder / "model.json").config("vit")
  normal = (pixels / 255 - vit.image_mean) / vit.image_std
  mask = {} if kind == "Siglip" else {"attention_mask": torch.tensor(filled != 1)}
  with torch.no_grad():
    out = theirs(
      input_ids=torch.tensor(filled), pixel_values=torch.tensor(normal.transpose(0, 3, 1, 2), dtype=torch.float32),
      **mask,
    )  # fmt: skip
  image, text, logits = embedded(folder, pixels, filled)
  np.testing.assert_allclose(image, out.image_embeds, atol=1e-4)
  np.testing.assert_allclose(text, out.text_embeds, atol=1e-4)
  np.testing.assert_allclose(logits, out.logits_per_text, atol=1e-3)


@pytest.mark.parametrize("kind", ["CLIP", "Siglip"])
def test_dual_features_equal_transformers_pooled_output(tmp_path, kind):
  torch = pytest.importorskip("torch")
  theirs = write_dual(tmp_path / "theirs", kind)
  folder, rng = converted(tmp_path), np.random.default_rng(0)
  Image.fromarray(rng.integers(0, 256, (14, 20, 3)).astype(np.uint8)).save(tmp_path / "a.png")
  out = tmp_path / "f.safetensors"
  xmcap("features", f"--model_dir={folder}", f"--out={out}", "--crops=10", tmp_path / "a.png").succeeded()
  crops = images.ten_crops((tmp_path / "a.png").read_bytes(), "a", 12, bicubic=True)
  vit = model_json.read(folder / "model.json").config("vit")
  normal = ((crops / 255 - vit.image_mean) / vit.image_std).transpose(0, 3, 1, 2)
  with torch.no_grad():
    pooled = theirs.vision_model(pixel_values=torch.tensor(normal, dtype=torch.float32)).pooler_output
  np.testing.assert_allclose(features.read(out).vectors[0], pooled.mean(0), atol=1e-4)


def test_clip_config_with_eos_token_id_2_pools_at_the_highest_id(tmp_path):
  """eos_token_id 2, sizes as pairs, no projection_dim, and rows that pad the vocabulary: transformers' numbers."""
  torch = pytest.importorskip("torch")
  theirs = write_dual(tmp_path / "theirs", "CLIP", vocab_size=64, embed=512)
  path = tmp_path / "theirs" / "config.json"
  content = json.loads(path.read_text())
  del content["projection_dim"]
  content["text_config_dict"] = content["text_config"] | {"eos_token_id": 2}
  content["vision_config_dict"] = {"image_size": [12, 12], "patch_size": {"height": 4, "width": 4}}
  path.write_text(json.dumps(content))
  folder = converted(tmp_path)
  texts = np.array([[48, 5, 9, 49, 0, 0], [48, 2, 49, 0, 0, 0]])
  _, found, _ = embedded(folder, np.zeros((1, 12, 12, 3), np.uint8), texts)
  theirs.text_model.eos_token_id = 2
  with torch.no_grad():
    wanted = theirs.get_text_features(torch.tensor(texts))
  wanted = getattr(wanted, "pooler_output", wanted).numpy()
  np.testing.assert_allclose(found, wanted / np.linalg.norm(wanted, axis=1, keepdims=True), atol=1e-4)
  assert model_json.read(folder / "model.json").config("text").pool == "highest"


@pytest.mark.parametrize(
  "kind, change, message",
  [
    *(
      ("CLIP", {"vision_config": {"image_size": value}}, "image_size is")
      for value in ([12, 16], [12, 12, 12], {"height": 12, "width": 16})
    ),
    ("CLIP", {"model_type": "clip_vision_model", "architectures": ["CLIPVisionModel"]},
     "no model of two towers: give CLIPModel, SiglipModel, AltCLIPModel"),
    ("Siglip", {"text_config": {"hidden_size": "many"}}, "config.json"),
    ("Siglip", {"text_config": {"projection_size": 7}}, "config.json"),
    ("Siglip", {"text_config": {"hidden_act": "swish"}}, "config.json"),
    ("Siglip", {"text_config": {"vocab_size": 51}}, "token_embedding"),
  ],
)  # fmt: skip
def test_dual_unsupported_config_json_is_refused(tmp_path, convert, kind, change, message):
  write_dual(tmp_path / "theirs", kind)
  edit_json(tmp_path / "theirs" / "config.json", **change)
  assert message in convert(tmp_path / "theirs", "--part=dual", code=2)


@pytest.mark.parametrize(
  "fields, resize, file",
  [
    ({"size": 12, "crop_size": 12}, "bicubic_crop", PREPROCESSOR),  # of 2021
    (
      {"size": {"shortest_edge": 12}, "crop_size": {"height": 12, "width": 12}, "resample": 2},
      "bilinear_crop", "processor_config.json",
    ),
    # MetaCLIP 2's
    ({"size": {"height": 12, "width": 12}, "crop_size": {"height": 12, "width": 12}}, "bicubic", PREPROCESSOR),
    ({"size": {"height": 12, "width": 12}, "do_center_crop": False, "resample": 2}, "bilinear_square", PREPROCESSOR),
  ],
)  # fmt: skip
def test_image_resize_follows_the_processor_config(tmp_path, fields, resize, file):
  write_dual(tmp_path / "theirs", "CLIP")
  inside = {"image_processor": fields} if file == "processor_config.json" else fields
  (tmp_path / "theirs" / file).write_text(json.dumps(inside))
  assert model_json.read(converted(tmp_path) / "model.json").config("dual").resize == resize


# ---- from a folder of transformers to scores -------------------------------------------------------


NAMES = [
  "a photo of a Cat", "pattes d'éléphant", "Straße, größer!", "кошка (животное)", "猫の顔", "고양이 얼굴", "แมวหน้า",
  "وجه قطة", "פני חתול", "बिल्ली का चेहरा", "it's 12,000 o'clock", "ﬁne  spaces\tand\nlines", "Ångström İstanbul",
  "emoji 🐱‍👤 here", "q" * 200,
]  # fmt: skip
"""Of many scripts, with what tokenizers treat in their own ways."""


def clip_tokenizer(folder):
  """CLIP's tokenizer over a small vocabulary of bytes and merges."""
  transformers = pytest.importorskip("transformers")
  from tokenizers import pre_tokenizers

  letters = sorted(pre_tokenizers.ByteLevel.alphabet())
  pieces = [*letters, *(f"{letter}</w>" for letter in letters)]
  merges = [("c", "a"), ("ca", "t</w>"), ("p", "h"), ("ph", "o"), ("o", "f</w>"), ("x", "x"), ("xx", "xx")]
  pieces += ["".join(pair) for pair in merges] + ["<|startoftext|>", "<|endoftext|>"]
  vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
  tokenizer = transformers.CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=77)
  tokenizer.save_pretrained(folder)
  return tokenizer


def siglip_tokenizer(folder):
  transformers, sentencepiece = pytest.importorskip("transformers"), pytest.importorskip("sentencepiece")
  pytest.importorskip("google.protobuf")
  folder.mkdir(parents=True, exist_ok=True)
  sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter([name.lower() for name in NAMES] * 3), model_prefix=str(folder / "spiece"), vocab_size=150,
    hard_vocab_limit=False, byte_fallback=False, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, character_coverage=1.0,
    minloglevel=2,
  )  # fmt: skip
  (folder / "spiece.vocab").unlink()
  return transformers.SiglipTokenizer(str(folder / "spiece.model"))


@pytest.mark.parametrize("name", ["tokenizer.json", "spiece.model"])
def test_damaged_tokenizer_is_refused(tmp_path, name):
  (tmp_path / name).write_bytes(b"{")
  with pytest.raises(text_input.UsageError, match=f"{name}: .*fetch it again"):
    if name == "tokenizer.json":
      text_input.TokenizerJson(tmp_path / name, 77, 0)
    else:
      text_input.SiglipPieces(tmp_path / name, 16)


@pytest.mark.parametrize(
  "kind, size", [("CLIP", (64, 40)), ("CLIP", (31, 90)), ("Siglip", (64, 40)), ("Siglip", (9, 9))]
)
def test_image_pixels_equal_transformers_processor(tmp_path, kind, size):
  transformers = pytest.importorskip("transformers")
  module = pytest.importorskip(f"transformers.models.{kind.lower()}.image_processing_pil_{kind.lower()}")
  make = getattr(module, f"{kind}ImageProcessorPil")
  crop = {"size": {"shortest_edge": 24}, "crop_size": {"height": 24, "width": 24}}
  sizes = crop if kind == "CLIP" else {"size": {"height": 24, "width": 24}}
  processor = make(**sizes, do_normalize=False, do_rescale=False, resample=3)
  assert transformers
  picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8))
  picture.save(tmp_path / "a.png")
  wanted = np.asarray(processor(picture, return_tensors="np")["pixel_values"][0]).transpose(1, 2, 0)
  found = images.load_exactly((tmp_path / "a.png").read_bytes(), "a", 24, crop=kind == "CLIP")
  np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", ["CLIP", "Siglip"])
def test_converted_dual_model_embeds_files(tmp_path, kind):
  tokenizer = {"CLIP": clip_tokenizer, "Siglip": siglip_tokenizer}[kind](tmp_path / "tokenizer")
  ends = dict(eos_token_id=tokenizer.eos_token_id) if kind == "CLIP" else {}
  theirs = write_dual(
    tmp_path / "theirs", kind, vocab_size=len(tokenizer), max_position_embeddings=16, **ends
  )
  for name in ("tokenizer.json", "spiece.model"):
    if (tmp_path / "tokenizer" / name).exists():
      shutil.copy(tmp_path / "tokenizer" / name, tmp_path / "theirs" / name)
  folder = converted(tmp_path)
  Image.new("RGB", (30, 20), "red").save(tmp_path / "red.png")
  labels = {"EN": [list(range(len(NAMES))), NAMES]}
  embed_labels(folder, tmp_path / "out", labels, f"--images={tmp_path / 'red.png'}").succeeded()
  padding = dict(padding="max_length" if kind == "Siglip" else True, truncation=True, max_length=16)
  given = tokenizer(NAMES, return_tensors="pt", **padding)
  features = theirs.get_text_features(**{name: given[name] for name in ("input_ids",)})
  wanted = getattr(features, "pooler_output", features).detach().numpy()
  wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
  np.testing.assert_allclose(np.load(tmp_path / "out" / "labels" / "en.npy"), wanted, atol=1e-4)
  assert np.load(tmp_path / "out" / "pictures.npy").shape == (1, wanted.shape[1])


def test_dual_model_without_tokenizer_names_the_files(tmp_path, convert):
  write_dual(tmp_path / "theirs", "CLIP")
  folder = convert(tmp_path / "theirs", "--part=dual")
  assert "put its tokenizer.json" in convert.printed
  result = embed_labels(folder, tmp_path / "out", {"EN": [[0, 1], ["cat", "dog"]]})
  result.refused("no tokenizer of its text tower: put one of these files there")
