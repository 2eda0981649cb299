"""Both towers of OpenCLIP's folders: open_clip_torch 3.3.0 with timm 1.0.31, transformers 5.23.0, torch 2.13.0."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from tests.convert import multilingual_towers, open_clip_models
from tests.convert.conftest import edit_json, embed_labels, embedded
from tests.make import files
from xmcap.data import images
from xmcap.families.dual import text_input
from xmcap.models import model_json

# Of the weights, pictures and texts of open_clip_models, by CLIP and CustomTextCLIP: the first three numbers of each
# picture's and text's embedding, and the logits of each text (row) with each picture.
GOLDEN = {
  "clip": (
    [[-0.01052, -0.05417, -0.06793], [-0.33778, 0.16752, 0.14262]],
    [[0.16395, 0.32454, 0.02747], [0.32956, 0.00586, 0.14915], [0.45799, 0.00477, -0.0271]],
    [[-0.9937, 1.21635], [-0.35, 0.04497], [-0.86495, 0.96312]],
  ),
  "quick": (
    [[-0.00996, -0.05458, -0.06744], [-0.34101, 0.16735, 0.14551]],
    [[0.16347, 0.32618, 0.0261], [0.32849, 0.0055, 0.14997], [0.45662, 0.00389, -0.02965]],
    [[-0.99972, 1.22545], [-0.34206, 0.05315], [-0.8669, 0.95826]],
  ),
  "xlm_roberta": (
    [[-0.01052, -0.05417, -0.06793], [-0.33778, 0.16752, 0.14262]],
    [[0.00547, -0.00684, 0.112], [-0.17607, -0.12876, 0.00907], [0.10311, 0.01793, 0.0256]],
    [[-0.42009, 0.67501], [-0.41736, 0.30465], [-0.99266, 0.00544]],
  ),
  "nllb": (
    [[-0.05104, -0.01825, 0.15756], [-0.04556, 0.11385, 0.06431]],
    [[-0.00673, 0.1076, -0.03964], [0.08349, -0.0594, 0.00571], [0.10598, -0.03927, 0.11987]],
    [[-2.78303, -2.44489], [-2.4858, -2.23317], [-2.4824, -2.14464]],
  ),
  "siglip_i18n": (
    [[-0.05104, -0.01825, 0.15756], [-0.04556, 0.11385, 0.06431]],
    [[0.01991, -0.08967, 0.08609], [-0.02221, -0.03334, 0.06869], [-0.00251, 0.02157, 0.03685]],
    [[-2.43701, -2.3629], [-2.8801, -3.03438], [-2.82197, -2.95809]],
  ),
}
# The red channel of a random picture of 8 x 14 pixels at 4 x 4, by image_transform_v2 (torchvision 0.28.0).
PIXELS = {
  "shortest": [[147, 139, 73, 121], [142, 90, 132, 156], [133, 135, 102, 119], [126, 159, 157, 84]],
  "squash": [[122, 145, 99, 122], [153, 128, 124, 153], [121, 140, 114, 98], [127, 138, 147, 66]],
}


TIMM = open_clip_models.model_config("siglip_i18n")["vision_cfg"]


@pytest.mark.parametrize("kind", open_clip_models.KINDS)
def test_open_clip_embeddings_and_logits_equal_open_clip_torch(tmp_path, convert, kind):
  folder = convert(open_clip_models.write(tmp_path / "theirs", kind), "--part=dual")
  image, text, logits = embedded(folder, open_clip_models.images(), open_clip_models.TEXTS)
  of_images, of_texts, of_both = GOLDEN[kind]
  np.testing.assert_allclose(image[:, :3], of_images, atol=1e-4)
  np.testing.assert_allclose(text[:, :3], of_texts, atol=1e-4)
  np.testing.assert_allclose(logits, of_both, atol=1e-4)


def test_open_clip_so400m_sees_the_pixels_of_whole_patches(tmp_path, convert):
  """As ViT-SO400M-14-SigLIP-384, whose 384 pixels are 27 patches of 14 and 6 more."""
  source = open_clip_models.write(tmp_path / "theirs", "siglip_i18n")
  edit_json(source / "open_clip_config.json", model_cfg={"vision_cfg": {**TIMM, "image_size": 14}})
  pictures = np.random.default_rng(1).integers(0, 256, (2, 14, 14, 3)).astype(np.uint8)
  image, _, _ = embedded(convert(source, "--part=dual"), pictures, open_clip_models.TEXTS)
  np.testing.assert_allclose(
    image[:, :3], [[-0.05757, 0.02422, 0.05035], [0.02815, 0.0269, 0.10344]], atol=1e-4
  )


@pytest.mark.parametrize("mode", PIXELS)
def test_open_clip_image_pixels_equal_open_clip_torch(mode):
  picture = np.random.default_rng(0).integers(0, 256, (8, 14, 3), dtype=np.uint8)
  file = io.BytesIO()
  Image.fromarray(picture).save(file, "png")
  found = images.load_exactly(file.getvalue(), "a", 4, crop=mode == "shortest", even=True)
  np.testing.assert_array_equal(found[..., 0], PIXELS[mode])


def test_open_clip_jpeg_is_decoded_at_full_size():
  """Nothing of it is left to the decoder, which could halve it."""
  picture = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
  file = io.BytesIO()
  Image.fromarray(picture).save(file, "jpeg")
  whole = Image.open(file).resize((4, 4), Image.Resampling.BICUBIC)
  np.testing.assert_array_equal(images.load_exactly(file.getvalue(), "a", 4, crop=False), whole)


def test_open_clip_preprocess_cfg_is_recorded(tmp_path, convert):
  folder = convert(open_clip_models.write(tmp_path / "theirs", "siglip_i18n"), "--part=dual")
  model = model_json.read(folder / "model.json")
  assert model.config("dual").resize == "bicubic" and model.config("vit").image_mean == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("clean, name", [("canonicalize", "canonical"), ("lower", "lower"), (None, "none")])
def test_open_clip_siglip2_text_cleaning_and_padding(tmp_path, convert, clean, name):
  source = open_clip_models.write(tmp_path / "theirs", "siglip_i18n")
  multilingual_towers.gemma(source)
  content = json.loads((source / "open_clip_config.json").read_text())
  content["model_cfg"]["text_cfg"]["tokenizer_kwargs"] = {"clean": clean} if clean else {}
  content["preprocess_cfg"]["interpolation"] = "bilinear"
  files.json(source / "open_clip_config.json", content)
  model = model_json.read(convert(source, "--part=dual") / "model.json")
  text = model.config("text")
  assert (text.cleaning, text.pad_id, text.end_id) == (name, 0, 1)
  assert model.config("dual").resize == "bilinear_square"


def test_open_clip_folder_with_both_config_files(tmp_path, convert):
  source = open_clip_models.write(tmp_path / "theirs", "clip")
  files.json(source / "config.json", {})
  convert(source, "--part=dual", code=2)
  convert(source, "--part=dual", "--from=open_clip")


@pytest.mark.parametrize(
  "part, change, message",
  [
    (
      "vision_cfg",
      {"attentional_pool": True},
      "vision_cfg: attentional_pool True: a variant that xmcap does not have",
    ),
    ("vision_cfg", {"layers": [3, 4, 6, 3]}, "a ResNet"),
    ("vision_cfg", {"timm_model_name": "convnext_base"}, "of timm's towers xmcap has SigLIP's alone"),
    ("text_cfg", {"text_arch": "modern"}, "text_arch clip"),
    ("text_cfg", {"heads": "many"}, "text_cfg.heads"),
    ("text_cfg", {"hf_model_name": "roberta-base"}, "no text encoder that xmcap has"),
    ("text_cfg", {"embed_cls": True}, "embed_cls True: a variant"),
    (
      "text_cfg",
      {"tokenizer_kwargs": {"strip_sep_token": True}},
      "tokenizer_kwargs: strip_sep_token True: a variant",
    ),
    (
      "text_cfg",
      {"tokenizer_kwargs": {"clean": "whitespace_underscore"}},
      "clean 'whitespace_underscore': xmcap has",
    ),
  ],
)
def test_open_clip_unsupported_variants_are_refused(tmp_path, convert, part, change, message):
  source = open_clip_models.write(tmp_path / "theirs", "clip")
  config = json.loads((source / "open_clip_config.json").read_text())["model_cfg"]
  config[part] = ({} if "timm_model_name" in change or "hf_model_name" in change else config[part]) | change
  edit_json(source / "open_clip_config.json", model_cfg=config)
  assert message in convert(source, "--part=dual", code=2)


def test_open_clip_unsupported_resize_mode_is_refused(tmp_path, convert):
  source = open_clip_models.write(tmp_path / "theirs", "clip")
  edit_json(source / "open_clip_config.json", preprocess_cfg={"resize_mode": "longest"})
  assert "xmcap has shortest and squash, bicubic" in convert(source, "--part=dual", code=2)


def test_open_clip_without_part_dual_is_refused(tmp_path, convert):
  source = open_clip_models.write(tmp_path / "theirs", "clip")
  assert "a model of two towers: give --part=dual" in convert(source, code=2)


def test_open_clip_pickle_is_refused(tmp_path, convert):
  source = open_clip_models.write(tmp_path / "theirs", "clip")
  (source / "open_clip_model.safetensors").rename(source / "open_clip_pytorch_model.bin")
  assert "a pickle" in convert(source, "--part=dual", code=2)


def test_open_clip_nllb_texts_have_language_tokens(tmp_path, convert, monkeypatch):
  """Each language's names get a first token of their own, as NLLB's tokenizer gives them."""

  class First:
    fixed, added, pad_id, max_length = False, 0, 1, 6

    def encode_all(self, texts, language=""):
      return [[{"de": 20, "no": 30}[language], 7, 2] for _ in texts], 0

  monkeypatch.setattr(text_input, "of_folder", lambda *_: First())
  folder = convert(open_clip_models.write(tmp_path / "theirs", "nllb"), "--part=dual")
  labels = {"DE": [[0, 1], ["Hund", "Katze"]], "NO": [[0, 1], ["hund", "katt"]]}
  embed_labels(folder, tmp_path / "out", labels).succeeded()
  _, wanted, _ = embedded(folder, open_clip_models.images(), np.array([[20, 7, 2], [30, 7, 2]]))
  for code, row in (("de", 0), ("no", 1)):
    np.testing.assert_allclose(
      np.load(tmp_path / "out" / "labels" / f"{code}.npy")[0], wanted[row], atol=1e-5
    )
