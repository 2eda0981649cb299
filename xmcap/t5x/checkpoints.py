"""A captioner's checkpoints between xmcap and t5x: `python -m xmcap.t5x.checkpoints to_t5x|from_t5x`.

The names of the parameters are the same on both sides; the optimizer's state stays behind. Needs t5x, as
`xmcap.t5x.adapter` does, which knows the form of its optimizer's state.
"""

import argparse
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import flax
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from flax import traverse_util

from xmcap import terminal
from xmcap.convert import importing
from xmcap.convert import t5x as t5x_reader
from xmcap.errors import UsageError, XmcapError
from xmcap.evaluation import model_dir
from xmcap.models.captioner import Captioner
from xmcap.t5x import adapter as t5x_adapter
from xmcap.tensors.files import FLOATS, Output, Tensor, check_finite, write_safetensors
from xmcap.training.checkpoints import weights
from xmcap.training.checkpoints.read import check_same, flat


def to_t5x(run: str, out: str, say: Callable[[str], None] = print) -> pathlib.Path:
  """Writes OUT/checkpoint_0 of t5x: a run's parameters, Adafactor's state as before its first step, step 0.

  All parameters are held in memory at once.

  Args:
    run: a folder of `xmcap train`; its newest checkpoint that can be read is taken.
    out: the new folder.
    say: prints a line.

  Returns:
    The checkpoint, for `RestoreCheckpointConfig.path`.

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
  variables = variable_shapes(t5x_adapter.captioner())
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

  Args:
    path: one `checkpoint_N`, or a folder of them, whose newest is taken.
    out: the new folder, which is returned.
    say: prints a line.

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
  outputs = [_output(name, tensor, found) for name, tensor in weights.one_by_one(params).items()]
  importing.make_folder(folder)
  size = write_safetensors(folder / weights.PARAMS, outputs, {"format": "xmcap", "source": "t5x"})
  numbers = importing.count(outputs)
  say(f"{found}: {len(outputs)} parameters, {numbers:,} numbers; the optimizer's state is not taken")
  say(f"{folder / weights.PARAMS}: {size / 1e6:,.1f} MB; next: --gin.PRETRAINED={folder}")
  return folder


def _output(name: str, tensor: Tensor, where: pathlib.Path) -> Output:
  if tensor.dtype not in FLOATS:
    raise UsageError(f"{where}: {name} {tensor.shape} is {tensor.dtype}, no parameter: copy it again")

  def make():
    array = tensor.read()
    check_finite(name, array, str(where))
    return (array,)

  return Output((name,), (tensor.shape,), (tensor.dtype,), make)


def variable_shapes(module: Captioner) -> Any:
  """`params` and `params_axes` of a captioner, with shapes in the place of numbers."""
  side = module.vit.image_size
  shapes = ((1, side, side, 3), jnp.uint8), ((1, 1, 1), jnp.int32), ((1, 1, 1), jnp.int32)
  inputs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
  return jax.eval_shape(lambda *given: module.init(jax.random.key(0), *given), *inputs)


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
