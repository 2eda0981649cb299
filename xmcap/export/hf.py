"""`xmcap export --to=hf`: writes the parts of a captioner for transformers.

transformers has no class for the whole model: in its VisionEncoderDecoderModel the ViT's vectors go to the decoder,
while here they go through the T5's encoder together with the prompt. So the export is a ViT, an
MT5ForConditionalGeneration with its tokenizer, and the projection between them, without custom code to trust.
"""

import base64
import json
import pathlib
from collections.abc import Callable
from typing import Any

from xmcap.convert import exporting
from xmcap.convert.importing import check_free
from xmcap.data.vocabulary import EOS_ID, PAD_ID, UNK_ID, Vocabulary
from xmcap.errors import UsageError
from xmcap.export.program import MANIFEST, ExportedProgram, sentencepiece_model
from xmcap.files import files
from xmcap.files.tensors import Tensor
from xmcap.models.decoding.beam_search import Beam
from xmcap.models.decoding.search import Sample
from xmcap.models.parts import IMAGE
from xmcap.models.t5 import T5Config

_SPACE = "▁"  # SentencePiece's


def write(program: ExportedProgram, model_dir: str, folder: pathlib.Path, say: Callable[[str], None]) -> None:
  """Writes `vit/`, `t5/` with the tokenizer, `projection.safetensors`, the vocabulary and the manifest.

  Raises:
    UsageError: transformers has no such search or ViT, the model writes stabilizers, or the files already exist.
  """
  if program.generator.marks is not None:
    raise UsageError(
      f"{model_dir}: it writes a stabilizer before each caption, for which transformers has no class: give"
      " --to=stablehlo or --to=savedmodel"
    )
  if not isinstance(program.generator.captioner.t5, T5Config):
    raise UsageError(
      f"{model_dir}: transformers has no class for its LSTM: give --to=stablehlo or --to=savedmodel"
    )
  generate = _generate_arguments(program)
  check_free(folder, MANIFEST)
  tensors = {
    path: Tensor(array.shape, array.dtype, lambda array=array: array, model_dir)
    for path, array in program.params.items()
  }
  captioner = program.generator.captioner
  exporting.write(tensors, {"t5": captioner.t5, IMAGE: captioner.vit}, model_dir, folder, say=say)
  for name, content in tokenizer_files(program.vocabulary).items():
    files.write_text(folder / "t5" / name, json.dumps(content, ensure_ascii=False) + "\n")
  program.write_beside(folder, image_features=_features(captioner.vit), generate=generate)
  if isinstance(program.generator.search, Sample):
    say(
      f"{folder}: transformers has other random numbers than jax: samples differ, but have the same distribution"
    )
  say(f"{folder}: docs/export.md shows how to combine the parts")


def _generate_arguments(program: ExportedProgram) -> dict[str, Any]:
  """Arguments of transformers' `generate` for the same search."""
  search, most = program.generator.search, {"max_new_tokens": program.generator.max_length}
  if isinstance(search, Sample):
    own = {"temperature": search.temperature, "top_k": search.top_k, "top_p": search.top_p}
    return most | {"do_sample": True, "num_beams": 1} | own
  if not isinstance(search, Beam):
    return most | {"do_sample": False, "num_beams": 1}
  if search.convention != "transformers":
    raise UsageError(
      f"transformers has no beam search with the convention '{search.convention}': add"
      " --gin.Beam.convention=\"'transformers'\", or --gin.Predictor.search='@Greedy()'"
    )
  own = {"length_penalty": search.length_penalty, "early_stopping": search.early_stopping}
  return most | {"do_sample": False, "num_beams": search.beams} | own


def _features(config: Any) -> str:
  """The output of a ViT that goes into the projection; docs/export.md explains the values."""
  if config.pool == "tok":
    # CLIP applies its last norm only in the pooler; a ViTModel's pooler is not part of our model.
    return "pooled" if config.pre_norm else "first"
  return {"map": "pooled", "gap": "mean", "none": "all"}[config.pool]


def tokenizer_files(vocabulary: Vocabulary) -> dict[str, dict[str, Any]]:
  """File name -> contents: `tokenizer.json` and `tokenizer_config.json`, for a SentencePiece unigram model.

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
