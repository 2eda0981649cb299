"""`xmcap convert`: converts weights from and to other code bases."""

import os

from xmcap.commands import base
from xmcap.errors import UsageError
from xmcap.files import outputs


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands, "convert", _convert,
    "convert weights from transformers, t5x, big_vision or OpenCLIP, or to transformers",
    "Needs neither torch nor transformers, and holds only a few tensors in memory. No file that it reads can run code:"
    " pickles are refused.",
    extra="train",
  )  # fmt: skip
  forms = (
    "a Hugging Face or OpenCLIP folder, or OWNER/NAME or OWNER/NAME@REVISION on the Hugging Face hub; a t5x checkpoint;"
    " a big_vision .npz; with --to=hf a run's folder, a checkpoint or converted weights"
  )
  base.text(command, "--input", "PATH", forms, required=True)
  base.text(command, "--out", "DIR", "the new folder", required=True)
  source = "hf, t5x, big_vision or open_clip; default: detected from the content"
  base.text(
    command, "--from", "NAME", source, dest="format", choices=("hf", "t5x", "big_vision", "open_clip")
  )
  base.text(command, "--pool", "NAME", "pooling of a ViT: gap, map, tok or none; default: its own")
  base.text(command, "--to", "NAME", "hf: write folders for transformers instead", choices=("hf",))
  part = (
    "dual: both towers of CLIP, SigLIP and the like; adapter: from a run of runs/adapter.gin; with --to=hf: t5, vit "
    "or all"
  )
  tower = (
    "with --part=dual: the CLIP whose image tower goes with a text tower of M-CLIP or sentence-transformers"
  )
  base.text(command, "--part", "NAME", part)
  base.add_weights(command)
  base.text(command, "--image_tower", "PATH", tower)


def _convert(arguments) -> None:
  if arguments.image_tower is not None and arguments.part != "dual":
    raise UsageError("--image_tower needs --part=dual")
  if arguments.to is not None and (arguments.format is not None or arguments.pool is not None):
    raise UsageError("--from and --pool are for importing weights: leave them out with --to=hf")
  if arguments.weights is not None and arguments.to is None and arguments.part != "adapter":
    raise UsageError("--weights is for the weights of a run: give it with --to=hf or --part=adapter")
  # jax only computes shapes here, so no accelerator should be occupied.
  os.environ.setdefault("JAX_PLATFORMS", "cpu")
  inputs = {"--input": arguments.input, "--image_tower": arguments.image_tower}
  from xmcap.convert import hub

  snapshots: dict[str, hub.Snapshot] = {}
  if arguments.to is None and arguments.part != "adapter":
    for option, value in inputs.items():
      if value and (snapshot := hub.find(option, value, arguments.format if option == "--input" else None)):
        base.say(f"{snapshot.repository} at commit {snapshot.commit} is in {snapshot.folder}")
        snapshots[option] = snapshot
    inputs |= {option: snapshot.folder for option, snapshot in snapshots.items()}
    base.check_local(inputs)
  outputs.keep_apart({"--out": arguments.out}, inputs)
  with outputs.held(arguments.out, arguments.prog), outputs.together(arguments.out):
    if arguments.part == "adapter":
      from xmcap.convert import adapters

      adapters.export(arguments.input, arguments.out, arguments.weights)
    elif arguments.to == "hf":
      from xmcap.convert import exporting

      exporting.export(arguments.input, arguments.out, arguments.part, arguments.weights)
    else:
      from xmcap.convert import importing

      importing.convert(
        inputs["--input"],
        arguments.out,
        arguments.format,
        arguments.pool,
        arguments.part,
        inputs["--image_tower"],
      )
    if snapshots:
      hub.record(arguments.out, snapshots)
