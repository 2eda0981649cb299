"""Captions of a vision-language model of transformers, without a server.

xmcap caption --captioner=caption_transformers:caption photos --languages=en,th --out=captions.jsonl
"""

import functools

import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from xmcap import languages as languages_lib

MODEL = "Qwen/Qwen2.5-VL-3B-Instruct"  # here, as provenance has the digest of this file
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@functools.cache
def loaded():
  processor = AutoProcessor.from_pretrained(MODEL)
  processor.tokenizer.padding_side = "left"
  return AutoModelForImageTextToText.from_pretrained(MODEL, dtype="auto").to(DEVICE).eval(), processor


def caption(image, languages):
  """Asks about a picture in all languages at once."""
  model, processor = loaded()
  chats = []
  for code in languages:
    text = f"Describe the picture in {languages_lib.get(code).english_name}, in one sentence."
    content = [{"type": "image", "image": image}, {"type": "text", "text": text}]
    chats.append([{"role": "user", "content": content}])
  form = {"return_dict": True, "return_tensors": "pt", "processor_kwargs": {"padding": True}}
  inputs = processor.apply_chat_template(chats, add_generation_prompt=True, tokenize=True, **form).to(DEVICE)
  with torch.inference_mode():
    tokens = model.generate(**inputs, max_new_tokens=96, do_sample=False)
  texts = processor.batch_decode(tokens[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
  return dict(zip(languages, texts, strict=True))
