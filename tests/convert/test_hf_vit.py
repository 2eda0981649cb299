"""Vision towers from and to Hugging Face folders: features of transformers 5.23.0 with torch 2.13.0."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.convert.conftest import (
  VIT_SIZES,
  config_of,
  edit_json,
  params_of,
  same_trees,
  vit_features,
  write_tower,
)
from xmcap.convert import hf_vit
from xmcap.models.vit import ViT, ViTConfig

IMAGES = np.random.RandomState(0).randint(0, 256, (3, 12, 12, 3)).astype(np.uint8)
FIELDS = {"ViT": "last_hidden_state", "CLIP": "pooler_output", "Siglip": "pooler_output"}


def their_features(folder, kind, images=IMAGES, field=None):
  """The vector of the class token (ViT), or the pooled one, of pictures normalised as the class does it."""
  import torch
  import transformers

  model_class = getattr(transformers, "ViTModel" if kind == "ViT" else f"{kind}VisionModel")
  model = model_class.from_pretrained(folder, dtype=torch.float32).eval()
  mean, std = (hf_vit.CLIP_MEAN, hf_vit.CLIP_STD) if kind == "CLIP" else ((0.5,) * 3, (0.5,) * 3)
  pixels = (images.astype(np.float64) / 255 - mean) / std
  with torch.no_grad():
    output = model(pixel_values=torch.tensor(pixels.transpose(0, 3, 1, 2), dtype=torch.float32))
  features = getattr(output, field or FIELDS[kind]).numpy()
  return features[:, 0] if kind == "ViT" and field is None else features


@pytest.mark.parametrize(
  "kind, sizes",
  [
    pytest.param("ViT", {}, marks=pytest.mark.full),
    ("ViT", {"num_attention_heads": 4, "layer_norm_eps": 1e-3, "hidden_act": "gelu_new"}),
    pytest.param("CLIP", {}, marks=pytest.mark.full),
    ("CLIP", {"hidden_act": "gelu", "layer_norm_eps": 1e-3, "num_hidden_layers": 3}),
    pytest.param("Siglip", {}, marks=pytest.mark.full),
    ("Siglip", {"num_attention_heads": 4, "intermediate_size": 40, "patch_size": 3}),
    # As So400m/14 of 384: its last pixels fill no patch.
    ("Siglip", {"image_size": 14}),
    ("CLIP", {"image_size": 15}),
  ],
)
def test_vision_tower_features_equal_transformers(tmp_path, convert, kind, sizes):
  source = write_tower(tmp_path / "tower", kind, **sizes)
  side = sizes.get("image_size", 12)
  pictures = np.random.RandomState(0).randint(0, 256, (3, side, side, 3)).astype(np.uint8)
  np.testing.assert_allclose(
    vit_features(convert(source), pictures)[:, 0], their_features(source, kind, pictures), rtol=0, atol=1e-4
  )


@pytest.mark.parametrize("kind", ["CLIP", "Siglip"])
def test_vision_tower_of_a_dual_model_is_converted(tmp_path, convert, kind):
  source = write_tower(tmp_path / "whole", kind, whole=True)
  ours = vit_features(convert(source), IMAGES)[:, 0]
  assert "text_model.embeddings.position_embedding.weight, " in convert.printed
  assert "not taken: logit_" in convert.printed
  np.testing.assert_allclose(ours, their_features(source, kind), rtol=0, atol=1e-4)


def test_clip_vision_names_with_older_prefix(tmp_path, convert):
  source = write_tower(tmp_path / "tower", "CLIP")
  expected = params_of(convert(source))
  tensors = load_file(source / "model.safetensors")
  tensors = {f"vision_model.{name}": tensor for name, tensor in tensors.items()}
  tensors["vision_model.embeddings.position_ids"] = np.arange(10)[None]
  save_file(tensors, source / "model.safetensors")
  same_trees(params_of(convert(source)), expected)


def test_clip_config_json_with_differences_only(tmp_path, convert):
  """As transformers 4 writes them, for instance of a CLIPModel."""
  source = write_tower(tmp_path / "whole", "CLIP", whole=True)
  config = {"architectures": ["CLIPModel"], "model_type": "clip", "vision_config": dict(VIT_SIZES)}
  (source / "config.json").write_text(json.dumps(config))
  assert config_of(convert(source), ViTConfig).activation == "quick_gelu"


@pytest.mark.parametrize("family", hf_vit.FAMILIES, ids=lambda family: family.model)
def test_vision_config_defaults_equal_transformers(family):
  transformers = pytest.importorskip("transformers")
  theirs = getattr(transformers, family.model.replace("Model", "Config"))()
  defaults = {k: v for k, v in family.defaults.items() if k != "vision_use_head"}
  assert {name: getattr(theirs, name) for name in defaults} == defaults


def test_image_mean_and_std_from_processor_or_model_class(tmp_path, convert):
  source = write_tower(tmp_path / "tower", "CLIP")
  assert config_of(convert(source), ViTConfig).image_mean == hf_vit.CLIP_MEAN
  assert "no preprocessor_config.json" in convert.printed
  (source / "preprocessor_config.json").write_text(
    '{"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]}'
  )
  config = config_of(convert(source), ViTConfig)
  assert (config.image_mean, config.image_std) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))


@pytest.mark.parametrize(
  "fields",
  [
    {},
    {"do_normalize": False},
    {"do_rescale": False},
    {"do_rescale": False, "do_normalize": False},
    {"rescale_factor": 1 / 127.5, "image_mean": [1.0, 1.0, 1.0], "image_std": [1.0, 1.0, 1.0]},
    {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "resample": 3},
    {"do_resize": None, "do_normalize": None, "size": {"height": 12, "width": 12}},
  ],
)
def test_pixels_are_normalized_as_the_processor_does(tmp_path, convert, fields):
  """By the processor of transformers in numpy and Pillow."""
  module = pytest.importorskip("transformers.models.vit.image_processing_pil_vit")
  said = {name: value for name, value in fields.items() if value is not None}
  processor = module.ViTImageProcessorPil(**{"size": {"height": 12, "width": 12}} | said)
  source = write_tower(tmp_path / "tower", "ViT")
  content = {"image_processor_type": "ViTImageProcessor", "size": {"height": 12, "width": 12}, **fields}
  (source / "preprocessor_config.json").write_text(json.dumps(content))
  config = config_of(convert(source), ViTConfig)
  theirs = np.asarray(processor(list(IMAGES), return_tensors="np")["pixel_values"]).transpose(0, 2, 3, 1)
  np.testing.assert_allclose(ViT(config).normalize(IMAGES), theirs, rtol=1e-5, atol=1e-5)
  how = (
    "pictures are stretched to 12 x 12 by a bilinear filter, not as its processor does: size {'height': 12"
  )
  assert (how in convert.printed) == ("resample" in fields)


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({"size": {"height": 24, "width": 24}}, "pictures of 24 x 24, and config.json has image_size 12: fetch both again"),
    ({"size": [24, 24]}, "pictures of 24 x 24"),
    ({"size": 14, "crop_size": 24, "do_center_crop": True}, "pictures of 24 x 24"),
    ({"do_flip_channel_order": True}, "do_flip_channel_order: a step that xmcap does not have"),
    ({"crop_pct": 0.9}, "crop_pct: a step that xmcap does not have"),
    ({"rescale_offset": True}, "rescale_offset: a step"),
    ({"do_rescale": "no"}, "do_rescale is 'no': give true or false"),
    ({"do_resize": False}, "do_resize is false: xmcap always does it"),
    ({"rescale_factor": -1}, "rescale_factor is -1: give a number above 0"),
    ({"image_mean": [0.5, 0.5]}, "image_mean"),
    ({"image_processor_type": "ConvNextImageProcessor"}, "ConvNextImageProcessor without image_mean or image_std: add"),
  ],
)  # fmt: skip
def test_processors_of_other_pixels_are_refused(tmp_path, convert, fields, message):
  source = write_tower(tmp_path / "tower", "ViT")
  (source / "preprocessor_config.json").write_text(json.dumps(fields))
  line = convert(source, code=2)
  assert message in line and str(source) in line


def test_siglip_without_head(tmp_path, convert):
  source = write_tower(tmp_path / "tower", "Siglip", vision_use_head=False)
  expected = their_features(source, "Siglip", field="last_hidden_state")
  np.testing.assert_allclose(vit_features(convert(source), IMAGES), expected, rtol=0, atol=1e-4)


def test_siglip_with_pool_gap_drops_the_map_head(tmp_path, convert):
  source = write_tower(tmp_path / "tower", "Siglip")
  out = convert(source, "--pool=gap")
  assert "not taken: head.attention.in_proj_bias" in convert.printed
  expected = their_features(source, "Siglip", field="last_hidden_state").mean(1)
  np.testing.assert_allclose(vit_features(out, IMAGES)[:, 0], expected, rtol=0, atol=1e-4)


def test_vit_with_class_token_and_another_pool(tmp_path, convert):
  source = write_tower(tmp_path / "tower", "ViT")
  out = convert(source, "--pool=map")
  assert "not taken: embeddings.cls_token: the class token" in convert.printed
  assert "not there: vit/map_head/" in convert.printed
  position = load_file(source / "model.safetensors")["embeddings.position_embeddings"][0]
  np.testing.assert_array_equal(params_of(out)["vit"]["position_embedding"], position[1:])
  assert "tok" in convert(write_tower(tmp_path / "siglip", "Siglip"), "--pool=tok", code=2)


def test_clip_bfloat16_class_token_and_position_sum_is_exact(tmp_path, convert):
  torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
  model = transformers.CLIPVisionModel.from_pretrained(write_tower(tmp_path / "tower", "CLIP"))
  model.to(torch.bfloat16).save_pretrained(tmp_path / "bf16")
  out = convert(tmp_path / "bf16")
  np.testing.assert_allclose(
    vit_features(out, IMAGES)[:, 0], their_features(tmp_path / "bf16", "CLIP"), rtol=0, atol=1e-4
  )
  held = load_file(tmp_path / "bf16/model.safetensors")
  expected = held["embeddings.class_embedding"].astype(np.float32) + held[
    "embeddings.position_embedding.weight"
  ][0].astype(np.float32)
  np.testing.assert_array_equal(params_of(out)["vit"]["class_token"], expected)


@pytest.mark.parametrize("kind", ["ViT", "CLIP", "Siglip"])
def test_vision_tower_round_trip(tmp_path, convert, kind):
  source = write_tower(tmp_path / "tower", kind)
  ours = convert(source)
  theirs = convert(ours, "--to=hf")
  np.testing.assert_allclose(their_features(theirs, kind), their_features(source, kind), rtol=0, atol=1e-5)
  back = convert(theirs)
  assert (back / "params.safetensors").read_bytes() == (ours / "params.safetensors").read_bytes()
  assert (back / "model.json").read_text() == (ours / "model.json").read_text()


@pytest.mark.parametrize(
  "kind, change, message",
  [
    ("CLIP", {"hidden_act": "silu"}, "hidden_act is 'silu'; xmcap has gelu,"),
    ("CLIP", {"image_size": [12, 24]}, "image_size is [12, 24]"),
    ("CLIP", {"image_size": 16}, "position_embedding.weight has shape (10, 16), and config.json asks for (17, 16)"),
    ("CLIP", {"num_attention_heads": 3}, "width 16 is not divisible by num_heads 3"),
    ("ViT", {"qkv_bias": False}, "qkv_bias False"),
    ("ViT", {"architectures": ["DeiTModel"], "model_type": "deit"}, "DeiTModel is not among what xmcap converts"),
    ("ViT", {"architectures": ["CLIPVisionModel"], "model_type": "clip"}, "no tensor embeddings.patch_embedding."),
  ],
)  # fmt: skip
def test_vision_unsupported_variants_and_sizes_are_refused(tmp_path, convert, kind, change, message):
  source = write_tower(tmp_path / "tower", kind)
  edit_json(source / "config.json", **change)
  assert message in convert(source, code=2)
