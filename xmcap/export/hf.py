"""`xmcap export --to=hf`: the parts of a captioner that transformers has classes for, and how they fit together.

transformers has no class for the whole: its VisionEncoderDecoderModel gives the decoder the ViT's vectors, where ours
goes through the T5's encoder together with the prompt. So there are a ViT, an MT5ForConditionalGeneration with its
tokenizer, the projection between them, and no code of ours that anybody would have to trust.
"""

import json
import pathlib
from collections.abc import Callable
from typing import Any

from xmcap.convert import exporting
from xmcap.convert.importing import check_free
from xmcap.errors import UsageError
from xmcap.export import tokenizer
from xmcap.export.program import MANIFEST, Program
from xmcap.models.decoding.beam_search import Beam
from xmcap.models.decoding.search import Sample
from xmcap.models.vit import ViTConfig
from xmcap.storage import files
from xmcap.tensors.files import Tensor


def write(program: Program, model_dir: str, folder: pathlib.Path, say: Callable[[str], None]) -> None:
  """Writes `vit/`, `t5/` with the tokenizer, `projection.safetensors`, the vocabulary and the manifest.

  Raises:
    UsageError: transformers has no such search or ViT, or files are there already.
  """
  generate = _generate_arguments(program)
  check_free(folder, MANIFEST)
  tensors = {
    path: Tensor(array.shape, array.dtype, lambda array=array: array, model_dir)
    for path, array in program.params.items()
  }
  captioner = program.generator.captioner
  exporting.write(tensors, {"t5": captioner.t5, "vit": captioner.vit}, model_dir, folder, say=say)
  for name, content in tokenizer.as_json(program.vocabulary).items():
    files.write_text(folder / "t5" / name, json.dumps(content, ensure_ascii=False) + "\n")
  features = _features(program.generator.captioner.vit)
  program.write_beside(folder, image_features=features, generate=generate)
  if isinstance(program.generator.search, Sample):
    say(
      f"{folder}: transformers draws other numbers than jax: samples have the same chances, but are not the same"
    )
  say(f"{folder}: docs/export.md has the lines that put the parts together")


def _generate_arguments(program: Program) -> dict[str, Any]:
  """What `generate` of transformers is called with to search as we do."""
  search, most = program.generator.search, {"max_new_tokens": program.generator.max_length}
  if isinstance(search, Sample):
    own = {"temperature": search.temperature, "top_k": search.top_k, "top_p": search.top_p}
    return most | {"do_sample": True, "num_beams": 1} | own
  if not isinstance(search, Beam):
    return most | {"do_sample": False, "num_beams": 1}
  if search.convention != "transformers":
    raise UsageError(
      f"transformers has no beam search of convention '{search.convention}': add"
      " --gin.Beam.convention=\"'transformers'\", or --gin.Predictor.search=@Greedy()"
    )
  own = {"length_penalty": search.length_penalty, "early_stopping": search.early_stopping}
  return most | {"do_sample": False, "num_beams": search.beams} | own


def _features(config: ViTConfig) -> str:
  """Which of a vision tower's outputs the projection takes; the words are explained in docs/export.md."""
  if config.pool == "tok":
    # CLIP's last norm is in its pooler alone, and a ViTModel's pooler is no part of ours.
    return "pooled" if config.pre_norm else "first"
  return {"map": "pooled", "gap": "mean", "none": "all"}[config.pool]
