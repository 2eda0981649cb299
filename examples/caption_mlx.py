"""Captions of a vision-language model of mlx-vlm, on a Mac, without a server.

xmcap caption --captioner=caption_mlx:caption photos --languages=en,th --out=captions.jsonl
"""

import functools

from mlx_vlm import generate, load
from mlx_vlm.prompt_utils import apply_chat_template

from xmcap import languages as languages_lib

MODEL = "mlx-community/Qwen2.5-VL-3B-Instruct-4bit"  # here, as provenance has the digest of this file
TOKENS = 96


@functools.cache
def loaded():
  return load(MODEL)


def caption(image, languages):
  """Asks about a picture in each language; an answer that is cut at `TOKENS` is left out, as it is no caption."""
  model, processor = loaded()
  captions = {}
  for code in languages:
    text = f"Describe the picture in {languages_lib.get(code).english_name}, in one sentence."
    prompt = apply_chat_template(processor, model.config, text, num_images=1)
    answer = generate(model, processor, prompt, [image], max_tokens=TOKENS, temperature=0.0)
    if answer.finish_reason != "length":
      captions[code] = answer.text
  return captions
