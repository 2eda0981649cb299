"""Makes the state that a run would begin with, without changing the run's folder."""

import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from xmcap.data import vocabulary as vocabulary_lib
from xmcap.errors import UsageError, XmcapError
from xmcap.evaluation import model_dir
from xmcap.models.parts import T5_PARAMS
from xmcap.training.checkpoints import read, start
from xmcap.training.checkpoints.settings import Settings
from xmcap.training.checkpoints.train_state import TrainState
from xmcap.training.checkpoints.weights import open_weights
from xmcap.training.state import StatePlan


class ReadOnlyCheckpoints:
  """The checkpoints of a run for `start.starting_state`; damaged ones are not moved aside.

  `settings` is None if the run's data cannot be read. With `from_scratch`, damaged checkpoints are ignored.
  """

  def __init__(self, run_dir: str, settings: Settings | None, from_scratch: bool):
    self.directory = read.checkpoints_dir(run_dir)
    self._settings, self._from_scratch = settings, from_scratch

  def restore_latest(
    self, target: TrainState, other_data: bool, say: Callable[[str], None]
  ) -> TrainState | None:
    if not read.steps_in(self.directory):
      return None
    try:
      return read.first_readable(
        self.directory, lambda path: read.restore(path, target, self._settings, other_data, say)
      )[1]
    except read.CheckpointDamaged:
      if not self._from_scratch:
        raise
      return None


def make(plan: StatePlan, own: ReadOnlyCheckpoints, vocabulary: Any, **begins: Any) -> tuple[str, TrainState]:
  """Returns a line that says where the state comes from, and the state.

  `vocabulary` is the run's, or None if unknown; `begins` are further arguments of `start.starting_state`.

  Raises:
    UsageError: a checkpoint is missing, or belongs to a model with another vocabulary.
    XmcapError: a name or shape does not match, or a parameter holds NaN or infinity.
  """
  if vocabulary is not None and not read.steps_in(own.directory):
    weights = begins["pretrained"] or begins["initial_checkpoint"] or ()
    for folder, prefix in start.folders_and_prefixes(weights):
      if not prefix or prefix.split("/")[0] in T5_PARAMS:
        _check_same_vocabulary(folder, vocabulary)
  state, origin = start.starting_state(own, plan.create, plan.target, **begins)
  finite = jax.tree.map(lambda leaf: jnp.all(jnp.isfinite(leaf)), state.params)
  bad = [path for path, good in read.flat(finite).items() if not good]
  if bad:
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    raise XmcapError(f"{origin}: {bad[0]}{more} holds NaN or infinity: use earlier weights")
  return origin, state


def _check_same_vocabulary(path: str, vocabulary: Any) -> None:
  """Checks that text weights belong to this vocabulary: by the file in a run's folder, else by the number of rows."""
  folder = pathlib.Path(path)
  # `folder` may be a run's folder, its `checkpoints`, or one checkpoint.
  files = [above / model_dir.VOCABULARY for above in (folder, *folder.absolute().parents[:2])]
  other = next((file for file in files if file.is_file()), None)
  if other is not None:
    if other.read_bytes() != vocabulary_lib.read_model(vocabulary.path):
      raise UsageError(
        f"{path}: trained with a different vocabulary from {vocabulary.path}: give --gin.VOCABULARY={other}"
      )
    return
  embedding = open_weights(path).tensors.get("token_embedder/embedding")
  if embedding is not None and embedding.shape[0] - vocabulary.size >= vocabulary_lib.ROW_MULTIPLE:
    raise UsageError(
      f"{path}: its embedding has {embedding.shape[0]:,} rows, but {vocabulary.path} has {vocabulary.size:,} tokens: "
      "give the vocabulary of these weights, --gin.VOCABULARY=PATH"
    )
