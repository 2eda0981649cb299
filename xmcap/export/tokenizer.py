"""Converts a SentencePiece vocabulary to a `tokenizer.json` for transformers."""

import base64
from typing import Any

from xmcap.data.vocabulary import EOS_ID, PAD_ID, UNK_ID, Vocabulary
from xmcap.export.program import sentencepiece_model

_SPACE = "▁"


def as_json(vocabulary: Vocabulary) -> dict[str, dict[str, Any]]:
  """File name -> contents: `tokenizer.json` and `tokenizer_config.json`, for a unigram model such as ours and mT5's.

  The ids equal SentencePiece's, except for a text that contains a LangId token, before which SentencePiece would insert
  a space.
  """
  model = sentencepiece_model(vocabulary)
  normalizer, trainer = model.normalizer_spec, model.trainer_spec
  special = {PAD_ID: "pad_token", EOS_ID: "eos_token", UNK_ID: "unk_token"}
  names = {role: model.pieces[token].piece for token, role in special.items()}
  # Tokens that are never split.
  added = [
    {
      "id": token, "content": piece.piece, "single_word": False, "lstrip": False, "rstrip": False,
      "normalized": False, "special": token in special,
    }
    for token, piece in enumerate(model.pieces)
    if token in special or piece.type == piece.Type.USER_DEFINED
  ]  # fmt: skip
  steps: list[dict[str, Any]] = []
  if normalizer.precompiled_charsmap:
    charsmap = base64.b64encode(normalizer.precompiled_charsmap).decode()
    steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
  if normalizer.remove_extra_whitespaces:
    steps.append({"type": "Strip", "strip_left": True, "strip_right": True})
    steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
  content = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": added,
    "normalizer": {"type": "Sequence", "normalizers": steps},
    "pre_tokenizer": {
      "type": "Metaspace", "replacement": _SPACE, "split": trainer.split_by_whitespace,
      "prepend_scheme": "always" if normalizer.add_dummy_prefix else "never",
    },
    "post_processor": None,
    "decoder": {
      "type": "Sequence",
      "decoders": [
        {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
      ],
    },
    "model": {
      "type": "Unigram", "unk_id": UNK_ID, "byte_fallback": trainer.byte_fallback,
      "vocab": [[piece.piece, piece.score] for piece in model.pieces],
    },
  }  # fmt: skip
  config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **names}
  return {"tokenizer.json": content, "tokenizer_config.json": config}
