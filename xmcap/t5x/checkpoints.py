"""A captioner's checkpoints between xmcap and t5x: `python -m xmcap.t5x.checkpoints to_t5x|from_t5x`.

The names of the parameters are the same on both sides; the optimizer's state stays behind. Needs t5x, as
`xmcap.t5x.adapter` does, which knows the form of its optimizer's state.
"""

import argparse
import pathlib
import sys
from collections.abc import Callable, Sequence

import flax
import jax
import numpy as np
import orbax.checkpoint as ocp
from flax import traverse_util

from xmcap import terminal
from xmcap.convert import importing
from xmcap.convert import t5x as t5x_reader
from xmcap.convert.pairs import SAME, Pair, make_outputs
from xmcap.errors import UsageError, XmcapError
from xmcap.evaluation import model_dir
from xmcap.models.captioner import variable_shapes
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.t5x import adapter as t5x_adapter
from xmcap.tensors.files import write_safetensors
from xmcap.training.checkpoints import weights
from xmcap.training.checkpoints.read import check_same, flat


def to_t5x(run: str, out: str, say: Callable[[str], None] = print) -> pathlib.Path:
  """Writes OUT/checkpoint_0 of t5x: a run's parameters, Adafactor's state as before its first step, step 0.

  Of the folder of a run the newest checkpoint that can be read is taken. All parameters are held in memory at once.
  Returns the checkpoint, for `RestoreCheckpointConfig.path`.

  Raises:
    UsageError: no run there, or `out` is taken.
    XmcapError: the checkpoint does not fit the configuration of the run.
  """
  # Not above, where it would come before `t5x_adapter`, which says what to do if t5x is absent.
  from t5x import adafactor, train_state

  folder = pathlib.Path(out).absolute()
  importing.check_free(folder, "checkpoint_0")
  model_dir.parse(run)
  given = weights.open_weights(run)
  variables = variable_shapes(ViTConfig(), T5Config())
  wanted = flat(variables["params"])
  check_same(wanted, given.tensors, given.where)
  optimizer = adafactor.Adafactor(logical_factor_rules=t5x_adapter.factor_rules())
  state = jax.eval_shape(
    lambda tree: train_state.FlaxOptimTrainState.create(optimizer, tree).state_dict(),
    flax.core.freeze(variables),
  )
  tree = {
    "target": traverse_util.unflatten_dict({path: given.tensors[path].read() for path in wanted}, sep="/"),
    "state": jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), flax.core.unfreeze(state["state"])),
  }
  importing.make_folder(folder)
  handlers = {"state": ocp.PyTreeCheckpointHandler(use_ocdbt=True)}
  options = ocp.CheckpointManagerOptions(step_prefix="checkpoint", enable_async_checkpointing=False)
  with ocp.CheckpointManager(folder, options=options, item_handlers=handlers) as manager:
    manager.save(0, args=ocp.args.Composite(state=ocp.args.PyTreeSave(tree)))
  checkpoint = folder / "checkpoint_0"
  say(f"{given.where}: {len(wanted)} parameters, now in {checkpoint}")
  say(f"next: --gin.INITIAL_CHECKPOINT_PATH='\"{checkpoint}\"'")
  return checkpoint


def from_t5x(path: str, out: str, say: Callable[[str], None] = print) -> pathlib.Path:
  """Writes the captioner in a checkpoint of t5x, of either layout, as weights for `train.pretrained`.

  `path` is one `checkpoint_N`, or a folder of them, whose newest is taken. Returns the new folder.

  Raises:
    UsageError: no whole checkpoint of t5x there, no captioner in it, or `out` is taken.
  """
  folder = pathlib.Path(out)
  importing.check_free(folder, weights.PARAMS)
  found = t5x_reader.find(pathlib.Path(path))
  if found is None:
    raise UsageError(f"{path}: no checkpoint of t5x there (looked for checkpoint_N)")
  params = t5x_reader.parameters(t5x_reader.read(found))
  for part in ("vit", "projection", "token_embedder", "encoder", "decoder"):
    if not any(name.startswith(f"{part}/") for name in params):
      raise UsageError(f"{found}: no {part} in it, so no captioner: `xmcap convert` takes a T5 alone")
  params = weights.one_by_one(params)
  pairs = [Pair((name,), (name,), SAME) for name in params]
  shapes = {name: tensor.shape for name, tensor in params.items()}
  outputs, _ = make_outputs(pairs, params, shapes, str(found), "the checkpoint asks")
  importing.make_folder(folder)
  size = write_safetensors(folder / weights.PARAMS, outputs, {"format": "xmcap", "source": "t5x"})
  numbers = importing.count(outputs)
  say(f"{found}: {len(outputs)} parameters, {numbers:,} numbers; the optimizer's state is not taken")
  say(f"{folder / weights.PARAMS}: {size / 1e6:,.1f} MB; next: --gin.PRETRAINED={folder}")
  return folder


def main(arguments: Sequence[str] | None = None) -> int:
  """`python -m xmcap.t5x.checkpoints`: a captioner's checkpoint to t5x, or back."""
  parser = argparse.ArgumentParser(prog="python -m xmcap.t5x.checkpoints", description=main.__doc__)
  parser.add_argument("to", choices=("to_t5x", "from_t5x"))
  parser.add_argument("--input", required=True, metavar="DIR", help="a run of xmcap, or of t5x")
  parser.add_argument("--out", required=True, metavar="DIR", help="the new folder")
  given = parser.parse_args(arguments)
  terminal.guard()
  try:
    {"to_t5x": to_t5x, "from_t5x": from_t5x}[given.to](given.input, given.out)
  except XmcapError as error:
    print(f"xmcap: {terminal.shown(error, limit=None)}", file=sys.stderr)
    return 2 if isinstance(error, UsageError) else 1
  return 0


if __name__ == "__main__":
  sys.exit(main())
