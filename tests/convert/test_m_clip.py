"""Text towers of M-CLIP and sentence-transformers beside a CLIP: numbers of transformers 5.23.0 with torch 2.13.0.

M-CLIP and sentence-transformers add a mean over the tokens and a linear layer to an encoder of transformers.
"""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.convert.conftest import edit_json, embedded
from tests.convert.test_hf_dual import write_dual
from tests.make import models
from xmcap.models import model_json

WIDTH, EMBED, LENGTH = 64, 20, 7
KINDS = ("XLMRoberta", "Bert", "DistilBert")
SIZES = dict(
  vocab_size=50, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=1, intermediate_size=24,
  max_position_embeddings=12,
)  # fmt: skip
DISTILBERT = dict(vocab_size=50, dim=WIDTH, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=12)


def make_encoder(kind):
  """An encoder of transformers with random weights, and the id of its padding token."""
  torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
  torch.manual_seed(1)
  pad = 1 if kind == "XLMRoberta" else 0
  extra = dict(type_vocab_size=1) if kind == "XLMRoberta" else {}
  sizes = DISTILBERT if kind == "DistilBert" else SIZES | extra
  config = getattr(transformers, f"{kind}Config")(pad_token_id=pad, **sizes)
  model = getattr(transformers, f"{kind}Model")(config).eval()
  for name, p in model.named_parameters():
    p.data = torch.randn_like(p) * 0.2 + (1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0)
  return model, pad


def state(model, prefix=""):
  return {f"{prefix}{name}": p.numpy().copy() for name, p in model.state_dict().items()}


@models.once
def write_m_clip(folder, kind):
  model, pad = make_encoder(kind)
  folder.mkdir()
  rng = np.random.default_rng(2)
  kernel, bias = rng.normal(size=(EMBED, WIDTH)).astype(np.float32), rng.normal(size=EMBED).astype(np.float32)
  save_file(
    state(model, "transformer.") | {"LinearTransformation.weight": kernel, "LinearTransformation.bias": bias},
    folder / "model.safetensors",
  )
  (folder / "config.json").write_text(json.dumps({"model_type": "M-CLIP", "numDims": EMBED}))
  return model, pad, kernel, bias


@models.once
def write_sentence_transformer(folder, kind):
  model, pad = make_encoder(kind)
  model.save_pretrained(folder)
  kernel = np.random.default_rng(2).normal(size=(EMBED, WIDTH)).astype(np.float32)
  types = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense")]
  modules = [
    {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
    for n, (path, kind) in enumerate(types)
  ]
  (folder / "modules.json").write_text(json.dumps(modules))
  (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 9}))
  for name, config in (
    ("1_Pooling", {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}),
    ("2_Dense", {"bias": False, "activation_function": "torch.nn.modules.linear.Identity"}),
  ):
    (folder / name).mkdir()
    (folder / name / "config.json").write_text(json.dumps(config))
  save_file({"linear.weight": kernel}, folder / "2_Dense" / "model.safetensors")
  return model, pad, kernel, np.zeros(EMBED, np.float32)


@pytest.mark.parametrize(
  "write, kind",
  [(write_m_clip, "XLMRoberta"), (write_m_clip, "Bert"), (write_sentence_transformer, "DistilBert")],
  ids=["XLM-R", "BERT", "DistilBERT"],
)
def test_m_clip_embeddings_and_logits_equal_transformers(tmp_path, convert, write, kind):
  torch = pytest.importorskip("torch")
  clip = write_dual(tmp_path / "clip", "CLIP")
  encoder, pad, kernel, bias = write(tmp_path / "theirs", kind)
  folder = convert(tmp_path / "theirs", "--part=dual", f"--image_tower={tmp_path / 'clip'}")
  rng = np.random.default_rng(0)
  pixels, tokens = rng.integers(0, 256, (2, 12, 12, 3)).astype(np.uint8), rng.integers(3, 50, (3, LENGTH))
  tokens[1, 4:], tokens[2, 6:] = pad, pad
  model = model_json.read(folder / "model.json")
  image, text, logits = embedded(folder, pixels, tokens)
  vit = model.config("vit")
  normal = ((pixels / 255 - vit.image_mean) / vit.image_std).transpose(0, 3, 1, 2)
  present = torch.tensor(tokens != pad)
  with torch.no_grad():
    found = clip.get_image_features(torch.tensor(normal, dtype=torch.float32))
    wanted_image = getattr(found, "pooler_output", found)
    states = encoder(input_ids=torch.tensor(tokens), attention_mask=present.long()).last_hidden_state
    mean = (states * present[..., None]).sum(1) / present.sum(1, keepdim=True)
    wanted_text = mean @ torch.tensor(kernel).T + torch.tensor(bias)
    wanted_image, wanted_text = (torch.nn.functional.normalize(part) for part in (wanted_image, wanted_text))
    wanted = clip.logit_scale.exp() * wanted_text @ wanted_image.T
  np.testing.assert_allclose(image, wanted_image, atol=1e-4)
  np.testing.assert_allclose(text, wanted_text, atol=1e-4)
  np.testing.assert_allclose(logits, wanted, atol=1e-3)
  assert model.config("text").max_length == {"XLMRoberta": 10, "Bert": 12, "DistilBert": 9}[kind]
  assert "the text tower of --image_tower" in convert.printed


def test_m_clip_text_tower_needs_a_clip(tmp_path, convert):
  write_m_clip(tmp_path / "theirs", "Bert")
  message = convert(tmp_path / "theirs", "--part=dual", code=2)
  assert "a text tower alone: name the folder of its CLIP with --image_tower" in message


def test_m_clip_with_another_embedding_width_is_refused(tmp_path, convert):
  write_m_clip(tmp_path / "theirs", "Bert")
  write_dual(tmp_path / "siglip", "Siglip")
  message = convert(tmp_path / "theirs", "--part=dual", f"--image_tower={tmp_path / 'siglip'}", code=2)
  assert "its texts are 20 numbers wide" in message and "name the CLIP that it was taught by" in message


@pytest.mark.parametrize(
  "file, change, message",
  [
    (
      "1_Pooling/config.json",
      {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True},
      "mean_tokens alone",
    ),
    (
      "2_Dense/config.json",
      {"activation_function": "torch.nn.modules.activation.Tanh"},
      "an activation after",
    ),
    ("config.json", {"activation": "relu"}, "xmcap has gelu for these encoders"),
  ],
)
def test_m_clip_unsupported_variants_are_refused(tmp_path, convert, file, change, message):
  write_sentence_transformer(tmp_path / "theirs", "DistilBert")
  write_dual(tmp_path / "clip", "CLIP")
  edit_json(tmp_path / "theirs" / file, **change)
  assert message in convert(tmp_path / "theirs", "--part=dual", f"--image_tower={tmp_path / 'clip'}", code=2)


def test_sentence_transformers_module_outside_the_folder_is_refused(tmp_path, convert):
  write_sentence_transformer(tmp_path / "theirs", "DistilBert")
  write_dual(tmp_path / "clip", "CLIP")
  file = tmp_path / "theirs" / "modules.json"
  file.write_text(file.read_text().replace("2_Dense", "../clip"))
  message = convert(tmp_path / "theirs", "--part=dual", f"--image_tower={tmp_path / 'clip'}", code=2)
  assert "xmcap has Transformer, Pooling and Dense" in message
