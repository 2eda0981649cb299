"""Small SigLIP 2 and MetaCLIP 2 folders as transformers 5 saves them: random weights, and real kinds of tokenizers."""

import json

import numpy as np
import pytest
from PIL import Image

from tests.make import models

TEXTS = [
  "a photo of a Cat", "A Dog, not a cat!", "it's 12,000 o'clock", "КОШКА (животное) и Σίσυφος", "猫の顔", "וְכֶלֶב",
  "वह बिल्ली है।", "snake_case  and\ttabs", "emoji 🐱 here", "q x " * 40,
]  # fmt: skip
_LETTERS = sorted(set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,'!?-()_▁кошаи猫の"))
USUAL, UNUSUAL = "usual", "unusual"
_TEXT = {
  USUAL: dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2),
  UNUSUAL: dict(hidden_size=12, intermediate_size=20, num_hidden_layers=3, num_attention_heads=3),
}
_VISION = {
  USUAL: dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=32,
              patch_size=8),
  # As So400m: an MLP of no round size, and another width than the texts'.
  UNUSUAL: dict(hidden_size=18, intermediate_size=23, num_hidden_layers=1, num_attention_heads=3, image_size=28,
                patch_size=7),
}  # fmt: skip


def _model(name, config):
  torch = pytest.importorskip("torch")
  transformers = pytest.importorskip("transformers")
  torch.manual_seed(0)
  model = getattr(transformers, name)(config).eval()
  for name, p in model.named_parameters():
    if not name.startswith("logit"):
      p.data = torch.randn_like(p) * 0.2 + (
        1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0
      )
  return model


def gemma(folder, processor=None):
  """Gemma's tokenizer as SigLIP 2 has it, over few pieces with bytes for others; saved by transformers itself."""
  transformers = pytest.importorskip("transformers")
  vocabulary = {"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3, "<mask>": 4}
  for piece in (*(f"<0x{byte:02X}>" for byte in range(256)), *_LETTERS):
    vocabulary[piece] = len(vocabulary)
  merges = [("c", "a"), ("ca", "t"), ("d", "o"), ("do", "g"), ("▁", "a"), ("▁a", "▁"), ("к", "о")]
  for pair in merges:
    vocabulary.setdefault("".join(pair), len(vocabulary))
  flags = dict(add_bos_token=False, add_eos_token=True, model_max_length=64, padding_side="right")
  tokenizer = transformers.Siglip2Tokenizer(vocab=vocabulary, merges=merges, **flags)
  (processor or tokenizer).save_pretrained(folder)
  return tokenizer


def xlm_v(folder):
  """XLM-V's kind of tokenizer: <s> 0, <pad> 1, </s> 2; pieces of whole words and letters."""
  transformers = pytest.importorskip("transformers")
  words = ["▁a", "▁photo", "▁of", "▁Cat", "▁cat", "▁Dog", "▁"]
  vocabulary = [(name, 0.0) for name in ("<s>", "<pad>", "</s>", "<unk>")]
  vocabulary += [(word, -2.0) for word in words] + [(letter, -5.0) for letter in _LETTERS if letter != "▁"]
  tokenizer = transformers.XLMRobertaTokenizer(vocab=[*vocabulary, ("<mask>", 0.0)], model_max_length=77)
  tokenizer.save_pretrained(folder)
  return tokenizer


def mt5(folder):
  """mT5's pieces by SiglipTokenizer, as MetaCLIP 2's mT5 models have them: </s> 1 ends a text, of 64 tokens at most."""
  transformers, sentencepiece = pytest.importorskip("transformers"), pytest.importorskip("sentencepiece")
  pytest.importorskip("google.protobuf")
  folder.mkdir(parents=True, exist_ok=True)
  sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter([text.lower() for text in TEXTS] * 3), model_prefix=str(folder / "spiece"), vocab_size=150,
    hard_vocab_limit=False, byte_fallback=False, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, character_coverage=1.0,
    minloglevel=2,
  )  # fmt: skip
  tokenizer = transformers.SiglipTokenizer(str(folder / "spiece.model"), model_max_length=12)
  (folder / "spiece.vocab").unlink()
  tokenizer.save_pretrained(folder)
  return tokenizer


@models.once
def siglip2(folder, shape=USUAL):
  """SigLIP 2 of fixed resolution with its tokenizer and processor; returns both models' model and tokenizer."""
  transformers = pytest.importorskip("transformers")
  tokenizer = gemma(folder)
  vision, text = _VISION[shape], _TEXT[shape]
  length = dict(vocab_size=len(tokenizer), max_position_embeddings=64, projection_size=vision["hidden_size"])
  config = transformers.SiglipConfig(text_config=text | length, vision_config=vision)
  model = _model("SiglipModel", config)
  model.save_pretrained(folder)
  processor = siglip_pictures(shape)
  if shape == USUAL:
    processor.save_pretrained(folder)
  else:  # processor_config.json instead of preprocessor_config.json; pairs, which transformers itself cannot build
    content = json.loads((folder / "config.json").read_text())
    content["vision_config"] |= {"image_size": [28, 28], "patch_size": [7, 7]}
    (folder / "config.json").write_text(json.dumps(content))
    transformers.SiglipProcessor(image_processor=processor, tokenizer=tokenizer).save_pretrained(folder)
  return model, tokenizer


def siglip_pictures(shape):
  """SigLIP 2's image processor, which is bilinear."""
  module = pytest.importorskip("transformers.models.siglip.image_processing_pil_siglip")
  side = 32 if shape == USUAL else 28
  return module.SiglipImageProcessorPil(size=dict(height=side, width=side), resample=2)


@models.once
def metaclip2(folder, shape=USUAL):
  """MetaCLIP 2: XLM-V's tokenizer and end 2, or mT5's and end 1."""
  transformers = pytest.importorskip("transformers")
  tokenizer = xlm_v(folder) if shape == USUAL else mt5(folder)
  act = dict(hidden_act="quick_gelu" if shape == USUAL else "gelu")
  text = dict(vocab_size=len(tokenizer), max_position_embeddings=16, eos_token_id=tokenizer.eos_token_id)
  text |= dict(bos_token_id=None, pad_token_id=None)
  config = transformers.MetaClip2Config(
    text_config=_TEXT[shape] | act | text, vision_config=_VISION[USUAL] | act, projection_dim=20
  )
  model = _model("MetaClip2Model", config)
  model.save_pretrained(folder)
  clip_pictures().save_pretrained(folder)
  if shape != USUAL:  # so some published files spell it
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(content | {"architectures": ["MetaCLIP2Model"]}))
  return model, tokenizer


def clip_pictures():
  """MetaCLIP 2's image processor."""
  module = pytest.importorskip("transformers.models.clip.image_processing_pil_clip")
  return module.CLIPImageProcessorPil(size=dict(shortest_edge=32), crop_size=dict(height=32, width=32))


def pictures(folder, count=6):
  """Writes noise of several sizes as PNG; returns the pictures."""
  folder.mkdir()
  rng, found = np.random.default_rng(0), []
  for number in range(count):
    found.append(Image.fromarray(rng.integers(0, 256, (40 + 7 * number, 61, 3), dtype=np.uint8)))
    found[-1].save(folder / f"p{number}.png")
  return found


def their_embeddings(model, tokenizer, processor, images, texts):
  """Unit embeddings of transformers: pictures and texts."""
  torch = pytest.importorskip("torch")
  kind = type(model).__name__
  most = model.config.text_config.max_position_embeddings
  most = min(most, tokenizer.model_max_length)
  padding = "max_length" if kind == "SiglipModel" else True
  given = tokenizer(texts, padding=padding, truncation=True, max_length=most, return_tensors="pt")
  pixels = processor(images, return_tensors="pt")["pixel_values"]
  mask = {} if kind == "SiglipModel" else {"attention_mask": given["attention_mask"]}
  with torch.no_grad():
    out = model(input_ids=given["input_ids"], pixel_values=pixels, **mask)
  return out.image_embeds.numpy(), out.text_embeds.numpy()
