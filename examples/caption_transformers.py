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
  """Asks about a picture in all languages at once; a cut answer is left out, as it is no caption."""
  model, processor = loaded()
  chats = []
  for code in languages:
    text = f"Describe the picture in {languages_lib.get(code).english_name}, in one sentence."
    content = [{"type": "image", "image": image}, {"type": "text", "text": text}]
    chats.append([{"role": "user", "content": content}])
  form = {"return_dict": True, "return_tensors": "pt", "processor_kwargs": {"padding": True}}
  inputs = processor.apply_chat_template(chats, add_generation_prompt=True, tokenize=True, **form).to(DEVICE)
  with torch.inference_mode():
    tokens = model.generate(**inputs, max_new_tokens=96, do_sample=False)[:, inputs["input_ids"].shape[1] :]
  ends = torch.tensor(model.generation_config.eos_token_id, device=tokens.device)
  is_whole = torch.isin(tokens, ends).any(dim=1)
  texts = processor.batch_decode(tokens, skip_special_tokens=True)
  return {code: text for code, text, whole in zip(languages, texts, is_whole, strict=True) if whole}
