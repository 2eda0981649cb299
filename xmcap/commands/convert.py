"""The command that brings weights in from other code bases, and takes them out again."""

import os

from xmcap.commands import base
from xmcap.errors import UsageError
from xmcap.storage import outputs


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands, "convert", _convert,
    "bring weights in from transformers, t5x, big_vision or OpenCLIP, or take them out to transformers",
    "Needs neither torch nor transformers, and never holds more than a few tensors. Nothing that is read can run code:"
    " pickles are refused.",
  )  # fmt: skip
  what = (
    "a Hugging Face or OpenCLIP folder, a t5x checkpoint, a .npz of big_vision; with --to=hf a run's folder,"
  )
  base.text(command, "--input", "PATH", f"{what} a checkpoint or converted weights", required=True)
  base.text(command, "--out", "DIR", "the new folder", required=True)
  base.text(
    command, "--from", "NAME", "hf, t5x, big_vision or open_clip; without it the content says", dest="format"
  )
  base.text(command, "--pool", "NAME", "of a ViT: gap, map, tok or none; default: its own")
  base.text(command, "--to", "NAME", "hf: write folders for transformers instead")
  part = "dual: both towers of CLIP, SigLIP and the like; adapter: out of a run of runs/adapter.gin; with --to=hf: t5,"
  base.text(command, "--part", "NAME", f"{part} vit or all")
  what = (
    "with --part=dual: the CLIP whose image tower goes with a text tower of M-CLIP or sentence-transformers"
  )
  base.text(command, "--image_tower", "PATH", what)


def _convert(arguments) -> None:
  if arguments.to not in (None, "hf"):
    raise UsageError(f"--to={arguments.to}: unknown; weights go out as hf")
  if arguments.image_tower is not None and arguments.part != "dual":
    raise UsageError("--image_tower: joins a text tower with --part=dual alone")
  if arguments.to is not None and (arguments.format is not None or arguments.pool is not None):
    raise UsageError("--from and --pool are for weights that come in: leave them out with --to=hf")
  # Only shapes are asked of jax: no accelerator is to be taken for that.
  os.environ.setdefault("JAX_PLATFORMS", "cpu")
  inputs = {"--input": arguments.input, "--image_tower": arguments.image_tower}
  outputs.keep_apart(
    {"--out": arguments.out}, {name: path for name, path in inputs.items() if path is not None}
  )
  with outputs.held(arguments.out, arguments.prog):
    if arguments.part == "adapter":
      from xmcap.convert import adapters

      adapters.export(arguments.input, arguments.out)
    elif arguments.to == "hf":
      from xmcap.convert import exporting

      exporting.export(arguments.input, arguments.out, arguments.part)
    else:
      from xmcap.convert import importing

      importing.convert(
        arguments.input,
        arguments.out,
        arguments.format,
        arguments.pool,
        arguments.part,
        arguments.image_tower,
      )
