"""Captions photo.jpg by what `xmcap export --to=stablehlo --out=captioner` wrote; needs its imports and flatbuffers."""

import json
import pathlib

import jax
import numpy as np
import sentencepiece
from jax import export
from PIL import Image

FOLDER = pathlib.Path("captioner")
about = json.loads((FOLDER / "captioner.json").read_text(encoding="utf-8"))
program = jax.jit(export.deserialize((FOLDER / "captioner.stablehlo").read_bytes()).call)
params = jax.device_put(dict(np.load(FOLDER / "params.npz")))
vocabulary = sentencepiece.SentencePieceProcessor(model_file=str(FOLDER / "vocabulary.model"))
side, languages = about["image_size"], ["en", "th"]
image = Image.open("photo.jpg").convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
prompts = np.array([about["prompts"][language] for language in languages], np.int32)
tokens, scores = program(params, np.array(image)[None], prompts)
for language, row in zip(languages, np.where(tokens < len(vocabulary), tokens, 2)[0].tolist(), strict=True):
  print(language, vocabulary.decode(row))
