"""`xmcap export --to=savedmodel`: a SavedModel from images to captions as text, which needs only TensorFlow."""

import os
import pathlib
import re
import shutil
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import tensorflow as tf
from jax.experimental import jax2tf

from xmcap import quiet
from xmcap.convert.importing import check_free
from xmcap.errors import XmcapError, one_line
from xmcap.export.program import MANIFEST, PLATFORMS, ExportedProgram, text_of_pieces
from xmcap.files import files, outputs, whole_files

_MODEL = "saved_model.pb"
_VARIABLES = "variables"


class CaptionModule(tf.Module):
  """The program as a TensorFlow module: `caption(image, languages[, seed])` -> captions, tokens and scores.

  Attributes:
    image_size: int32 [], side of the images in pixels.
  """

  def __init__(self, program: ExportedProgram):
    super().__init__()
    shapes = [None, "(b, _, _, _)", "(l, _)", *([None] if program.seeded else [])]
    run = jax2tf.convert(
      program.__call__, polymorphic_shapes=shapes, with_gradient=False,
      native_serialization_platforms=PLATFORMS,
    )  # fmt: skip
    # Attribute names cannot contain slashes.
    self.params = {
      path.replace("/", "."): tf.Variable(tf.convert_to_tensor(array), trainable=False)
      for path, array in program.params.items()
    }
    self.image_size = tf.Variable(tf.constant(program.image_size), trainable=False)
    codes = list(program.prompts)
    table = tf.lookup.KeyValueTensorInitializer(codes, np.arange(len(codes), dtype=np.int64))
    self.languages = tf.lookup.StaticHashTable(table, -1)
    self.prompts = tf.constant(list(program.prompts.values()), tf.int32)
    # One entry per row of the logits, which may be more than the vocabulary has.
    self.pieces = tf.constant(text_of_pieces(program.vocabulary, program.generator.captioner.t5.vocab_size))

    def caption(image, languages, *seed):
      rows = self.languages.lookup(languages)
      assertion = tf.debugging.assert_non_negative(rows, f"unknown language; give one of {', '.join(codes)}")
      with tf.control_dependencies([assertion]):
        prompts = tf.gather(self.prompts, rows)
      params = {path.replace(".", "/"): variable for path, variable in self.params.items()}
      tokens, scores = run(params, image, prompts, *seed)
      return {"captions": self._text(tokens), "tokens": tokens, "scores": scores}

    side = program.image_size
    signature = [
      tf.TensorSpec((None, side, side, 3), tf.uint8, "image"), tf.TensorSpec((None,), tf.string, "languages"),
    ]  # fmt: skip
    if program.seeded:
      signature.append(tf.TensorSpec((), tf.int32, "seed"))
    self.caption = tf.function(caption, input_signature=signature, autograph=False)

  def _text(self, tokens: Any) -> Any:
    """Decodes tokens [b, l, T] to captions [b, l], as SentencePiece does."""
    text = tf.strings.reduce_join(tf.gather(self.pieces, tokens), axis=-1)
    text = tf.strings.regex_replace(text, "^▁+", "")
    text = tf.strings.regex_replace(text, "▁", " ")
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")


def check_readable() -> None:
  """Raises XmcapError if this TensorFlow cannot read what this jax writes: then nobody could load the SavedModel."""
  program = jax2tf.convert(
    lambda x: x + 1, polymorphic_shapes=["(b, _)"], with_gradient=False,
    native_serialization_platforms=PLATFORMS,
  )  # fmt: skip
  try:
    with quiet.silenced():
      tf.function(program, input_signature=[tf.TensorSpec((None, 1))], autograph=False)(tf.zeros((1, 1)))
  except tf.errors.OpError as error:
    why = re.search("unregistered operation '[^']*'", error.message)
    raise XmcapError(
      f"TensorFlow {tf.__version__} cannot read what jax {jax.__version__} writes "
      f"({why[0] if why else one_line(error.message)[:200]}): export with a newer TensorFlow or an older jax, or with "
      "--to=stablehlo"
    ) from None


def write(program: ExportedProgram, folder: pathlib.Path, say: Callable[[str], None]) -> None:
  """Writes the SavedModel, the vocabulary and the manifest; UsageError if one already exists."""
  check_free(folder, _MODEL, _VARIABLES, MANIFEST)
  check_readable()
  module = CaptionModule(program)
  temporary = folder / f".saved_model.{os.getpid()}.incomplete"  # the next run removes it after a kill
  try:
    tf.saved_model.save(module, str(temporary), signatures={"serving_default": module.caption})
    with outputs.together(folder):
      program.write_beside(
        folder, tensorflow=tf.__version__, platforms=list(PLATFORMS),
        inputs=["image", "languages", *(["seed"] if program.seeded else [])],
        outputs=["captions", "tokens", "scores"],
      )  # fmt: skip
      for path in temporary.iterdir():
        if path.name == "assets":
          continue  # empty
        with whole_files.replacing(folder / path.name) as part:
          os.replace(path, part)
  except tf.errors.OpError as error:
    raise files.cannot_write(folder, OSError(error.message)) from None
  finally:
    shutil.rmtree(temporary, ignore_errors=True)
    whole_files.clear(folder)
  say(f"{folder}: SavedModel for {', '.join(PLATFORMS)}, written by TensorFlow {tf.__version__}")
