"""Captions by any vision-language model of transformers, without a server; needs torch, torchvision and transformers:

MODEL=Qwen/Qwen2.5-VL-3B-Instruct xmcap caption --captioner=caption_transformers:caption photos --out=c.jsonl -l en,th
"""

import functools
import os

import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from xmcap import languages as languages_lib


@functools.cache
def loaded():
  name = os.environ["MODEL"]
  processor = AutoProcessor.from_pretrained(name)
  processor.tokenizer.padding_side = "left"
  return AutoModelForImageTextToText.from_pretrained(name, device_map="auto", dtype="auto").eval(), processor


def caption(image, languages):
  """Asks about one picture in all languages at once."""
  model, processor = loaded()
  names = [languages_lib.get(code).english_name for code in languages]
  asked = [f"Describe the picture in {name}, in one sentence. Answer with the sentence alone." for name in names]
  chats = [
    [{"role": "user", "content": [{"type": "image", "image": image}, {"type": "text", "text": text}]}]
    for text in asked
  ]
  inputs = processor.apply_chat_template(
    chats, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt",
    processor_kwargs={"padding": True},
  ).to(model.device)  # fmt: skip
  with torch.inference_mode():
    tokens = model.generate(**inputs, max_new_tokens=96, do_sample=False)
  texts = processor.batch_decode(tokens[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
  return dict(zip(languages, texts, strict=True))
