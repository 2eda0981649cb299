"""A trained captioner as one pure function, with the manifest that a loader needs."""

import dataclasses
import json
import pathlib
import re
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sentencepiece import sentencepiece_model_pb2 as protos

from xmcap import __version__, languages
from xmcap.data.vocabulary import UNK_ID, Vocabulary
from xmcap.errors import UsageError
from xmcap.evaluation import image_features, model_dir
from xmcap.evaluation.predictor import Predictor, prompts_of
from xmcap.files import files
from xmcap.models import model_json, stacking
from xmcap.models.captioner import variable_shapes
from xmcap.models.decoding import generator as generator_lib
from xmcap.models.decoding.generator import Generator
from xmcap.models.decoding.search import Sample
from xmcap.models.parts import IMAGE
from xmcap.training.checkpoints.read import best_step, check_same, flat

MANIFEST = "captioner.json"
"""Name of the manifest in every export."""

PLATFORMS = ("cpu", "cuda", "tpu")
"""Platforms that a program is lowered for, on whatever machine it is exported."""

_LANGUAGE_PIECE = re.compile("<([a-z]{2,3}(?:-[A-Za-z0-9]+)*)>")


@dataclasses.dataclass(frozen=True)
class ExportedProgram:
  """A captioner and its search.

  Attributes:
    params: path -> float32 array.
    prompts: language -> token ids of its prompt, all of one length P, padded with 0.
    step: step of the requested checkpoint, or of the best; None: the newest.
    weights: `weights` with `ema` or `raw` if the checkpoint has both; else {}.
  """

  generator: Generator
  vocabulary: Vocabulary
  params: Mapping[str, np.ndarray]
  prompts: Mapping[str, list[int]]
  step: int | None
  weights: Mapping[str, str] = dataclasses.field(default_factory=dict)

  @property
  def image_size(self) -> int:
    """Side of the images, in pixels."""
    return self.generator.captioner.vit.image_size

  @property
  def seeded(self) -> bool:
    """Whether captions are sampled, so that the function also takes a seed."""
    return isinstance(self.generator.search, Sample)

  def __call__(
    self, params: Mapping[str, Any], image: Any, prompt_tokens: Any, seed: Any = 0
  ) -> tuple[jax.Array, jax.Array]:
    """Captions each image in each language. Pure; b and l may be symbolic.

    Args:
      params: like the attribute.
      image: uint8 [b, image_size, image_size, 3].
      prompt_tokens: int32 [l, P].
      seed: int32 []; samples for image i are a function of (seed, i).

    Returns:
      Tokens int32 [b, l, max_length], ending with EOS (1) unless max_length was reached, padded with 0, without the
      stabilizer if the model writes one; and scores float32 [b, l].
    """
    batch = image.shape[0]
    prompts = jnp.broadcast_to(prompt_tokens, (batch, *prompt_tokens.shape))
    nested = stacking.nested(params)
    row_ids = jnp.arange(batch, dtype=jnp.int32)
    static, key = self.generator.static, jax.random.key(seed)
    tokens, scores = generator_lib.generate(*static, nested, image, prompts, key, row_ids)
    if self.generator.marks is not None:  # a loader need not know of stabilizers
      _, tokens = self.generator.marks.split(tokens, prompts, jnp)
    return tokens, scores

  def write_beside(self, folder: pathlib.Path, **more: Any) -> None:
    """Writes the manifest, with the fields `more`, and the vocabulary."""
    name, fields = model_json.of_search(self.generator.search) or (type(self.generator.search).__name__, {})
    versions = {"xmcap": __version__, **{package: metadata.version(package) for package in ("jax", "jaxlib")}}
    dtypes = {part: getattr(self.generator.captioner, part).dtype for part in (IMAGE, "t5")}
    manifest = {
      "format": "xmcap.export",
      "version": 1,
      "made_with": versions,
      "step": self.step,  # null: the newest
      **self.weights,
      "image_size": self.image_size,
      "max_length": self.generator.max_length,
      "search": {"name": name, **fields},
      # Exports are made on a CPU, where `auto` is float32.
      "dtype": {part: "float32" if dtype == "auto" else dtype for part, dtype in dtypes.items()},
      **more,
      "prompts": dict(self.prompts),
    }
    files.write_text(folder / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    files.write_bytes(folder / model_dir.VOCABULARY, self.vocabulary.model)


def load(folder: str, step: int | None = None, weights: str | None = None) -> ExportedProgram:
  """Loads the program of a model folder after `model_dir.parse`; for `step`, `weights` see `model_dir.load_params`.

  Raises:
    XmcapError: the parameters belong to another model, or cannot be read.
  """
  predictor = Predictor()
  step = best_step(folder) if step is None else step
  arrays = flat(model_dir.load_params(folder, step, weights))
  captioner = predictor.captioner
  shapes = flat(variable_shapes(captioner.vit, captioner.t5)["params"])
  check_same(shapes, arrays, folder, allow_extra=True)
  params = {path: np.asarray(arrays[path], np.float32) for path in shapes}
  chosen = image_features.which_weights(folder, step, weights)
  made = predictor.generator, predictor.vocabulary, params, _prompts(predictor, folder), step, chosen
  return ExportedProgram(*made)


def _prompts(predictor: Predictor, folder: str) -> dict[str, list[int]]:
  """The prompts of all languages that the vocabulary supports."""
  pieces = sentencepiece_model(predictor.vocabulary).pieces
  tokens = [piece.piece for piece in pieces if piece.type == piece.Type.USER_DEFINED]
  codes = [name[1] for name in map(_LANGUAGE_PIECE.fullmatch, tokens) if name]
  # A vocabulary without LangId tokens is mT5's, where the prompt is the code as text.
  codes = codes or [
    language for language in languages.LANGUAGES if UNK_ID not in predictor.vocabulary.prompt(language)
  ]
  if not codes:
    raise UsageError(f"{folder}: its vocabulary has no prompt for any language: give another model folder")
  return {
    language: row.tolist()
    for language, row in zip(codes, prompts_of(predictor.vocabulary, codes), strict=True)
  }


def sentencepiece_model(vocabulary: Vocabulary) -> Any:
  """A vocabulary as SentencePiece's protocol buffer: pieces, `normalizer_spec`, `trainer_spec`."""
  return protos.ModelProto.FromString(vocabulary.model)  # pyright: ignore[reportAttributeAccessIssue]


def text_of_pieces(vocabulary: Vocabulary, rows: int) -> tuple[bytes, ...]:
  """The text of each of the `rows` ids, with U+2581 for a space; as bytes, because a token may be a single byte."""
  processor = vocabulary.processor
  unknown = processor.decode([UNK_ID]).encode()

  def text(token: int) -> bytes:
    if token >= vocabulary.size or processor.is_unknown(token):
      return unknown
    piece = processor.id_to_piece(token)
    if processor.is_control(token):
      return b""
    return bytes([int(piece[1:-1], 16)]) if processor.is_byte(token) else piece.encode()

  return tuple(map(text, range(rows)))
