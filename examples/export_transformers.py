"""Captions photo.jpg by what `xmcap export --to=hf --out=captioner` wrote; needs its imports alone."""

import json
import pathlib

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file
from transformers import (
  AutoModel,
  AutoTokenizer,
  DynamicCache,
  EncoderDecoderCache,
  MT5ForConditionalGeneration,
)

FOLDER = pathlib.Path("captioner")
about = json.loads((FOLDER / "captioner.json").read_text(encoding="utf-8"))
pictures = json.loads((FOLDER / "vit/preprocessor_config.json").read_text(encoding="utf-8"))
vit = AutoModel.from_pretrained(FOLDER / "vit").eval()
t5 = MT5ForConditionalGeneration.from_pretrained(FOLDER / "t5").eval()
tokenizer = AutoTokenizer.from_pretrained(FOLDER / "t5")
projection = load_file(FOLDER / "projection.safetensors")

side, languages = about["image_size"], ["en", "th"]
image = Image.open("photo.jpg").convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
pixels = (np.array(image) / 255 - pictures["image_mean"]) / pictures["image_std"]
prompts = torch.tensor([about["prompts"][language] for language in languages])
with torch.inference_mode():
  seen = vit(torch.tensor(pixels, dtype=torch.float32).permute(2, 0, 1)[None])
  features = {
    "all": lambda: seen.last_hidden_state,
    "mean": lambda: seen.last_hidden_state.mean(1, keepdim=True),
    "first": lambda: seen.last_hidden_state[:, :1],
    "pooled": lambda: seen.pooler_output[:, None],
  }[about["image_features"]]()
  features = torch.nn.functional.linear(features, **projection).expand(len(languages), -1, -1)
  mask = torch.cat([torch.ones(features.shape[:2], dtype=torch.long), (prompts != 0).long()], dim=1)
  inputs = torch.cat([features, t5.shared(prompts)], dim=1)
  # `generate` of transformers 5.23 fails without a cache if the decoder has more layers than the encoder.
  cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
  tokens = t5.generate(
    inputs_embeds=inputs,
    attention_mask=mask,
    past_key_values=cache,
    **about["generate"],
  )
for language, row in zip(languages, tokens, strict=True):
  print(language, tokenizer.decode(row, skip_special_tokens=True))
