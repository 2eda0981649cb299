"""`xmcap export`: writes a trained captioner in formats that run without xmcap."""

import os
import pathlib

from xmcap.commands import base
from xmcap.files import outputs


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands, "export", _export, "write a trained captioner in a format that runs without xmcap",
    "Captions are the same as those of `xmcap caption`. docs/export.md has a short loader for each format.",
    extra="train",
  )  # fmt: skip
  base.add_model(command)
  formats = (
    "stablehlo (jax), savedmodel (TensorFlow, of seqio) or hf (the parts that transformers has classes for)"
  )
  base.text(command, "--to", "FORMAT", formats, required=True, choices=("stablehlo", "savedmodel", "hf"))
  base.text(command, "--out", "DIR", "the new folder", required=True)
  base.add_gin(command)


def _export(arguments) -> None:
  # Nothing is computed, so no accelerator should be occupied. On a CPU, `auto` is float32.
  os.environ.setdefault("JAX_PLATFORMS", "cpu")
  outputs.keep_apart({"--out": arguments.out}, {"--model_dir": arguments.model_dir})
  if not base.configure(arguments, arguments.model_dir):
    return
  from xmcap.convert.importing import make_folder
  from xmcap.export import program

  folder = pathlib.Path(arguments.out)
  with outputs.held(arguments.out, arguments.prog), outputs.together(arguments.out):
    captioner = program.load(arguments.model_dir, arguments.step, arguments.weights)
    make_folder(folder)
    if arguments.to == "stablehlo":
      from xmcap.export import stablehlo

      stablehlo.write(captioner, folder, print)
    elif arguments.to == "savedmodel":
      from xmcap.export import saved_model

      saved_model.write(captioner, folder, print)
    else:
      from xmcap.export import hf

      hf.write(captioner, arguments.model_dir, folder, print)
