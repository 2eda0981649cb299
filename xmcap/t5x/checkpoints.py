"""Converts a captioner's checkpoints between xmcap and t5x: `python -m xmcap.t5x.checkpoints to_t5x|from_t5x`.

The parameter names are the same on both sides; the optimizer state is not converted. Needs t5x, as `xmcap.t5x.adapter`
does.
"""

import argparse
import pathlib
import sys
from collections.abc import Callable, Sequence

import flax
import jax
import numpy as np
import orbax.checkpoint as ocp

from xmcap import terminal
from xmcap.convert import importing
from xmcap.convert import t5x as t5x_reader
from xmcap.convert.pairs import unchanged
from xmcap.errors import UsageError, XmcapError
from xmcap.evaluation import model_dir
from xmcap.files.tensors import write_safetensors
from xmcap.models import stacking
from xmcap.models.captioner import variable_shapes
from xmcap.models.parts import CAPTIONER_PARAMS, bound_image_config
from xmcap.models.t5 import T5Config
from xmcap.t5x import adapter as t5x_adapter
from xmcap.training.checkpoints import weights
from xmcap.training.checkpoints.read import check_same, flat


def to_t5x(run: str, out: str, say: Callable[[str], None] = print) -> pathlib.Path:
  """Writes OUT/checkpoint_0 for t5x: a run's parameters with a fresh Adafactor state, at step 0.

  The parameters are those of `weights.open_weights`; they are in memory all at once. Returns the checkpoint, for
  `RestoreCheckpointConfig.path`.

  Raises:
    UsageError: there is no run, or `out` is not free.
    XmcapError: the checkpoint does not match the configuration of the run.
  """
  # Not at the top, where it would precede `t5x_adapter`, which says what to do if t5x is missing.
  from t5x import adafactor, train_state

  folder = pathlib.Path(out).absolute()
  importing.check_free(folder, "checkpoint_0")
  model_dir.parse(run)
  stored = weights.open_weights(run)
  variables = variable_shapes(bound_image_config()(), T5Config())
  shapes = flat(variables["params"])
  check_same(shapes, stored.tensors, stored.where)
  optimizer = adafactor.Adafactor(logical_factor_rules=t5x_adapter.factor_rules())
  state = jax.eval_shape(
    lambda tree: train_state.FlaxOptimTrainState.create(optimizer, tree).state_dict(),
    flax.core.freeze(variables),
  )
  tree = {
    "target": stacking.nested({path: stored.tensors[path].read() for path in shapes}),
    "state": jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), flax.core.unfreeze(state["state"])),
  }
  importing.make_folder(folder)
  handlers = {"state": ocp.PyTreeCheckpointHandler(use_ocdbt=True)}
  options = ocp.CheckpointManagerOptions(step_prefix="checkpoint", enable_async_checkpointing=False)
  with ocp.CheckpointManager(folder, options=options, item_handlers=handlers) as manager:
    manager.save(0, args=ocp.args.Composite(state=ocp.args.PyTreeSave(tree)))
  checkpoint = folder / "checkpoint_0"
  say(f"{stored.where}: {len(shapes)} parameters, now in {checkpoint}")
  say(f"next: --gin.INITIAL_CHECKPOINT_PATH='\"{checkpoint}\"'")
  return checkpoint


def from_t5x(path: str, out: str, say: Callable[[str], None] = print) -> pathlib.Path:
  """Converts the captioner in a t5x checkpoint, of either layout, to weights for `train.pretrained`.

  `path` is one `checkpoint_N`, or a folder of them, of which the newest is taken. Returns the new folder.

  Raises:
    UsageError: there is no complete t5x checkpoint, it holds no captioner, or `out` is not free.
  """
  folder = pathlib.Path(out)
  importing.check_free(folder, weights.PARAMS)
  place = t5x_reader.find(pathlib.Path(path))
  if place is None:
    raise UsageError(f"{path}: no t5x checkpoint found (looked for checkpoint_N)")
  params = t5x_reader.parameters(t5x_reader.read(place))
  for part in CAPTIONER_PARAMS:
    if not any(name.startswith(f"{part}/") for name in params):
      raise UsageError(f"{place}: not a captioner, as it has no {part}: for a T5 alone use `xmcap convert`")
  outputs = unchanged(weights.one_by_one(params), str(place))
  importing.make_folder(folder)
  size = write_safetensors(folder / weights.PARAMS, outputs, {"format": "xmcap", "source": "t5x"})
  say(
    f"{place}: {len(outputs)} parameters, {importing.count(outputs):,} numbers; the optimizer state is left out"
  )
  say(f"{folder / weights.PARAMS}: {size / 1e6:,.1f} MB; next: --gin.PRETRAINED={folder}")
  return folder


def main(arguments: Sequence[str] | None = None) -> int:
  """Converts a captioner's checkpoint to t5x, or back."""
  parser = argparse.ArgumentParser(prog="python -m xmcap.t5x.checkpoints", description=main.__doc__)
  parser.add_argument("to", choices=("to_t5x", "from_t5x"))
  parser.add_argument("--input", required=True, metavar="DIR", help="a run of xmcap or of t5x")
  parser.add_argument("--out", required=True, metavar="DIR", help="the new folder")
  options = parser.parse_args(arguments)
  terminal.guard()
  try:
    {"to_t5x": to_t5x, "from_t5x": from_t5x}[options.to](options.input, options.out)
  except XmcapError as error:
    print(f"xmcap: {terminal.shown(error, limit=None)}", file=sys.stderr)
    return 2 if isinstance(error, UsageError) else 1
  return 0


if __name__ == "__main__":
  sys.exit(main())
