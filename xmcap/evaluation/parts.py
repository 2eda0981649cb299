"""Work in parts that the processes of a run share; a finished part is not made again."""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from xmcap.files import files
from xmcap.progress import Progress, Say
from xmcap.training.hosts import join as hosts


def make(
  paths: Sequence[pathlib.Path], make_part: Callable[[int], Mapping[str, Any]], label: str, say: Say
) -> None:
  """Writes the files of all parts that are not there, in rounds of one part for each process.

  All processes of a run must call it with the same paths, in a folder that all of them see. They wait for each other
  after each round, so parts of about the same size should stand together. Afterwards all parts are there.

  Args:
    paths: the file of each part, `.npz`.
    make_part: number of a part -> its arrays by name.
    label: names the parts in lines of progress, such as `parts embedded`.
    say: takes these lines.
  """
  count = jax.process_count()
  own = range(len(paths))[jax.process_index() :: count]
  progress = Progress(say, label, len(own))
  for turn in range(-(-len(paths) // count)):
    if turn < len(own) and not (path := paths[own[turn]]).exists():
      arrays = make_part(own[turn])
      with files.whole(path) as file:
        np.savez(file, **arrays)
    hosts.barrier(label)
    if turn < len(own):
      progress(turn + 1)
